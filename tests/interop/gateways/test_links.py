"""
Connections between clusters that end, and servers that restart. A message arrives once while the
connections last, and messages arrive again after an interruption.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.interop.cluster.proxies import Proxy
from tests.interop.conftest import showLogs
from tests.interop.gateways.worlds import EVERYTHING, Plan, Site, World, formed, started, until
from tests.interop.plainclients import Client
from tests.interop.servers import OLD, OURS_FAST, OURS_PURE, REAL, Flavour

#: Makes a super-cluster for one test.
Form = Callable[..., World]

#: Who is on the other side, and whether we dial it: one of each kind, or all.
SIDES = [(OURS_PURE, 1), (REAL, 0)]
OTHERS = [(OURS_PURE, 0), (REAL, 1), (OLD, 0), (OLD, 1)]


@pytest.fixture
def form(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Form]:
    """
    Make a super-cluster for one test.
    """
    made: list[World] = []

    def start(plans: list[Plan], ports: dict[str, int] | None = None) -> World:
        world = formed(plans, tmp_path, ports)
        made.append(world)
        for site in world.sites:
            showLogs(request.node, site)
        return world

    yield start
    for world in made:
        world.close()


def exchanged(world: World, subject: bytes) -> None:
    """
    Publish a message from each client, and check that all clients receive all messages, once and in
    order, and that a queue group does too.
    """
    count = 50
    ears = [client.subscribe(subject) for client in world.clients]
    members = [client.subscribe(subject, b"g") for client in world.clients]
    world.sync()
    for place, client in enumerate(world.clients):
        for number in range(count):
            client.publish(subject, b"%d %d" % (place, number))
    world.sync()
    for place, client in enumerate(world.clients):
        heard = client.arrived(ears[place])
        for sender in range(len(world.clients)):
            own = [body for body in heard if body.startswith(b"%d " % sender)]
            assert own == [b"%d %d" % (sender, number) for number in range(count)]
    worked = [
        body
        for client, sid in zip(world.clients, members, strict=True)
        for body in client.arrived(sid)
    ]
    assert len(worked) == len(set(worked)) == count * len(world.clients)
    for client, ear, member in zip(world.clients, ears, members, strict=True):
        client.unsubscribe(ear)
        client.unsubscribe(member)


@pytest.mark.parametrize(
    "peer, dialler",
    SIDES + OTHERS if EVERYTHING else SIDES,
    ids=lambda value: value.name if isinstance(value, Flavour) else ("dialled", "dials")[value],
)
def test_restart(form: Form, peer: Flavour, dialler: int) -> None:
    """A cluster that restarts is connected again."""
    flavours = [peer, OURS_FAST] if dialler else [OURS_FAST, peer]
    world = form([Plan(flavours[0], "GA"), Plan(flavours[1], "GB", ["GA"])])
    exchanged(world, b"before")
    for place in range(2):
        world.sites[place].restart()
        world.connect(place)
        exchanged(world, b"after.%d" % place)
    assert world.complaints() == []


def switched(site: Site, gateway: str) -> str:
    """The mode in which a server sends to another cluster."""
    return str(site.modes().get(gateway, {}).get("interest_mode", ""))


#: How often connections are cut, and who publishes meanwhile.
CUTS = 6
FAR, NEAR = b"far ", b"near "


class Publisher(threading.Thread):
    """
    Publishes on many subjects, only a few of which are wanted, until it is stopped.

    @ivar sent: the number of wanted messages sent.
    """

    def __init__(self, site: Site, name: bytes = b"") -> None:
        """
        @param name: the text before the number in its messages.
        """
        super().__init__(daemon=True)
        self._client = Client(site)
        self._name = name
        self._isOver = False
        self.sent = 0

    def run(self) -> None:
        """Publish until stopped."""
        number = 0
        while not self._isOver:
            for _ in range(20):
                self._client.publish(b"unwanted.%d" % number, b"x")
                number += 1
            body = b"%b%d" % (self._name, self.sent)
            self._client.publish(b"wanted.plain", body)
            self._client.publish(b"wanted.queue", body)
            self.sent += 1
            self._client.flush()
            time.sleep(0.002)

    def finish(self) -> None:
        """Stop publishing."""
        self._isOver = True
        self.join()
        self._client.flush()
        self._client.close()


def test_switchUnderLoad(form: Form) -> None:
    """
    A cluster that gets more than a thousand unwanted subjects switches to announcing all interest,
    while interest changes. No message that was wanted all the time is lost or doubled, and no
    message for a group is either.
    """
    begins = 'interest { plugin: "switching" }'
    world = form([Plan(OURS_FAST, "GA", more=begins), Plan(OURS_PURE, "GB", ["GA"], more=begins)])
    sending, hearing = world.sites[0], world.clients[1]
    plain = hearing.subscribe(b"wanted.plain")
    members = [hearing.subscribe(b"wanted.queue", b"g") for _ in range(2)]
    world.sync()
    assert switched(sending, "GB") == "Optimistic"
    publisher = Publisher(sending)
    publisher.start()
    number = 0
    while switched(sending, "GB") != "Interest-Only" or number < 50:
        sid = hearing.subscribe(b"unwanted.%d" % number)
        hearing.unsubscribe(sid)
        number += 1
    before = publisher.sent
    until(lambda: publisher.sent > before + 100, "it goes on")
    publisher.finish()
    world.sync()
    wanted = [b"%d" % index for index in range(publisher.sent)]
    assert hearing.arrived(plain) == wanted
    worked = [body for sid in members for body in hearing.arrived(sid)]
    assert sorted(worked, key=int) == wanted
    assert sending.modes()["GB"]["switches"] == 2  # by way of transitioning
    exchanged(world, b"after")
    assert world.complaints() == []


@pytest.mark.parametrize(
    "peer",
    [OURS_PURE, REAL, OLD] if EVERYTHING else [OURS_PURE, REAL],
    ids=lambda flavour: flavour.name,
)
def test_cutWhileSwitching(peer: Flavour, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """
    While interest is sent and changes, the connections break repeatedly. A break loses at most
    consecutive messages, no message comes twice or late, traffic within the cluster is not
    affected, and afterwards all wanted messages arrive, those of a group too.
    """
    plans = [Plan(OURS_FAST, "GA"), Plan(peer, "GB", ["GA"])]
    sites: list[Site] = []
    first = started(plans[:1], _home(tmp_path, "first"))
    sites += first
    try:
        with Proxy(first[0].gatewayPort) as proxy:
            ports = {"GA": proxy.port}
            sites += started(plans[1:], _home(tmp_path, "second"), ports)
            for site in sites:
                showLogs(request.node, site)
            world = World(sites)
            world.sync()
            _cutAndHeal(world, proxy)
            for client in world.clients:
                client.close()
    finally:
        for site in sites:
            site.stop()


def _home(path: Path, name: str) -> Path:
    home = path / name
    home.mkdir()
    return home


def _numbered(bodies: list[bytes], name: bytes) -> list[int]:
    """The numbers of the messages with a name."""
    return [int(body[len(name) :]) for body in bodies if body.startswith(name)]


def _cutAndHeal(world: World, proxy: Proxy) -> None:
    here, there = world.clients
    plain, member = there.subscribe(b"wanted.plain"), there.subscribe(b"wanted.queue", b"g")
    mine = here.subscribe(b"back.>")
    world.sync()
    publishers = [
        Publisher(site, name) for site, name in zip(world.sites, (FAR, NEAR), strict=True)
    ]
    for publisher in publishers:
        publisher.start()
    for number in range(CUTS):
        sid = there.subscribe(b"unwanted.%d" % number)
        time.sleep(0.1)
        proxy.cut()
        there.unsubscribe(sid)
    for publisher in publishers:
        publisher.finish()
    world.sync()
    far, near = (publisher.sent for publisher in publishers)
    for sid in (plain, member):
        heard = there.arrived(sid)
        assert _numbered(heard, NEAR) == list(range(near))
        came = [-1, *_numbered(heard, FAR), far]
        steps = [later - earlier for earlier, later in pairwise(came)]
        assert min(steps) > 0
        assert sum(step > 1 for step in steps) <= CUTS
    for number in range(100):
        here.publish(b"wanted.plain", b"%d" % number)
        here.publish(b"wanted.queue", b"%d" % number)
        there.publish(b"back.%d" % number, b"%d" % number)
    world.sync()
    wanted = [b"%d" % number for number in range(100)]
    assert there.arrived(plain) == there.arrived(member) == here.arrived(mine) == wanted


def test_silentConnection(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A connection that is open but silent is closed, and dialled again."""
    top = 'ping_interval: "300ms", ping_max: 2'
    plans = [Plan(OURS_FAST, "GA", top=top), Plan(OURS_FAST, "GB", ["GA"], top=top)]
    sites = started(plans[:1], _home(tmp_path, "first"))
    try:
        with Proxy(sites[0].gatewayPort) as proxy:
            sites += started(plans[1:], _home(tmp_path, "second"), {"GA": proxy.port})
            for site in sites:
                showLogs(request.node, site)
            before = World(sites)
            before.sync()
            for client in before.clients:
                client.close()  # It would be stale, too.
            proxy.silence()
            sites[1].waitForLog("Gateway connection closed: Stale Connection")
            proxy.heal()
            world = World(sites)
            exchanged(world, b"after")
            for client in world.clients:
                client.close()
    finally:
        for site in sites:
            site.stop()
