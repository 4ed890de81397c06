"""
Tests for how the lanes serve services: what clients publish to a batch subscriber, and what a
service posts to clients. The readable path says what is right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.interfaces import IPublishFilter
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind, Message
from tests.support import (
    HEADERS,
    PURE,
    QUIET,
    BatchRecorder,
    Doorkeeper,
    Names,
    Recorder,
    RunRecorder,
    World,
    onEach,
    using,
)

PUBLISHED = (
    b"PUB s.a 1\r\n1\r\n",
    b"PUB s.a reply 002\r\n22\r\n",
    b"HPUB s.b reply 12 14\r\nNATS/1.0\r\n\r\n44\r\n",
    b"HPUB s.b 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    b"PUB s.c 0\r\n\r\n",
    b"PUB s.a another 3\r\nabc\r\n",
)


def account(world: World) -> Account:
    """The account of the clients."""
    return world.accounts["$G"]


def fields(message: Message) -> tuple[Any, ...]:
    """The fields of a message, without its origin."""
    sizes = (message.headerLength, message.sizeText, message.headerText)
    return (message.subject, message.body, message.reply, *sizes, message.queues)


def received(fastLane: bool, makeService: Callable[[], Recorder], queue: bytes = b"") -> list[Any]:
    """The messages that a service gets of a client's publishes, in between other things."""
    world = World(fastLane=fastLane)
    bus = account(world).busFor(Kind.INTERNAL)
    service = makeService()
    limited = bus.subscribe(b"s.a", service, "limited")
    limited.cancelAfter(2)
    bus.subscribe(b"s.*", service, "all", queue)
    client = world.client(HEADERS)
    answer = client.ask(b"SUB s.a 1\r\n", *PUBLISHED, b"PING\r\n", b"".join(PUBLISHED))
    assert all(message.origin is client.session for message, _ in service.got)
    traffic = client.session.traffic
    return [
        [(fields(message), tag) for message, tag in service.got],
        service.ended,
        answer,
        traffic,
    ]


@onEach
@pytest.mark.parametrize("queue", [b"", b"group"])
@pytest.mark.parametrize("makeService", [BatchRecorder, RunRecorder])
def test_serviceReceives(names: Names, queue: bytes, makeService: Callable[[], Recorder]) -> None:
    """A service gets the same messages from the lane and from the readable path."""
    with using(names):
        by_lane, readable = (received(isMany, makeService, queue) for isMany in (True, False))
        assert by_lane == readable
        assert len(by_lane[0]) == 2 * len(PUBLISHED) + 2


@onEach
def test_wholeInputIsABatch(names: Names) -> None:
    """All messages of one chunk of input come to a service in one call."""
    with using(names):
        world, service = World(), BatchRecorder()
        account(world).busFor(Kind.INTERNAL).subscribe(b"s.*", service)
        world.client().send(b"PUB s.a 1\r\n1\r\nPUB s.b 1\r\n2\r\nPING\r\nPUB s.a 1\r\n3\r\n")
        world.settle()
        assert service.batches == [[b"1", b"2", b"3"]]


@onEach
def test_runs(names: Names) -> None:
    """Messages that differ only in their bodies come to a service together."""
    with using(names):
        world, service = World(), RunRecorder()
        account(world).busFor(Kind.INTERNAL).subscribe(b"s.*", service)
        client = world.client(HEADERS)
        client.send(b"PUB s.a r 1\r\n1\r\n" * 3 + b"PUB s.a 1\r\n2\r\n" + b"".join(PUBLISHED[2:4]))
        world.settle()
        assert [len(run) for run in service.runs] == [3, 1, 1, 1]
        assert [message.payload for message, _ in service.got[4:]] == [b"44", b""]


@onEach
def test_noServiceAnyMore(names: Names) -> None:
    """A service that was cancelled gets nothing, and the requestor gets an error."""
    with using(names):
        world, service = World(), BatchRecorder()
        account(world).busFor(Kind.INTERNAL).subscribe(b"s.a", service).cancel()
        client = world.client(HEADERS)
        assert b" 503\r\n" in client.ask(b"SUB r 1\r\nPUB s.a r 1\r\n1\r\n")
        assert service.got == []


