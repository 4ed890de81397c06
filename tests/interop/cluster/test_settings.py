"""
The keys of a C{cluster} block, between natsbroker and nats-server, dialled from either side.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.certificates import writeCertificates
from tests.interop.cluster.members import CONFIG, Member, Mesh, formed
from tests.interop.conftest import showLogs
from tests.interop.plainclients import Client
from tests.interop.servers import OLD, OURS_FAST, REAL, Flavour

PAIRS = [(OURS_FAST, REAL), (REAL, OURS_FAST)]

#: Makes a cluster of members of some kinds with more in their C{cluster} blocks.
Form = Callable[..., Mesh]

eachPair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "-".join(x.name for x in pair))


@pytest.fixture
def form(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Form]:
    """
    Make a cluster for one test.
    """
    made: list[Mesh] = []

    def start(flavours: tuple[Flavour, ...], more: str | dict[str, str]) -> Mesh:
        mesh = formed(flavours, tmp_path, more)
        made.append(mesh)
        for member in mesh.members:
            showLogs(request.node, member)
        return mesh

    yield start
    for mesh in made:
        mesh.close()


def within(deadline: float) -> None:
    """
    @raise TimeoutError: if the time is over.
    """
    if time.monotonic() > deadline:
        raise TimeoutError("it does not come to pass")
    time.sleep(0.02)


def exchanged(mesh: Mesh, subject: bytes, user: str = "a", count: int = 50) -> None:
    """
    Publish a message from each client of an account, and check that all clients receive all
    messages, once and in order.
    """
    deadline = time.monotonic() + 10.0
    clients = [Client(member, user) for member in mesh.members]
    ears = [client.subscribe(subject) for client in clients]
    mesh.sync()
    # The account's own connection is not that of account A: wait on it, too.
    for client in clients:
        for other, ear in zip(clients, ears, strict=True):
            while (b"", b"", b"hello %d" % id(client)) not in other.got[ear]:
                within(deadline)
                client.publish(subject, b"hello %d" % id(client))
                client.flush()
                other.flush()
            within(deadline)
    for client in clients:
        client.publish(subject, b"end of hellos")
    for place, client in enumerate(clients):
        ends = 0
        while ends < len(clients):
            ends += client.take(ears[place], 1) == [b"end of hellos"]
    for place, client in enumerate(clients):
        for number in range(count):
            client.publish(subject, b"%d %d" % (place, number))
    for place, client in enumerate(clients):
        heard = client.take(ears[place], count * len(clients))
        for sender in range(len(clients)):
            own = [body for body in heard if body.startswith(b"%d " % sender)]
            assert own == [b"%d %d" % (sender, number) for number in range(count)]
        client.close()


@pytest.mark.parametrize(
    "pair",
    [*PAIRS, (OURS_FAST, OURS_FAST), (OLD, OURS_FAST)],
    ids=lambda p: f"{p[0].name}-{p[1].name}",
)
def test_tls(form: Form, pair: tuple[Flavour, Flavour], tmp_path: Path) -> None:
    """Routes are encrypted, and both ends send certificates."""
    writeCertificates(tmp_path)
    mesh = form(
        pair,
        f"tls {{ cert_file: '{tmp_path}/server.pem', key_file: '{tmp_path}/server-key.pem', "
        f"ca_file: '{tmp_path}/ca.pem' }}",
    )
    exchanged(mesh, b"secure")
    assert mesh.complaints() == []


@pytest.mark.parametrize("dialled", [OURS_FAST, REAL], ids=lambda flavour: flavour.name)
def test_otherName(dialled: Flavour, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A peer with a certificate for another name is disconnected."""
    writeCertificates(tmp_path)
    homes = [tmp_path / name for name in ("one", "two")]
    for home in homes:
        home.mkdir()
    block = "tls {{ cert_file: '{0}/{1}.pem', key_file: '{0}/{1}-key.pem', ca_file: '{0}/ca.pem' }}"
    one = Member(dialled, homes[0], "one", [], block.format(tmp_path, "client")).start()
    showLogs(request.node, one)
    try:
        routes = [one.routePort]
        two = Member(OURS_FAST, homes[1], "two", routes, block.format(tmp_path, "server"))
        showLogs(request.node, two)
        try:
            two.start()
            two.waitForLog("TLS handshake error: certificate is not valid for 127.0.0.1")
            assert "Remote: one" not in two.log()
        finally:
            two.stop()
    finally:
        one.stop()


