"""
Clusters of natsbroker and nats-server, three at a time, of which the last two were told of the
first. Every message is accounted for, and real servers have nothing to complain of.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.cluster.members import Client, Mesh, formed
from tests.interop.conftest import showLogs
from tests.interop.servers import OLD, OURS, OURS_FAST, OURS_PURE, REAL, Flavour

SETS = [
    (OURS_FAST, OURS_PURE, OURS_FAST),
    (OURS_FAST, REAL, OLD),
    (REAL, OURS_FAST, OLD),
    (OLD, OURS_FAST, OURS_PURE),
]

COUNT = 100
HEADERS = b"NATS/1.0\r\nA: 1\r\n\r\n"


@pytest.fixture(scope="module", params=SETS, ids=lambda each: "-".join(x.name for x in each))
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mesh]:
    """
    A cluster.
    """
    flavours: tuple[Flavour, ...] = request.param
    mesh = formed(flavours, tmp_path_factory.mktemp("cluster"))
    yield mesh
    mesh.close()


@pytest.fixture
def mesh(running: Mesh, request: pytest.FixtureRequest) -> Mesh:
    """
    The cluster, whose logs are shown if the test fails.
    """
    for member in running.members:
        showLogs(request.node, member)
    return running


def test_everywhere(mesh: Mesh) -> None:
    """What is published anywhere is heard everywhere, once, in order, with headers and reply."""
    wide = [client.subscribe(b"all.*.x") for client in mesh.clients]
    wider = [client.subscribe(b"all.>") for client in mesh.clients]
    mesh.sync()
    for place, client in enumerate(mesh.clients):
        for number in range(COUNT):
            headers = HEADERS if number % 2 else b""
            client.publish(b"all.%d.x" % place, b"%d %d" % (place, number), b"r", headers)
    for place, client in enumerate(mesh.clients):
        for sid in (wide[place], wider[place]):
            messages = client.messages(sid, COUNT * len(mesh.clients))
            for sender in range(len(mesh.clients)):
                heard = [each for each in messages if each[2].startswith(b"%d " % sender)]
                assert heard == [
                    (b"r", HEADERS if number % 2 else b"", b"%d %d" % (sender, number))
                    for number in range(COUNT)
                ]
    mesh.sync()
    for place, client in enumerate(mesh.clients):
        assert client.arrived(wide[place]) == client.arrived(wider[place]) == []
        client.unsubscribe(wide[place])
        client.unsubscribe(wider[place])


def test_requests(mesh: Mesh) -> None:
    """Everybody answers everybody's requests."""
    for place, server in enumerate(mesh.clients):
        service = server.subscribe(b"service.%d" % place)
        mesh.sync()
        for other in mesh.clients:
            inbox = other.subscribe(b"_INBOX.%d" % id(other))
            other.publish(b"service.%d" % place, b"?", b"_INBOX.%d" % id(other))
            ((reply, _, body),) = server.messages(service, 1)
            server.publish(reply, b"answer to " + body)
            assert other.take(inbox, 1) == [b"answer to ?"]
            other.unsubscribe(inbox)
        server.unsubscribe(service)


def test_queues(mesh: Mesh) -> None:
    """Of a queue group that is everywhere, one member gets each message; ours keep it at home."""
    members = [[client.subscribe(b"work.*", b"q") for _ in range(2)] for client in mesh.clients]
    plain = mesh.clients[0].subscribe(b"work.*")
    mesh.sync()
    for place, client in enumerate(mesh.clients):
        for number in range(COUNT):
            client.publish(b"work.%d" % place, b"%d %d" % (place, number))
    mesh.sync()
    heard: list[bytes] = []
    for place, client in enumerate(mesh.clients):
        here = [body for sid in members[place] for body in client.arrived(sid)]
        if mesh.members[place].flavour in OURS:
            own = [body for body in here if body.startswith(b"%d " % place)]
            assert len(own) == COUNT
        heard += here
    expected = [
        b"%d %d" % (place, number) for place in range(len(mesh.clients)) for number in range(COUNT)
    ]
    assert sorted(heard) == sorted(expected)
    assert sorted(mesh.clients[0].arrived(plain)) == sorted(expected)
    for place, client in enumerate(mesh.clients):
        for sid in [*members[place], *([plain] if place == 0 else [])]:
            client.unsubscribe(sid)