@onEach
def test_mayNotPublish(names: Names) -> None:
    """A publish that the client may not make does not reach the service."""
    with using(names):
        grant = Grant(publish=PermissionSet((b"s.a",), ()))
        world, service = World(authorizer=Doorkeeper(lambda hello: grant)), BatchRecorder()
        account(world).busFor(Kind.INTERNAL).subscribe(b"s.*", service)
        said = world.client().ask(b"PUB s.a 1\r\n1\r\nPUB s.b 1\r\n2\r\nPUB s.a 1\r\n3\r\n")
        assert b"Permissions Violation" in said
        assert [message.body for message, _ in service.got] == [b"1", b"3"]


def both(world: World, subject: bytes, payload: bytes, many: bool) -> tuple[int, int]:
    """Post a message, and publish the same one."""
    bus = account(world).busFor(Kind.INTERNAL)
    posted = bus.publishBatch(subject, [payload]) if many else bus.publishInternal(subject, payload)
    return posted, bus.publish(Message(subject, payload))


#: Posts by themselves, and several at once.
byItself = pytest.mark.parametrize("many", [False, True])


@onEach
@byItself
def test_posts(names: Names, many: bool) -> None:
    """A posted message arrives like a published one, is counted, and keeps the order."""
    with using(names):
        world = World()
        one, two, recorder = world.client(), world.client(HEADERS), Recorder()
        one.send(b"SUB a 1\r\nSUB * 22\r\n")
        two.send(b"SUB a.> 3\r\nSUB b 4\r\n")
        assert both(world, b"a", b"x" * 300, many) == (2, 2)
        assert both(world, b"b", b"", many) == (2, 2)
        assert both(world, b"nobody.here", b"x", many) == (0, 0)
        frame = b"MSG a 1 300\r\n%b\r\nMSG a 22 300\r\n%b\r\n" % (b"x" * 300, b"x" * 300)
        lines = (frame * 2 + b"MSG b 22 0\r\n\r\n" * 2).split(b"\r\n")
        assert sorted(one.receive().split(b"\r\n")) == sorted(lines)
        assert two.receive() == b"MSG b 4 0\r\n\r\n" * 2
        assert one.session.traffic[2:] == (6, 1200)
        account(world).busFor(Kind.INTERNAL).subscribe(b"a", recorder, "tag")
        assert both(world, b"a", b"y", many) == (3, 3)
        assert [fields(message) for message, _ in recorder.got] == [fields(Message(b"a", b"y"))] * 2


@onEach
@byItself
def test_postsToFewer(names: Names, many: bool) -> None:
    """
    A subscriber without permission, after its last message or after its end gets no posted message.
    """
    with using(names):
        denied = SubscribePermissions((b">",), (b"secret",))
        world = World(authorizer=Doorkeeper(lambda hello: Grant(subscribe=denied)))
        client = world.client()
        client.send(b"SUB * 1\r\nSUB once 2\r\nUNSUB 2 1\r\n")
        assert both(world, b"secret", b"x", many) == (0, 0)
        assert both(world, b"once", b"x", many) == (2, 1)
        assert client.receive().count(b"MSG once 2 ") == 1
        client.transport.hangUp()
        world.settle()
        assert both(world, b"once", b"x", many) == (0, 0)


@onEach
@byItself
def test_postsToGroups(names: Names, many: bool) -> None:
    """A queue group gets a posted message at one member."""
    with using(names):
        world = World()
        clients = [world.client() for _ in range(3)]
        for client in clients:
            client.send(b"SUB a group 1\r\n")
        assert both(world, b"a", b"x", many) == (1, 1)
        assert sum(client.receive().count(b"MSG") for client in clients) == 2


@onEach
@byItself
def test_postsAnswerable(names: Names, many: bool) -> None:
    """A client that may only reply to delivered messages is also checked after posts."""
    with using(names):
        grant = Grant(responses=ResponsePermission(1, 60))
        world = World(authorizer=Doorkeeper(lambda hello: grant))
        client = world.client()
        client.send(b"SUB a 1\r\n")
        assert not client.session.outbox.direct
        assert both(world, b"a", b"x", many) == (1, 1)
        assert client.receive() == b"MSG a 1 1\r\nx\r\n" * 2


