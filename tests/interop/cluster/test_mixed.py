"""
Clusters of natsbroker and nats-server, three members each, where the settings of all name only the
first. Every message is accounted for, and nats-servers log no warnings.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.cluster.members import Mesh, formed
from tests.interop.passing import answerTo, distantQueues, everywhere, requests, shared
from tests.interop.plainclients import Client
from tests.interop.servers import OLD, OURS, OURS_FAST, OURS_PURE, REAL, Flavour

SETS = [
    (OURS_FAST, OURS_PURE, OURS_FAST),
    (OURS_FAST, REAL, OLD),
    (REAL, OURS_FAST, OLD),
    (OLD, OURS_FAST, OURS_PURE),
]

COUNT = 100


@pytest.fixture(scope="module", params=SETS, ids=lambda pair: "-".join(x.name for x in pair))
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


def test_reachesEveryMember(mesh: Mesh) -> None:
    """
    A message published at any member is received at all members, once, in order, with headers and
    reply subject.
    """
    everywhere(mesh, COUNT)


def test_requests(mesh: Mesh) -> None:
    """Requests at any member are answered by services at any other."""
    requests(mesh)


def test_queues(mesh: Mesh) -> None:
    """
    One member of a queue group with members everywhere gets each message. At a natsbroker member it
    is a local one.
    """
    for place, here in enumerate(shared(mesh, COUNT)):
        if mesh.members[place].flavour in OURS:
            assert sum(body.startswith(b"%d " % place) for body in here) == COUNT


def test_distantQueues(mesh: Mesh) -> None:
    """
    Two groups have members only at other servers. Each group gets each message, by its weight.
    """
    *first, second = distantQueues(mesh, 0, COUNT)
    assert any(first) and second


@pytest.mark.parametrize("how", ["unsub", "max", "leave"])
def test_nobodyLeft(mesh: Mesh, how: str) -> None:
    """When the last subscriber has gone, for any reason, the other members report no responders."""
    subject = b"gone." + how.encode()
    for place, client in enumerate(mesh.clients):
        leaver = Client(mesh.members[place])
        sid = leaver.subscribe(subject)
        member = leaver.subscribe(subject, b"q")
        mesh.sync()
        others = [peer for peer in mesh.clients if peer is not client]
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
            while b"503" not in answerTo(client, subject):
                pass
        mesh.sync()
        for other in others:
            assert b"503" in answerTo(other, subject)
        leaver.close()


def test_accounts(mesh: Mesh) -> None:
    """Messages of one account do not reach another, at any member."""
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
    """Clients learn the addresses of other members."""
    for client in mesh.clients:
        client.flush()
        for member in mesh.members:
            assert b"127.0.0.1:%d" % member.port in client.info


def test_restart(mesh: Mesh) -> None:
    """After a restart of any member all messages arrive again."""
    mesh.restarted(COUNT)


def test_quietLogs(mesh: Mesh) -> None:
    """After all these tests, every log has notices only."""
    assert mesh.complaints() == []