@eachPair
def test_dedicated(form: Form, pair: tuple[Flavour, Flavour]) -> None:
    """Accounts may have routes of their own, besides the pool of three and the system account's."""
    mesh = form(pair, "accounts: [A], pool_size: 3")
    exchanged(mesh, b"own")
    exchanged(mesh, b"shared", "b")
    ours = next(member for member in mesh.members if member.flavour is OURS_FAST)
    made = ours.log().count("Route connection created")
    assert made - ours.log().count("Router connection closed: Duplicate Route") == 5
    assert mesh.complaints() == []


@eachPair
def test_differentPools(form: Form, pair: tuple[Flavour, Flavour]) -> None:
    """Pools of different sizes work together."""
    mesh = form(pair, {"n0": "pool_size: 2", "n1": "pool_size: 5"})
    exchanged(mesh, b"a")
    exchanged(mesh, b"b", "b")
    assert mesh.complaints() == []


@eachPair
def test_noPool(form: Form, pair: tuple[Flavour, Flavour]) -> None:
    """A cluster works without a pool."""
    mesh = form(pair, "pool_size: -1")
    exchanged(mesh, b"a")
    exchanged(mesh, b"b", "b")
    assert mesh.complaints() == []


@pytest.mark.parametrize("mode", ["s2_fast", "s2_auto"])
@eachPair
def test_compression(form: Form, pair: tuple[Flavour, Flavour], mode: str) -> None:
    """A nats-server that offers compression is accepted as a member without it."""
    blocks = {"real": f"compression: {mode}", "ours-fast": "compression: accept"}
    mesh = form(pair, {f"n{place}": blocks[flavour.name] for place, flavour in enumerate(pair)})
    exchanged(mesh, b"plain")
    assert mesh.complaints() == []


@eachPair
def test_sameName(pair: tuple[Flavour, Flavour], tmp_path: Path) -> None:
    """
    Two servers with the same name do not form a cluster, and the first one that notices logs the
    reason.
    """
    homes = [tmp_path / name for name in ("one", "two")]
    members: list[Member] = []
    try:
        for home, flavour in zip(homes, pair, strict=True):
            home.mkdir()
            routes = [member.routePort for member in members]
            members.append(Member(flavour, home, "twin", routes).start())
        deadline = time.monotonic() + 10.0
        while not any("duplicate name" in member.log() for member in members):
            within(deadline)
        one, two = (Client(member) for member in members)
        ear = two.subscribe(b"foo")
        one.publish(b"foo", b"no")
        one.flush()
        assert two.arrived(ear) == []
        one.close()
        two.close()
    finally:
        for member in members:
            member.stop()


