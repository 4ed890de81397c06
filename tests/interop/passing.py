"""
Messages that must pass between linked servers, over any kind of link.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tests.interop.plainclients import Client

__all__ = ["HEADERS", "Linked", "answerTo", "distantQueues", "everywhere", "requests", "shared"]

HEADERS = b"NATS/1.0\r\nA: 1\r\n\r\n"


class Linked(Protocol):
    """
    Servers that are linked, and a client at each.
    """

    @property
    def clients(self) -> Sequence[Client]: ...

    def sync(self) -> None:
        """Wait until every server has handled the earlier lines of every other one."""


def everywhere(linked: Linked, count: int, headers: bytes = HEADERS) -> None:
    """
    Publish at every server, and check that every client receives each message once, in order, with
    headers and reply subject.

    @param headers: the headers of every other message; empty for none.
    """
    wide = [client.subscribe(b"all.*.x") for client in linked.clients]
    wider = [client.subscribe(b"all.>") for client in linked.clients]
    linked.sync()
    for place, client in enumerate(linked.clients):
        for number in range(count):
            body = b"%d %d" % (place, number)
            client.publish(b"all.%d.x" % place, body, b"r", headers if number % 2 else b"")
    for place, client in enumerate(linked.clients):
        for sid in (wide[place], wider[place]):
            messages = client.messages(sid, count * len(linked.clients))
            for sender in range(len(linked.clients)):
                heard = [message for message in messages if message[2].startswith(b"%d " % sender)]
                assert heard == [
                    (b"r", headers if number % 2 else b"", b"%d %d" % (sender, number))
                    for number in range(count)
                ]
    linked.sync()
    for place, client in enumerate(linked.clients):
        assert client.arrived(wide[place]) == client.arrived(wider[place]) == []
        client.unsubscribe(wide[place])
        client.unsubscribe(wider[place])


def requests(linked: Linked, *, isTold: bool = False) -> None:
    """
    Let every client answer every client's request.

    @param isTold: whether all servers know an inbox before anything is sent to it.
    """
    for place, server in enumerate(linked.clients):
        service = server.subscribe(b"service.%d" % place)
        linked.sync()
        for other in linked.clients:
            name = b"_INBOX.%d" % id(other)
            inbox = other.subscribe(name)
            if isTold:
                linked.sync()
            other.publish(b"service.%d" % place, b"?", name)
            ((reply, _, body),) = server.messages(service, 1)
            server.publish(reply, b"answer to " + body)
            assert other.take(inbox, 1) == [b"answer to ?"]
            other.unsubscribe(inbox)
        server.unsubscribe(service)


def shared(linked: Linked, count: int, rounds: int = 1) -> list[list[bytes]]:
    """
    Publish at every server to a queue group with two members at each server, and check that one of
    them gets each message, and a subscriber outside the group gets all.

    @param rounds: how often all are synchronized before every message has arrived.
    @return: the bodies that members at each server received. Each begins with the index of its
        publisher.
    """
    clients = linked.clients
    members = [[client.subscribe(b"work.*", b"q") for _ in range(2)] for client in clients]
    plain = clients[0].subscribe(b"work.*")
    linked.sync()
    expected = []
    for place, client in enumerate(clients):
        for number in range(count):
            expected.append(b"%d %d" % (place, number))
            client.publish(b"work.%d" % place, expected[-1])
    for _ in range(rounds):
        linked.sync()
    heard = [
        [body for sid in sids for body in client.arrived(sid)]
        for client, sids in zip(clients, members, strict=True)
    ]
    assert sorted(body for here in heard for body in here) == sorted(expected)
    assert sorted(clients[0].arrived(plain)) == sorted(expected)
    clients[0].unsubscribe(plain)
    for client, sids in zip(clients, members, strict=True):
        for sid in sids:
            client.unsubscribe(sid)
    return heard


def distantQueues(
    linked: Linked, first: int, count: int, headers: bytes = HEADERS, rounds: int = 1
) -> list[list[bytes]]:
    """
    Publish at one of three servers to two queue groups: one with three members at the second server
    and one at the third, the other with its only member at the third. Check that each group gets
    each message once.

    @param first: the index of the publishing server; the others follow in a circle.
    @param headers: the headers of every other message; empty for none.
    @param rounds: how often all are synchronized before every message has arrived.
    @return: the bodies that each member of the first group received, the distant one last.
    """
    here, one, two = (linked.clients[(first + index) % 3] for index in range(3))
    ones = [one.subscribe(b"far", b"q") for _ in range(3)]
    twos = [two.subscribe(b"far", b"q"), two.subscribe(b"far", b"r")]
    linked.sync()
    expected = [b"%d" % number for number in range(count)]
    for number, body in enumerate(expected):
        here.publish(b"far", body, b"", headers if number % 2 else b"")
    for _ in range(rounds):
        linked.sync()
    heard = [one.arrived(sid) for sid in ones]
    second, other = (two.arrived(sid) for sid in twos)
    assert sorted(body for frames in (*heard, second) for body in frames) == sorted(expected)
    assert other == expected
    for sid in ones:
        one.unsubscribe(sid)
    for sid in twos:
        two.unsubscribe(sid)
    return [*heard, second]


def answerTo(client: Client, subject: bytes) -> bytes:
    """
    @return: the headers of the answer to a request; empty if there is none.
    """
    inbox = client.subscribe(b"_INBOX.gone")
    client.publish(subject, b"", b"_INBOX.gone")
    client.flush()
    answers = client.messages(inbox, len(client.got[inbox]))
    client.unsubscribe(inbox)
    return answers[0][1] if answers else b""
