"""
Super-clusters of natsbroker and nats-server, dialled from either side. Every message is accounted
for, and no server logs a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.conftest import showLogs
from tests.interop.gateways.worlds import EVERYTHING, Plan, World, formed
from tests.interop.passing import everywhere, shared
from tests.interop.servers import OLD, OURS, OURS_FAST, OURS_PURE, REAL

#: The first to dial is the server whose settings have the cluster.
WORLDS = {
    "ours": [Plan(OURS_FAST, "GA"), Plan(OURS_PURE, "GB", ["GA"])],
    "mixed": [
        Plan(OURS_FAST, "GA"),
        Plan(REAL, "GA"),
        Plan(OURS_FAST, "GB", ["GA"]),
        Plan(OLD, "GB", ["GA"]),
    ],
    "three": [
        Plan(REAL, "GA"),
        Plan(OURS_FAST, "GB", ["GA"]),
        Plan(OURS_PURE, "GC", ["GA"]),
    ],
}

if EVERYTHING:
    WORLDS |= {
        "dials-real": [Plan(REAL, "GA"), Plan(OURS_FAST, "GB", ["GA"])],
        "dials-old": [Plan(OLD, "GA"), Plan(OURS_PURE, "GB", ["GA"])],
        "dialled-by-real": [Plan(OURS_PURE, "GA"), Plan(REAL, "GB", ["GA"])],
        "dialled-by-old": [Plan(OURS_FAST, "GA"), Plan(OLD, "GB", ["GA"])],
    }

#: What servers of different ages say of each other's routes.
BETWEEN = ("dedicated route for account",)

COUNT = 50


@pytest.fixture(scope="module", params=WORLDS)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """
    A super-cluster.
    """
    world = formed(WORLDS[request.param], tmp_path_factory.mktemp("gateways"))
    yield world
    world.close()


@pytest.fixture
def world(running: World, request: pytest.FixtureRequest) -> World:
    """
    The super-cluster, whose logs are shown if the test fails.
    """
    for site in running.sites:
        showLogs(request.node, site)
    return running


def test_reachesEveryBroker(world: World) -> None:
    """
    A message published at any broker is received at all brokers, once, in order, with headers and
    reply subject.
    """
    everywhere(world, COUNT)


def test_requests(world: World) -> None:
    """
    Requests at any broker are answered by services at any other, also with an inbox that was just
    subscribed to.
    """
    for place, server in enumerate(world.clients):
        service = server.subscribe(b"service.%d" % place)
        world.sync()
        for other in world.clients:
            name = b"_INBOX.%d.%d" % (id(other), place)
            inbox = other.subscribe(name)
            other.publish(b"service.%d" % place, b"?", name)
            ((reply, _, body),) = server.messages(service, 1)
            assert reply == name
            server.publish(reply, b"answer to " + body)
            assert other.take(inbox, 1) == [b"answer to ?"]
            other.unsubscribe(inbox)
        server.unsubscribe(service)


def test_manyRequests(world: World) -> None:
    """A hundred requests at the same time each get their own answer."""
    asking, serving = world.clients[0], world.clients[-1]
    service = serving.subscribe(b"many.*")
    world.sync()
    inbox = asking.subscribe(b"_INBOX.many.*")
    for number in range(100):
        asking.publish(b"many.%d" % number, b"%d" % number, b"_INBOX.many.%d" % number)
    for reply, _, body in serving.messages(service, 100):
        assert reply == b"_INBOX.many." + body
        serving.publish(reply, b"answer %b" % body)
    heard = asking.take(inbox, 100)
    assert sorted(heard) == sorted(b"answer %d" % number for number in range(100))
    world.sync()
    assert asking.arrived(inbox) == []
    asking.unsubscribe(inbox)
    serving.unsubscribe(service)


def test_queues(world: World) -> None:
    """
    One member of a group with members in every cluster gets each message, in the publisher's own
    cluster.
    """
    for place, here in enumerate(shared(world, COUNT)):
        for body in here:
            sender = world.sites[int(body.split()[0])]
            assert sender.gateway == world.sites[place].gateway


def test_distantQueues(world: World) -> None:
    """Two groups have members in other clusters only. Each group gets each message once."""
    home = world.sites[0].gateway
    far = [place for place, site in enumerate(world.sites) if site.gateway != home]
    ones = [(place, world.clients[place].subscribe(b"far", b"q")) for place in far]
    others = [(place, world.clients[place].subscribe(b"far", b"r")) for place in far]
    plain = [(place, world.clients[place].subscribe(b"far")) for place in far]
    world.sync()
    wanted = [b"%d" % number for number in range(COUNT)]
    for body in wanted:
        world.clients[0].publish(b"far", body)
    world.sync()
    for group in (ones, others):
        heard = [body for place, sid in group for body in world.clients[place].arrived(sid)]
        assert sorted(heard, key=int) == wanted
    for place, sid in plain:
        assert world.clients[place].arrived(sid) == wanted
    for place, sid in [*ones, *others, *plain]:
        world.clients[place].unsubscribe(sid)


def test_queueMoves(world: World) -> None:
    """
    When the last local member of a group leaves, members in other clusters get the messages, until
    it is back.
    """
    home, far = world.clients[0], world.clients[-1]
    there = far.subscribe(b"moves", b"q")
    for turn in range(3):
        here = home.subscribe(b"moves", b"q")
        world.sync()
        home.publish(b"moves", b"here %d" % turn)
        assert home.take(here, 1) == [b"here %d" % turn]
        home.unsubscribe(here)
        world.sync()
        home.publish(b"moves", b"there %d" % turn)
        assert far.take(there, 1) == [b"there %d" % turn]
    far.unsubscribe(there)


def test_accounts(world: World) -> None:
    """A message in one account does not reach another."""
    ours, theirs = world.client(0, "b"), world.client(len(world.sites) - 1, "b")
    other = world.clients[-1].subscribe(b"secret")
    mine = theirs.subscribe(b"secret")
    world.sync()
    world.sync([ours, theirs])
    ours.publish(b"secret", b"of B")
    world.clients[0].publish(b"secret", b"of A")
    assert theirs.take(mine, 1) == [b"of B"]
    assert world.clients[-1].take(other, 1) == [b"of A"]
    world.sync()
    world.sync([ours, theirs])
    assert theirs.arrived(mine) == world.clients[-1].arrived(other) == []
    world.clients[-1].unsubscribe(other)
    ours.close()
    theirs.close()


def test_unsubscribed(world: World) -> None:
    """After interest has ended, no message arrives, and a request has no responders."""
    asking, serving = world.clients[0], world.clients[-1]
    for turn in range(3):
        sid = serving.subscribe(b"fleeting")
        world.sync()
        asking.publish(b"fleeting", b"%d" % turn)
        assert serving.take(sid, 1) == [b"%d" % turn]
        serving.unsubscribe(sid)
        world.sync()
        asking.publish(b"fleeting", b"too late")
        world.sync()
        assert serving.got[sid] == []


def test_largestMessage(world: World) -> None:
    """A message of the largest permitted size passes."""
    body = bytes(range(256)) * 4096
    sid = world.clients[-1].subscribe(b"large")
    world.sync()
    world.clients[0].publish(b"large", body)
    assert world.clients[-1].take(sid, 1) == [body]
    world.clients[-1].unsubscribe(sid)


def test_zNobodyComplains(world: World) -> None:
    """After all these tests, no server has logged anything but notices."""
    assert world.complaints(BETWEEN) == []
    assert any(site.flavour in OURS for site in world.sites)
