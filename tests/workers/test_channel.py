"""Frames between parent and worker, with descriptors, over socket pairs without a reactor."""

from __future__ import annotations

import os
import pickle
import resource
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest
from twisted.internet.interfaces import IReadWriteDescriptor
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from natsbroker.config.model import Settings
from natsbroker.server.configuration.build import inspectFile
from natsbroker.workers.channel import (
    GATHER,
    ControlChannel,
    FrameDecoder,
    rebuilt,
    unpickled,
)
from natsbroker.workers.messages import (
    OFTEN,
    Adopt,
    Closed,
    Entered,
    PlanReload,
    ReloadPlanned,
    ReloadRefused,
    StopWorker,
)
from tests.workers.support import frameOf


class Reactor(Clock):
    """Notes what is watched."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: set[object] = set()
        self.writers: set[object] = set()
        self.addReader, self.addWriter = self.readers.add, self.writers.add
        self.removeReader, self.removeWriter = self.readers.discard, self.writers.discard


class End:
    """A channel with what it has received."""

    def __init__(self, end: socket.socket) -> None:
        self.reactor = Reactor()
        self.came: list[tuple[Any, tuple[int, ...]]] = []
        self.losses = 0
        self.channel = ControlChannel(self.reactor, end, self._received, self._lost)
        self.channel.start()

    def _received(self, message: object, descriptors: tuple[int, ...]) -> None:
        self.came.append((message, descriptors))

    def _lost(self) -> None:
        self.losses += 1

    def read(self) -> Failure | None:
        """Read as a reactor does, which tells of the end."""
        failure = self.channel.doRead()
        if failure is not None:
            self.channel.connectionLost(failure)
        return failure


@pytest.fixture
def ends() -> Iterator[tuple[End, End]]:
    pair = [End(end) for end in socket.socketpair()]
    yield pair[0], pair[1]
    for end in pair:
        for _, descriptors in end.came:
            for descriptor in descriptors:
                os.close(descriptor)
        end.channel.close()


def test_everyByteAlone() -> None:
    decoder = FrameDecoder()
    whole = frameOf(Closed(7, "A")) + frameOf(ReloadRefused(("no",)))
    came = [pair for byte in whole for pair in decoder.received(bytes([byte]))]
    assert came == [(Closed(7, "A"), ()), (ReloadRefused(("no",)), ())]


def test_framesAtOnce() -> None:
    decoder = FrameDecoder()
    whole = frameOf(ReloadPlanned()) + frameOf(StopWorker()) + frameOf(ReloadPlanned())
    assert [message for message, _ in decoder.received(whole[:-1])] == [
        ReloadPlanned(),
        StopWorker(),
    ]
    assert decoder.received(whole[-1:]) == [(ReloadPlanned(), ())]


def test_setsInOrder() -> None:
    decoder = FrameDecoder()
    first, second = frameOf(Adopt(1, ("h", 1)), 1), frameOf(Adopt(2, ("h", 2)), 2)
    assert decoder.received(first[:3], (71,)) == []
    came = decoder.received(first[3:] + second, (72, 73))
    assert [(message.cid, passed) for message, passed in came] == [(1, (71,)), (2, (72, 73))]


def test_incompleteSet() -> None:
    """The descriptors that came are closed, and those of the next frame are its own."""
    decoder = FrameDecoder()
    one, two = os.pipe()
    os.close(two)
    [(message, passed)] = decoder.received(frameOf(Adopt(1, ("h", 1)), 2), (one,))
    assert (message.cid, passed) == (1, ())
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(one)
    assert decoder.received(frameOf(Adopt(2, ("h", 2)), 1), (99,))[0][1] == (99,)


def test_closedWithSets() -> None:
    decoder = FrameDecoder()
    one, two = os.pipe()
    decoder.received(frameOf(Adopt(1, ("h", 1)), 2)[:9], (one, two))
    decoder.close()
    for descriptor in (one, two):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_settings() -> None:
    """Settings with all kinds of blocks arrive as they are."""
    text = """
    server_name: S, max_payload: 77, tls { handshake_first: auto, timeout: 3 }
    accounts {
        A { users [{user: a, password: p, permissions {publish: "x.>"}}], exports [{stream: s}]
            jetstream: enabled, limits {max_connections: 4} }
        B { users [{user: b, nkey: ""}], imports [{stream {account: A, subject: s}}]
            mappings {m: [{destination: n, weight: 50%}]} }
    }
    cluster { name: C, port: 6222, routes ["nats://h:1"] }
    gateway { name: C, port: 7222, gateways [{name: D, url: "nats://i:1"}] }
    leafnodes { remotes [{url: "nats://j:1"}] }
    websocket { port: 1, no_tls: true }
    jetstream { store_dir: "/tmp/x" }
    streaming { cluster_id: c }
    services { a { b: [1, {c: 2}] } }
    """
    sent = PlanReload(replace(inspected(text), config_file="f", places={"a": "f:1:1"}))
    [(came, _)] = FrameDecoder().received(frameOf(sent))
    assert came == sent
    assert (came.settings.config_file, came.settings.places) == ("f", {"a": "f:1:1"})


def inspected(text: str) -> Settings:
    """Settings of a text, whatever its errors are: here files that are not there."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        return inspectFile(file.name, {}).settings


