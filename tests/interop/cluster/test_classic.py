"""
Clusters of three members with the classic dialect, where the settings of all name only the first.
Every message is accounted for.

Servers from before NATS 2.0 take part if C{NATSBROKER_GNATSD} has their paths::

    NATSBROKER_GNATSD=/path/gnatsd-1.4.1:/path/gnatsd-0.9.4 \\
        python -m pytest tests/interop/cluster/test_classic.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.certificates import writeCertificates
from tests.interop.cluster.members import PLAIN_CONFIG, Member, Mesh, formed
from tests.interop.conftest import showLogs
from tests.interop.passing import HEADERS, answerTo, distantQueues, everywhere, requests, shared
from tests.interop.plainclients import Client
from tests.interop.servers import GNATSD, OURS, OURS_FAST, OURS_PURE, PATIENCE, REAL, Flavour

CLASSIC, AUTO = "dialect: classic", "dialect: auto"

#: Who is in a cluster, and what each of them speaks.
SETS = {
    "classic": ((OURS_FAST, OURS_PURE, OURS_FAST), (CLASSIC, CLASSIC, CLASSIC)),
    "auto": ((OURS_FAST, OURS_PURE, OURS_FAST), (AUTO, CLASSIC, AUTO)),
}
for _old in GNATSD:
    SETS[f"{_old.name}-first"] = (_old, OURS_FAST, OURS_PURE), ("", CLASSIC, AUTO)
    SETS[f"{_old.name}-last"] = (OURS_FAST, OURS_PURE, _old), (AUTO, CLASSIC, "")
    SETS[f"{_old.name}-most"] = (_old, OURS_FAST, GNATSD[0]), ("", CLASSIC, "")
    SETS[f"{_old.name}-auto"] = (OURS_FAST, _old, GNATSD[-1]), (AUTO, "", "")

#: Starts a member of some kind, with more in its C{cluster} block, that has others' ports.
Start = Callable[..., Member]

COUNT = 100


@pytest.fixture(scope="module", params=SETS)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mesh]:
    """
    A cluster.
    """
    flavours, blocks = SETS[request.param]
    more = {f"n{place}": block for place, block in enumerate(blocks)}
    mesh = formed(flavours, tmp_path_factory.mktemp("classic"), more, PLAIN_CONFIG)
    yield mesh
    mesh.close()


def isOurs(mesh: Mesh, place: int) -> bool:
    """Whether a member is natsbroker."""
    return mesh.members[place].flavour in OURS


def test_reachesEveryMember(mesh: Mesh) -> None:
    """
    A message published at any member is received at all members, once, in order, with its reply
    subject.
    """
    everywhere(mesh, COUNT, b"")


def test_headers(mesh: Mesh) -> None:
    """A message that loses its headers keeps its payload."""
    for place, client in enumerate(mesh.clients):
        if not isOurs(mesh, place):
            continue
        ears = [other.subscribe(b"headed") for other in mesh.clients]
        mesh.sync()
        client.publish(b"headed", b"body", b"r", HEADERS)
        for other, ear in zip(mesh.clients, ears, strict=True):
            ((reply, headers, body),) = other.messages(ear, 1)
            assert (reply, body) == (b"r", b"body")
            assert headers in ((HEADERS,) if other is client else (HEADERS, b""))
            other.unsubscribe(ear)


def test_sizes(mesh: Mesh) -> None:
    """Messages of all sizes pass unchanged."""
    bodies = [bytes([size % 251]) * size for size in (0, 1, 4095, 65537, 1_000_000)]
    for place, client in enumerate(mesh.clients):
        others = [other for other in mesh.clients if other is not client]
        ears = [other.subscribe(b"large.%d" % place) for other in others]
        mesh.sync()
        for body in bodies:
            client.publish(b"large.%d" % place, body)
        for other, ear in zip(others, ears, strict=True):
            assert other.take(ear, len(bodies)) == bodies
            other.unsubscribe(ear)


def test_requests(mesh: Mesh) -> None:
    """Requests at any member are answered by services at any other."""
    requests(mesh, isTold=True)


def test_queues(mesh: Mesh) -> None:
    """
    One member of a queue group with members everywhere gets each message. At a natsbroker member it
    is a local one.
    """
    for place, here in enumerate(shared(mesh, COUNT, 2)):
        if isOurs(mesh, place):
            assert sum(body.startswith(b"%d " % place) for body in here) == COUNT


@pytest.mark.parametrize("place", range(3))
def test_distantQueues(mesh: Mesh, place: int) -> None:
    """
    Two groups have members only at other servers. Each group gets each message, by its weight.
    """
    assert all(distantQueues(mesh, place, COUNT, b"", 2))


@pytest.mark.parametrize("how", ["unsub", "max", "leave"])
def test_nobodyLeft(mesh: Mesh, how: str) -> None:
    """When the last subscriber has gone, for any reason, our members report no responders."""
    subject = b"gone." + how.encode()
    for place, client in enumerate(mesh.clients):
        leaver = Client(mesh.members[place])
        sid = leaver.subscribe(subject)
        member = leaver.subscribe(subject, b"q")
        mesh.sync()
        others = [
            peer
            for number, peer in enumerate(mesh.clients)
            if peer is not client and isOurs(mesh, number)
        ]
        if how == "max":
            leaver.unsubscribe(sid, 2)
            leaver.unsubscribe(member, 1)
            publisher = mesh.clients[(place + 1) % 3]
            publisher.publish(subject, b"1")
            assert leaver.take(member, 1) == [b"1"]
            publisher.publish(subject, b"2")
            assert leaver.take(sid, 2) == [b"1", b"2"]
            leaver.flush()
        elif how == "unsub":
            leaver.unsubscribe(sid)
            leaver.unsubscribe(member)
        leaver.close()
        # A member learns of a client's end when it does.
        deadline = time.monotonic() + PATIENCE
        while not all(b"503" in answerTo(other, subject) for other in others):
            assert time.monotonic() < deadline, "somebody still responds"


def test_urls(mesh: Mesh) -> None:
    """Clients learn the addresses of other members."""
    for place, client in enumerate(mesh.clients):
        client.flush()
        for member in mesh.members if isOurs(mesh, place) else ():
            assert b"127.0.0.1:%d" % member.port in client.info


def test_restart(mesh: Mesh) -> None:
    """After a restart of any member all messages arrive again."""
    mesh.restarted(COUNT)


def test_quietLogs(mesh: Mesh) -> None:
    """After all these tests, every log has notices only."""
    assert mesh.complaints() == []


@pytest.fixture
def started(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """
    Start members for one test.
    """
    members: list[Member] = []

    def start(flavour: Flavour, more: str, *routes: int) -> Member:
        home = tmp_path / f"n{len(members)}"
        home.mkdir()
        member = Member(flavour, home, home.name, routes, more, template=PLAIN_CONFIG)
        showLogs(request.node, member)
        members.append(member)
        member.start()
        return member

    yield start
    for member in members:
        member.stop()


def test_auto(started: Start) -> None:
    """With a newer server, C{auto} uses the modern dialect, headers included."""
    first = started(OURS_FAST, AUTO)
    mesh = Mesh(
        [first, started(REAL, "", first.routePort), started(OURS_PURE, AUTO, first.routePort)]
    )
    for place in range(3):
        mesh.connect(place)
    mesh.form()
    ears = [client.subscribe(b"headed") for client in mesh.clients]
    mesh.sync()
    for client in mesh.clients:
        client.publish(b"headed", b"x", b"", HEADERS)
    for client, ear in zip(mesh.clients, ears, strict=True):
        assert client.messages(ear, 3) == [(b"", HEADERS, b"x")] * 3
        client.close()
    assert mesh.complaints() == []


def test_dialledByNewer(started: Start) -> None:
    """A newer server that dials is refused with an error, and the cluster is not affected."""
    ours = started(OURS_FAST, CLASSIC)
    newer = started(REAL, "", ours.routePort)
    newer.waitForLog("Route Error 'Rejecting connection, routes speak the classic dialect here'")
    ours.waitForLog("Router connection closed: Wrong Dialect")
    for member in (ours, newer):
        client = Client(member)
        ear = client.subscribe(b"still")
        client.publish(b"still", b"here")
        assert client.take(ear, 1) == [b"here"]
        client.close()


def test_newerIsDialled(started: Start) -> None:
    """
    A newer server that we dial is refused by both ends, and dialled again, because it may be
    replaced.
    """
    newer = started(REAL, "")
    ours = started(OURS_FAST, CLASSIC, newer.routePort)
    for _ in range(2):
        ours.waitForLog("Router connection closed: Wrong Dialect", ours.logLength())
    newer.waitForLog('Rejecting connection, cluster name "" does not match "C1"')


@pytest.mark.parametrize("other", [OURS_PURE, *GNATSD], ids=lambda flavour: flavour.name)
@pytest.mark.parametrize("isFirst", [True, False], ids=["first", "last"])
def test_tls(started: Start, tmp_path: Path, other: Flavour, isFirst: bool) -> None:
    """Routes are encrypted from their first byte, and both ends send certificates."""
    writeCertificates(tmp_path)
    files = f"cert_file: '{tmp_path}/server.pem'\nkey_file: '{tmp_path}/server-key.pem'"
    tls = f"tls {{\n{files}\nca_file: '{tmp_path}/ca.pem'\n}}"
    both = [
        (OURS_FAST, f"{CLASSIC}\n{tls}"),
        (other, f"{AUTO}\n{tls}" if other in OURS else tls),
    ]
    first, second = both if isFirst else reversed(both)
    one = started(*first)
    mesh = Mesh([one, started(*second, one.routePort)])
    for place in range(2):
        mesh.connect(place)
    mesh.form()
    ears = [client.subscribe(b"secret") for client in mesh.clients]
    mesh.sync()
    for client in mesh.clients:
        client.publish(b"secret", b"x")
    for client, ear in zip(mesh.clients, ears, strict=True):
        assert client.take(ear, 2) == [b"x"] * 2
        client.close()
    assert mesh.complaints() == []


@pytest.mark.parametrize("other", [OURS_PURE, *GNATSD], ids=lambda flavour: flavour.name)
def test_permissions(started: Start, other: Flavour) -> None:
    """
    A message on a denied subject does not pass, also if the denied subject is within an allowed
    pattern.
    """
    rules = "permissions { import { deny: 'hidden.>' }, export { deny: 'closed.>' } }"
    one = started(OURS_FAST, f"{CLASSIC}\n{rules}")
    mesh = Mesh([one, started(other, CLASSIC if other in OURS else "", one.routePort)])
    for place in range(2):
        mesh.connect(place)
    mesh.form()
    ours, theirs = mesh.clients
    hidden, open_ = ours.subscribe(b"hidden.*"), ours.subscribe(b"open.*")
    closed, wide = theirs.subscribe(b"closed.*"), theirs.subscribe(b">", b"q")
    mesh.sync()
    theirs.publish(b"hidden.x", b"no")
    theirs.publish(b"open.x", b"1")
    ours.publish(b"closed.x", b"no")
    ours.publish(b"open.x", b"2")
    assert sorted(ours.take(open_, 2)) == [b"1", b"2"]
    mesh.sync()
    assert ours.arrived(hidden) == theirs.arrived(closed) == []
    assert b"2" in theirs.arrived(wide) and not theirs.got[wide]
    for client in mesh.clients:
        client.close()


@pytest.mark.parametrize("other", [OURS_PURE, *GNATSD], ids=lambda flavour: flavour.name)
@pytest.mark.parametrize("isFirst", [True, False], ids=["first", "last"])
def test_passwords(started: Start, other: Flavour, isFirst: bool) -> None:
    """A peer with a wrong password is refused with an error."""
    wrong = "authorization { user: u, password: wrong }"
    blocks = {flavour.name: CLASSIC if flavour in OURS else "" for flavour in (OURS_FAST, other)}
    first, second = (OURS_FAST, other) if isFirst else (other, OURS_FAST)
    one = started(first, f"{blocks[first.name]}\n{wrong}")
    two = started(second, blocks[second.name], one.routePort)
    two.waitForLog("Route Error .Authorization Violation")
    mesh = Mesh([one, two])
    for place in range(2):
        mesh.connect(place)
    ear = mesh.clients[0].subscribe(b"secret")
    mesh.clients[1].publish(b"secret", b"x")
    mesh.clients[1].flush()
    mesh.clients[0].publish(b"secret", b"own")
    assert mesh.clients[0].take(ear, 1) == [b"own"]
    for client in mesh.clients:
        client.close()


def test_migration(started: Start) -> None:
    """A running cluster can change from one dialect to the other, member by member."""
    one = started(OURS_FAST, CLASSIC)
    mesh = Mesh([one, started(OURS_PURE, CLASSIC, one.routePort)])
    for place in range(2):
        mesh.connect(place)
    mesh.form()
    ears = [client.subscribe(b"all") for client in mesh.clients]
    passed = []
    for place, dialect in ((0, "auto"), (1, "auto"), (0, "modern"), (1, "modern")):
        member = mesh.members[place]
        since = member.logLength()
        port, member.routePort = member.routePort, -1
        member.reconfigure(f"dialect: {dialect}")
        member.routePort = port
        member.signal("HUP")
        member.waitForLog("Reloaded server configuration", since)
        mesh.form()
        mesh.clients[0].publish(b"all", b"x", b"", HEADERS)
        ((_, headers, body),) = mesh.clients[1].messages(ears[1], 1)
        passed.append(headers == HEADERS and body == b"x")
    assert passed == [False, True, True, True]
    for client in mesh.clients:
        client.close()