@pytest.mark.parametrize("hub", [REAL, OLD], ids=lambda flavour: flavour.name)
def test_leafnodes(hub: Flavour, tmp_path: Path) -> None:
    """
    A client behind a leafnode of a nats-server member exchanges messages with our clients: plain
    ones, in queue groups, with headers and a reply, until the leafnode disconnects.
    """
    headers = b"NATS/1.0\r\nA: b\r\n\r\n"
    homes = [tmp_path / name for name in ("hub", "ours", "leaf")]
    for home in homes:
        home.mkdir()
    leafnodes = 'leafnodes { listen: "127.0.0.1:-1" }'
    members = [Member(hub, homes[0], "hub", [], top=leafnodes).start()]
    members.append(Member(OURS_FAST, homes[1], "ours", [members[0].routePort]).start())
    mesh = Mesh(members)
    for place in range(2):
        mesh.connect(place)
    mesh.form()
    match = mesh.members[0].waitForLog(r"Listening for leafnode connections on \S+:(\d+)")
    remote = f'url: "nats-leaf://a:a@127.0.0.1:{match[1]}", account: A'
    template = CONFIG.replace("name: C1", "name: LC")
    remotes = f"leafnodes {{ remotes: [ {{ {remote} }} ] }}"
    leaf = Member(REAL, homes[2], "leaf", [], top=remotes, template=template)
    try:
        leaf.start()
        ours, theirs = mesh.clients[1], Client(leaf)
        plain, queue = theirs.subscribe(b"down.*"), theirs.subscribe(b"down.*", b"q")
        ear, hello = ours.subscribe(b"up.*"), theirs.subscribe(b"hello")
        deadline = time.monotonic() + 10.0
        while not theirs.got[hello]:
            ours.publish(b"hello", b"")
            ours.flush()
            theirs.flush()
            within(deadline)
        ours.publish(b"down.1", b"first", b"_R.1")
        ours.publish(b"down.2", b"second", headers=headers)
        wanted = [(b"_R.1", b"", b"first"), (b"", headers, b"second")]
        assert theirs.messages(plain, 2) == wanted
        assert theirs.messages(queue, 2) == wanted
        theirs.publish(b"up.1", b"third", b"_R.2", headers)
        theirs.publish(b"up.2", b"fourth")
        assert ours.messages(ear, 2) == [(b"_R.2", headers, b"third"), (b"", b"", b"fourth")]
        for sid in (plain, queue):
            theirs.unsubscribe(sid)
        theirs.close()
        leaf.stop()
        # What was told is taken back: a request has nobody left.
        inbox = ours.subscribe(b"_R.3")
        while not ours.got[inbox]:
            ours.publish(b"down.3", b"", b"_R.3")
            ours.flush()
            within(deadline)
        assert b"503" in ours.messages(inbox, 1)[0][1]
        assert mesh.complaints() == []
    finally:
        leaf.stop()
        mesh.close()


@eachPair
def test_permissions(form: Form, pair: tuple[Flavour, Flavour]) -> None:
    """A denied subject does not pass, whichever side denies it."""
    mesh = form(
        pair,
        {
            member: "permissions { import: { deny: 'hidden.>' }, export: { deny: 'closed.>' } }"
            for member, flavour in zip(("n0", "n1"), pair, strict=True)
            if flavour is OURS_FAST
        },
    )
    place = pair.index(OURS_FAST)
    ours, theirs = mesh.clients[place], mesh.clients[1 - place]
    hidden, open_ = ours.subscribe(b"hidden.*"), ours.subscribe(b"open.*")
    closed, also = theirs.subscribe(b"closed.*"), theirs.subscribe(b"open.*")
    mesh.sync()
    theirs.publish(b"hidden.x", b"no")
    theirs.publish(b"open.x", b"1")
    ours.publish(b"closed.x", b"no")
    ours.publish(b"open.x", b"2")
    assert sorted(ours.take(open_, 2)) == sorted(theirs.take(also, 2)) == [b"1", b"2"]
    mesh.sync()
    assert ours.arrived(hidden) == theirs.arrived(closed) == []


@eachPair
def test_reload(form: Form, pair: tuple[Flavour, Flavour]) -> None:
    """When a reload gives an account of nats-server its own route, natsbroker does the same."""
    mesh = form(pair, "pool_size: 3")
    exchanged(mesh, b"before", "b")
    real = next(member for member in mesh.members if member.flavour is REAL)
    real.reconfigure("pool_size: 3, accounts: [B]")
    real.signal("HUP")
    real.waitForLog("Reloaded server configuration")
    exchanged(mesh, b"after", "b")
    exchanged(mesh, b"as.before")


@eachPair
def test_lameDuck(form: Form, pair: tuple[Flavour, Flavour]) -> None:
    """In lame duck mode, clients of other members no longer get the address of the member."""
    mesh = form(pair, "")
    for place, member in enumerate(mesh.members):
        other = mesh.clients[1 - place]
        if member.flavour is not OURS_FAST:
            continue
        member.signal("USR2")
        deadline = time.monotonic() + 10.0
        while b"127.0.0.1:%d" % member.port in other.info:
            other.flush()
            within(deadline)