@onEach
@byItself
def test_postsAreFiltered(names: Names, many: bool) -> None:
    """A publish filter also applies to posts."""
    with using(names):
        world = World()

        @implementer(IPublishFilter)
        class Filter:
            """Drops every message."""

            def filterMessage(self, message: Message, kind: int) -> Message | None:
                return None

        client = world.client()
        client.send(b"SUB a 1\r\n")
        remove = account(world).delivery.filters.add(Filter())
        assert both(world, b"a", b"x", many) == (0, 0)
        remove()
        assert both(world, b"a", b"x", many) == (1, 1)


@byItself
def test_postsLeaveTheReadablePath(many: bool) -> None:
    """Without the compiled lane, a post becomes a message."""
    world = World(fastLane=False)
    client = world.client(QUIET)
    client.send(b"SUB a 1\r\n")
    publisher = hot.InternalPublisher(account(world).matcher)
    assert publisher.publishInternal(b"a", b"x") == publisher.publishBatch(b"a", [b"x"]) == 0
    assert both(world, b"a", b"x", many) == (1, 1)
    assert client.receive() == b"MSG a 1 1\r\nx\r\n" * 2


@onEach
def test_acks(names: Names) -> None:
    """
    Acknowledgements in a batch equal those written one by one, up to the first that is not simple.
    """
    with using(names):
        world = World()
        client = world.client()
        client.send(b"SUB a.* 1\r\n")
        publisher = hot.InternalPublisher(account(world).matcher)
        acks: list[tuple[bytes, bytes | None, int, bytes, int]]
        acks = [(b"a.b", None, 0, b"", 2), (b"a.c", None, 2, b"", 1), (b"nobody", None, 3, b"", 1)]
        sent = publisher.publishAcks(acks, 0, b"{", 9)
        assert sent == (0 if names is PURE else 2)
        frames = b"MSG a.b 1 3\r\n{9}\r\nMSG a.b 1 4\r\n{10}\r\nMSG a.c 1 4\r\n{11}\r\n"
        assert client.receive() == (frames if sent else b"")
        for more in ((b"a.d", b"answer", 0, b"", 1), (b"a.d", None, 0, b",more", 1)):
            assert publisher.publishAcks([*acks[:1], more], 1, b"{", 9) == 1
        assert client.receive() == b""


@onEach
def test_postsMany(names: Names) -> None:
    """A batch of posts arrives in order, also at other subscribers."""
    with using(names):
        world = World()
        client, bus = world.client(), account(world).busFor(Kind.INTERNAL)
        client.send(b"SUB a 1\r\nSUB * 2\r\n")
        assert bus.publishBatch(b"a", [b"x", b"", b"zz"]) == 2
        got = client.receive()
        bodies = (b" 1\r\nx\r\n", b" 0\r\n\r\n", b" 2\r\nzz\r\n")
        assert sorted(got.split(b"MSG ")[1:]) == sorted(
            b"a %b%b" % (sid, body) for sid in (b"1", b"2") for body in bodies
        )
        for sid in (b"1", b"2"):
            places = [got.index(b"MSG a %b%b" % (sid, body)) for body in bodies]
            assert places == sorted(places)
        assert client.session.traffic[2:] == (6, 6)
        assert bus.publishBatch(b"nobody.here", [b"x"]) == 0


@onEach
def test_postsEmpty(names: Names) -> None:
    """Empty messages are posted to their subjects, up to the first that needs the readable path."""
    with using(names):
        world = World()
        client, bus = world.client(), account(world).busFor(Kind.INTERNAL)
        client.send(b"SUB a 1\r\nSUB b 2\r\nSUB * 3\r\n")
        publisher = hot.InternalPublisher(bus.matcher)
        taken = 0 if names is PURE else 2
        assert publisher.publishEmpty([b"a", b"b", b"no.one", b"a"], 0) == taken
        assert publisher.publishEmpty([b"a", b"b"], 2) == 2
        sent = sorted(client.receive().split(b"MSG ")[1:])
        lines = [b"a 1 0", b"a 3 0", b"b 2 0", b"b 3 0"] if taken else []
        assert sent == [line + b"\r\n\r\n" for line in lines]