def test_distantQueues(mesh: Mesh) -> None:
    """Of two groups that are only elsewhere, each gets each message, by its weight."""
    here, one, two = mesh.clients
    ones = [one.subscribe(b"far", b"q") for _ in range(3)]
    twos = [two.subscribe(b"far", b"q"), two.subscribe(b"far", b"r")]
    mesh.sync()
    for number in range(COUNT):
        here.publish(b"far", b"%d" % number, b"", HEADERS if number % 2 else b"")
    mesh.sync()
    first = [body for sid in ones for body in one.arrived(sid)]
    second, other = (two.arrived(sid) for sid in twos)
    expected = [b"%d" % number for number in range(COUNT)]
    assert sorted(first + second) == sorted(expected) and other == expected
    assert first and second
    for sid in ones:
        one.unsubscribe(sid)
    for sid in twos:
        two.unsubscribe(sid)


@pytest.mark.parametrize("how", ["unsub", "max", "leave"])
def test_nobodyLeft(mesh: Mesh, how: str) -> None:
    """When the last subscriber has gone, in whatever way, the others know that nobody responds."""
    subject = b"gone." + how.encode()
    for place, client in enumerate(mesh.clients):
        leaver = Client(mesh.members[place])
        sid = leaver.subscribe(subject)
        member = leaver.subscribe(subject, b"q")
        mesh.sync()
        others = [each for each in mesh.clients if each is not client]
        if how == "max":
            leaver.unsubscribe(sid, 2)
            leaver.unsubscribe(member, 1)
            others[0].publish(subject, b"1")
            others[0].publish(subject, b"2")
            assert leaver.take(sid, 2) == [b"1", b"2"]
            assert leaver.take(member, 1) == [b"1"]
            leaver.flush()
        elif how == "unsub":
            leaver.unsubscribe(sid)
            leaver.unsubscribe(member)
        else:
            leaver.close()
            # The member learns of it when it does; clients of it hear nothing in between.
            while b"503" not in _asked(client, subject):
                pass
        mesh.sync()
        for other in others:
            assert b"503" in _asked(other, subject)
        leaver.close()


def _asked(client: Client, subject: bytes) -> bytes:
    """
    @return: the headers of the answer to a request; no bytes if there is none.
    """
    inbox = client.subscribe(b"_INBOX.gone")
    client.publish(subject, b"", b"_INBOX.gone")
    client.flush()
    answers = client.messages(inbox, len(client.got[inbox]))
    client.unsubscribe(inbox)
    return answers[0][1] if answers else b""


def test_accounts(mesh: Mesh) -> None:
    """Accounts do not hear each other, wherever they are."""
    strangers = [Client(member, "b") for member in mesh.members]
    ears = [stranger.subscribe(b">") for stranger in strangers]
    own = [client.subscribe(b"secret") for client in mesh.clients]
    mesh.sync()
    for client in mesh.clients:
        client.publish(b"secret", b"a")
    for place, client in enumerate(mesh.clients):
        assert client.take(own[place], 3) == [b"a"] * 3
    for stranger in strangers:
        stranger.publish(b"secret", b"b")
        stranger.flush()
    for place, stranger in enumerate(strangers):
        heard = stranger.take(ears[place], 1)
        while len(heard) < 3:
            heard += stranger.take(ears[place], 1)
        assert heard == [b"b"] * 3
    mesh.sync()
    for place, client in enumerate(mesh.clients):
        assert client.arrived(own[place]) == []
        client.unsubscribe(own[place])
    for stranger in strangers:
        stranger.close()


def test_urls(mesh: Mesh) -> None:
    """Clients know where else they can connect."""
    for client in mesh.clients:
        client.flush()
        for member in mesh.members:
            assert b"127.0.0.1:%d" % member.port in client.info


def test_restart(mesh: Mesh) -> None:
    """Any member can be restarted; then everything is as before."""
    for place in range(len(mesh.members)):
        others = [client for number, client in enumerate(mesh.clients) if number != place]
        ears = [client.subscribe(b"still.*") for client in others]
        mesh.members[place].restart()
        mesh.connect(place)
        mesh.form()
        for client in mesh.clients:
            for number in range(COUNT):
                client.publish(b"still.x", b"%d" % number)
        mesh.sync()
        expected = sorted([b"%d" % number for number in range(COUNT)] * 3)
        for client, sid in zip(others, ears, strict=True):
            assert sorted(client.arrived(sid)) == expected
            client.unsubscribe(sid)


def test_quiet(mesh: Mesh) -> None:
    """After all that, nobody's log has anything but notices."""
    assert mesh.complaints() == []