def test_otherRelease() -> None:
    """Fields that one of two releases has not are left out, or have their defaults."""
    assert rebuilt(StopWorker, {"since": 3}) == StopWorker()
    closed = OFTEN.index(Closed)
    for values in ((7,), (7, "", False, "new")):
        assert unpickled(pickle.dumps((closed, *values))) == Closed(7, "")


@pytest.mark.parametrize("kind", OFTEN)
def test_often(kind: type) -> None:
    """New fields of messages about single connections come last: these are their places."""
    places = {
        Adopt: "cid peer read nonce isGreeted isExcess listener waited",
        Entered: "cid account maximum isLeafnode",
        Closed: "cid account isLeafnode",
    }
    names = " ".join(field.name for field in fields(kind))
    assert names.startswith(places[kind])


def test_bothWays(ends: tuple[End, End]) -> None:
    parent, worker = ends
    parent.channel.send(StopWorker())
    worker.channel.send(ReloadPlanned())
    parent.read()
    worker.read()
    assert (parent.came, worker.came) == ([(ReloadPlanned(), ())], [(StopWorker(), ())])
    verifyObject(IReadWriteDescriptor, parent.channel)


def test_gathered(ends: tuple[End, End]) -> None:
    """Messages that may wait are sent together, in front of one that may not."""
    parent, worker = ends
    worker.channel.sendSoon(Closed(1, "A"))
    worker.channel.sendSoon(Closed(2, "A"))
    worker.reactor.advance(GATHER / 2)
    parent.read()
    assert parent.came == []
    worker.reactor.advance(GATHER / 2)
    worker.channel.sendSoon(Closed(3, "A"))
    worker.channel.send(ReloadPlanned())
    parent.read()
    came = [message for message, _ in parent.came]
    assert came == [*(Closed(cid, "A") for cid in (1, 2, 3)), ReloadPlanned()]
    assert not worker.reactor.getDelayedCalls()


def test_closedWhileGathered(ends: tuple[End, End]) -> None:
    """Nothing is left to be called when a channel is closed."""
    _, worker = ends
    worker.channel.sendSoon(Closed(1, "A"))
    worker.channel.close()
    worker.channel.sendSoon(Closed(2, "A"))
    assert not worker.reactor.getDelayedCalls()


def test_socketPassed(ends: tuple[End, End]) -> None:
    parent, worker = ends
    mine, client = socket.socketpair()
    parent.channel.send(Adopt(3, ("127.0.0.1", 5), b"CONNECT {}\r\n"), [mine])
    assert mine.fileno() == -1
    worker.read()
    [(message, [descriptor])] = worker.came
    assert message == Adopt(3, ("127.0.0.1", 5), b"CONNECT {}\r\n")
    assert not os.get_inheritable(descriptor)
    client.sendall(b"PING\r\n")
    assert os.read(descriptor, 10) == b"PING\r\n"
    client.close()


def test_socketsTogether(ends: tuple[End, End]) -> None:
    """Messages that are sent together take one call, and each comes with its own sockets."""
    parent, worker = ends
    pairs = [socket.socketpair() for _ in range(5)]
    messages: list[tuple[object, list[socket.socket]]] = [
        (Adopt(cid, ("h", 1)), [mine]) for cid, (mine, _) in enumerate(pairs)
    ]
    messages.insert(0, (StopWorker(), []))
    parent.channel.sendAll(messages)
    worker.read()
    assert [len(passed) for _, passed in worker.came] == [0, 1, 1, 1, 1, 1]
    for (_, client), (_, [descriptor]) in zip(pairs, worker.came[1:], strict=True):
        os.write(descriptor, b"x")
        assert client.recv(2) == b"x"
        client.close()


