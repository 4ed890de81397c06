"""A worker, here in this process: messages of its parent to a broker in memory."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.interfaces import IListeningPort, IStreamServerEndpoint
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import globalLogBeginner
from zope.interface.verify import verifyObject

from natsbroker import errors
from natsbroker.advisories import LameDuckStarted, LeafConnected, LeafDisconnected
from natsbroker.clients.selection import Selection
from natsbroker.wire.values import Kind, Message
from natsbroker.workers.channel import GATHER, ControlChannel
from natsbroker.workers.messages import (
    CLIENTS,
    Adopt,
    ApplyReload,
    AskServer,
    Closed,
    CloseExcess,
    DiscardReload,
    Entered,
    Failed,
    Gone,
    Heartbeat,
    PartShown,
    PlanReload,
    Ready,
    ReloadPlanned,
    ReloadRefused,
    RemotesLeft,
    ServerAnswered,
    ShowPart,
    Speak,
    Start,
    StartLameDuck,
    StopWorker,
    UseRemotes,
)
from natsbroker.workers.neighbours import GLANCE
from natsbroker.workers.settings import workerSettings
from natsbroker.workers.worker import JOINING, ParentsEndpoint, ParentsPort, WorkerProcess
from tests.server.support import settingsOf
from tests.support import Recorder
from tests.workers.support import Neighbour

ADDRESS = ("127.0.0.1", 4333)
ADDRESSES = {CLIENTS: ADDRESS}
SECRETS = (bytes(32), bytes(range(32)))


class Reactor(MemoryReactorClock):
    """A reactor that notes that it was stopped."""

    def __init__(self, came: list[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._came = came

    def stop(self) -> None:
        self._came.append("stopped")


class Parent:
    """The parent's end of the channel."""

    def __init__(self, tmp_path: Any) -> None:
        ours, theirs = socket.socketpair()
        self.came: list[Any] = []
        self.reactor: Any = Reactor(self.came)
        self.channel = ControlChannel(
            MemoryReactorClock(), ours, lambda message, passed: self.came.append(message), print
        )
        self._directory = str(tmp_path)
        self.worker = WorkerProcess(self.reactor, theirs, io.StringIO())

    def begin(self, text: str = "") -> None:
        settings = workerSettings(settingsOf(text), 1, ADDRESSES)
        self.say(Start(1, 2, settings, SECRETS, self._directory, ADDRESSES))

    def start(self, text: str = "") -> None:
        self.begin(text)
        # The other worker does not come.
        self.reactor.advance(JOINING)
        self.reactor.advance(GLANCE)
        self.channel.drain()

    def say(self, message: object, *sockets: socket.socket) -> list[Any]:
        """Send a message, and return the worker's answers."""
        before = len(self.came)
        self.channel.send(message, sockets)
        worker: Any = self.worker
        worker._channel.drain()
        for _ in range(4):
            self.reactor.advance(0)
        self.channel.drain()
        return self.came[before:]

    def dialled(self) -> list[tuple[str, int]]:
        """The addresses that the worker has dialled."""
        return [client[:2] for client in self.reactor.tcpClients]

    def close(self) -> None:
        self.say(StopWorker())
        self.reactor.advance(1)
        self.channel.close()
        worker: Any = self.worker
        worker._passes.stop()


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Parent]:
    monkeypatch.setattr(globalLogBeginner, "beginLoggingTo", lambda *given, **named: None)
    made = Parent(tmp_path)
    yield made
    made.close()


def test_ready(parent: Parent) -> None:
    """INFO has the server's id and the parent's address."""
    parent.start()
    [ready] = parent.came
    assert isinstance(ready, Ready)
    assert (ready.info.host, ready.info.port) == ADDRESS
    assert ready.info.server_id.startswith("N")


def test_known(parent: Parent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is ready when the other worker knows its interest, which a PONG confirms."""
    route = Neighbour()
    monkeypatch.setattr("natsbroker.workers.worker.neighboursOf", lambda broker: [route])
    parent.begin()
    assert (route.pings, parent.came) == (1, [])
    route.pongs += 1
    parent.reactor.advance(GLANCE)
    parent.channel.drain()
    [ready] = parent.came
    assert isinstance(ready, Ready)


@pytest.mark.parametrize("reason", ["", "Client Closed"])
def test_interestNotConfirmed(parent: Parent, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """A worker does not wait long for others to learn its interest, nor for one that has ended."""
    route = Neighbour()
    monkeypatch.setattr("natsbroker.workers.worker.neighboursOf", lambda broker: [route])
    parent.begin()
    route.reason = reason
    parent.reactor.advance(GLANCE if reason else JOINING)
    parent.reactor.advance(GLANCE)
    parent.channel.drain()
    assert [type(message) for message in parent.came] == [Ready]


def test_sameServer(parent: Parent) -> None:
    """Two workers have the same server id."""
    parent.start()
    [ready] = parent.came
    other = Parent(parent._directory)
    other.start()
    [second] = other.came
    other.close()
    assert ready.info.server_id == second.info.server_id


def test_failure(parent: Parent) -> None:
    """A failed start reports its reason, and the process ends with an error."""
    parent.start("authorization { plugin: nowhere }")
    end, failed = parent.came
    assert isinstance(failed, Failed)
    assert "nowhere" in failed.reason
    assert end == "stopped"
    assert parent.worker.exitCode == 1


def test_reload(parent: Parent) -> None:
    parent.start("max_payload: 100")
    settings = workerSettings(settingsOf("max_payload: 50"), 1, ADDRESSES)
    assert parent.say(PlanReload(settings)) == [ReloadPlanned()]
    assert parent.say(DiscardReload()) == []
    assert parent.say(ApplyReload()) == []
    assert parent.say(PlanReload(settings)) == [ReloadPlanned()]
    [ready] = parent.say(ApplyReload())
    assert ready.info.max_payload == 50


def test_refusedReload(parent: Parent) -> None:
    parent.start()
    settings = workerSettings(settingsOf("server_name: other"), 1, ADDRESSES)
    [refused] = parent.say(PlanReload(settings))
    assert isinstance(refused, ReloadRefused)
    assert refused.problems == ("config reload not supported for ServerName: old=, new=other",)


def test_lameDuck(parent: Parent) -> None:
    """Without connections, the lame duck mode ends at once."""
    parent.start()
    assert parent.say(StartLameDuck()) == [Gone()]


def test_remotes(parent: Parent) -> None:
    """A worker dials the remotes of leafnodes only while it has the order to."""
    parent.start("leafnodes { remotes [ { url: 'nats://127.0.0.1:77' } ] }")
    assert parent.dialled() == []
    parent.say(UseRemotes(True))
    assert parent.dialled() == [("127.0.0.1", 77)]
    assert parent.say(UseRemotes(False)) == [RemotesLeft()]


def test_noRemotes(parent: Parent) -> None:
    """A worker without leafnodes ignores the order to dial."""
    parent.start()
    assert parent.say(UseRemotes(True)) == []


def test_parts(parent: Parent) -> None:
    """A part of an answer is sent with the question's number."""
    parent.start()
    [shown] = parent.say(ShowPart(7, "connections", (Selection(),)))
    assert shown == PartShown(7, {"total": 0, "ranks": []})


def test_askServer(parent: Parent) -> None:
    """
    A request about the server in the system account is sent to the parent, whose answer is the
    reply.
    """
    parent.start()
    broker: Any = parent.worker._broker
    recorder = Recorder()
    broker.bus("$SYS").subscribe(b"_INBOX.1", recorder)
    request = Message(b"$SYS.REQ.SERVER.PING.IDZ", b"", b"_INBOX.1", origin=object())
    broker.accounts["$SYS"].busFor(Kind.CLIENT).publish(request)
    [asked] = parent.say(DiscardReload())
    assert asked == AskServer(1, "ofServer", ("IDZ", b""))
    parent.say(ServerAnswered(1, b"all of us"))
    assert recorder.bodies == [b"all of us"]


def test_speak(parent: Parent) -> None:
    """
    Only the worker that speaks for the server reports its status; the parent orders its events.
    """
    parent.start()
    broker: Any = parent.worker._broker
    recorder = Recorder()
    broker.bus("$SYS").subscribe(b"$SYS.SERVER.*.*", recorder)
    parent.reactor.advance(60)
    parent.channel.drain()
    assert parent.came[1:] == []
    parent.say(Speak(True))
    parent.reactor.advance(60)
    parent.channel.drain()
    assert parent.came[1:] == [AskServer(1, "ofServer", ("STATSZ", b""))]
    parent.say(ServerAnswered(1, b"status"))
    parent.say(StartLameDuck())
    assert recorder.bodies == [b"status"]
    assert parent.say(ShowPart(2, "announce", (LameDuckStarted(),))) == [PartShown(2, None)]
    subject, _ = recorder.got[-1]
    assert subject.subject == b"$SYS.SERVER.%b.LAMEDUCK" % broker.serverId.encode()


def test_noDescriptor(parent: Parent) -> None:
    """A connection that arrived without its socket is reported as ended."""
    parent.start()
    assert parent.say(Adopt(5, ("127.0.0.1", 7))) == [Closed(5)]


def test_heartbeat(parent: Parent) -> None:
    """A heartbeat is answered."""
    parent.start()
    assert parent.say(Heartbeat()) == [Heartbeat()]


def test_leafnodes(parent: Parent) -> None:
    """The parent learns which leafnodes there are, and can close one that is too many."""
    parent.start(
        "accounts { A { users: [{user: a, password: a}], limits { max_leafnodes: 3 } } }\n"
        'leafnodes { listen: "127.0.0.1:7422" }'
    )
    worker = parent.worker
    worker.observe(LeafConnected(5, "A", "a"))
    worker.observe(LeafDisconnected(5, "A", "a", ""))
    parent.reactor.advance(GATHER)
    parent.channel.drain()
    assert parent.came[1:] == [Entered(5, "A", 3, True), Closed(5, "A", True)]
    closed: list[Any] = []
    broker: Any = worker._broker
    broker.leafnodes.leafs._links[7] = SimpleNamespace(close=closed.append)
    for number in (6, 7):
        assert parent.say(CloseExcess(number, isLeafnode=True)) == []
    del broker.leafnodes.leafs._links[7]
    assert closed == [errors.MAX_ACCOUNT_CONNECTIONS]


def test_early(parent: Parent) -> None:
    """A connection that arrives before the start or after the end is closed."""
    mine, client = socket.socketpair()
    parent.say(Adopt(5, ("127.0.0.1", 7)), mine)
    assert client.recv(1) == b""
    client.close()


def test_orphan(parent: Parent) -> None:
    """A worker whose parent has died ends, and removes the directory."""
    parent.start()
    parent.channel.close()
    worker: Any = parent.worker
    failure = worker._channel.doRead()
    worker._channel.connectionLost(failure)
    parent.reactor.advance(1)
    assert parent.came[-1] == "stopped"
    assert not os.path.exists(parent._directory)


def test_address() -> None:
    """The parent's endpoint and port have the parent's address."""
    verifyObject(IStreamServerEndpoint, ParentsEndpoint(ADDRESS))
    verifyObject(IListeningPort, ParentsPort(ADDRESS, None))
    assert (
        str(ParentsPort(("::1", 4), None).getHost())
        == "IPv6Address(type='TCP', host='::1', port=4, flowInfo=0, scopeID=0)"
    )