def test_someLost(ends: tuple[End, End]) -> None:
    """Where descriptors run out, the first of several connections come, and the others end."""
    parent, worker = ends
    pairs = [socket.socketpair() for _ in range(4)]
    parent.channel.sendAll([(Adopt(cid, ("h", 1)), [mine]) for cid, (mine, _) in enumerate(pairs)])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = sorted(os.dup(0) for _ in range(3))
    for descriptor in free:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[2], hard))
    try:
        worker.read()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [len(passed) for _, passed in worker.came] == [1, 1, 0, 0]
    assert pairs[3][1].recv(1) == b""
    for _, client in pairs:
        client.close()


def test_slowReader(ends: tuple[End, End]) -> None:
    """Frames wait here while the other end is slow, and come in order with their sockets."""
    parent, worker = ends
    clients = []
    for cid in range(300):
        mine, client = socket.socketpair()
        clients.append(client)
        parent.channel.send(Adopt(cid, ("h", 1), bytes(4000)), [mine])
    assert parent.channel.waiting
    assert parent.channel in parent.reactor.writers
    while len(worker.came) < 300:
        worker.read()
        parent.channel.doWrite()
    assert parent.channel not in parent.reactor.writers
    assert [message.cid for message, _ in worker.came] == list(range(300))
    for client, (_, [descriptor]) in zip(clients, worker.came, strict=True):
        os.write(descriptor, b"x")
        assert client.recv(2) == b"x"
        client.close()


def test_otherEndGone(ends: tuple[End, End]) -> None:
    """Messages that it sent before come first; the end is noticed once."""
    parent, worker = ends
    worker.channel.send(ReloadPlanned())
    worker.channel.close()
    mine, client = socket.socketpair()
    parent.channel.send(Adopt(1, ("h", 1)), [mine])
    assert client.recv(1) == b""
    assert parent.read() is None
    assert parent.came == [(ReloadPlanned(), ())]
    assert parent.read() is not None
    parent.channel.connectionLost(Failure(ConnectionError()))
    assert (parent.losses, worker.losses) == (1, 0)
    assert not parent.reactor.readers | parent.reactor.writers
    client.close()


def test_sentAfterEnd(ends: tuple[End, End]) -> None:
    parent, _ = ends
    parent.channel.close()
    mine, client = socket.socketpair()
    parent.channel.send(Adopt(1, ("h", 1)), [mine])
    assert client.recv(1) == b""
    assert parent.losses == 0
    client.close()


def test_socketsInFlight(ends: tuple[End, End]) -> None:
    """A worker that dies closes the connections that it had not read yet."""
    parent, worker = ends
    mine, client = socket.socketpair()
    parent.channel.send(Adopt(1, ("h", 1)), [mine])
    worker.channel.close()
    assert client.recv(1) == b""
    client.close()


def test_noDescriptorLeft(ends: tuple[End, End]) -> None:
    """Without room for a descriptor, the message comes without one, and those behind it whole."""
    parent, worker = ends
    pairs = [socket.socketpair() for _ in range(2)]
    parent.channel.send(Adopt(1, ("h", 1)), [pairs[0][0]])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        worker.read()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    parent.channel.send(Adopt(2, ("h", 2)), [pairs[1][0]])
    worker.read()
    assert [(message.cid, len(passed)) for message, passed in worker.came] == [(1, 0), (2, 1)]
    assert pairs[0][1].recv(1) == b""
    for _, client in pairs:
        client.close()


def test_handlerFails(flushLoggedErrors: Any) -> None:
    """A message that cannot be handled is logged, and the next ones are handled."""
    one, two = socket.socketpair()
    came: list[object] = []

    def received(message: Any, descriptors: object) -> None:
        came.append(message)
        raise ValueError("no")

    channel = ControlChannel(Reactor(), one, received, lambda: None)
    two.sendall(frameOf(ReloadPlanned()) + frameOf(StopWorker()))
    assert channel.doRead() is None
    assert came == [ReloadPlanned(), StopWorker()]
    assert len(flushLoggedErrors(ValueError)) == 2
    channel.close()
    two.close()


def test_tooManySockets(ends: tuple[End, End]) -> None:
    with pytest.raises(ValueError, match="254 sockets, and a frame takes 253"):
        ends[0].channel.send(StopWorker(), [socket.socket()] * 254)
