"""
The values that all client connections share.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest
from twisted.internet.task import Clock

from natsbroker import errors, hot
from natsbroker.clients.context import ClientContext, ClosedClient, Connections
from natsbroker.clients.info import ServerInfo
from natsbroker.config.model import Settings
from tests.server.support import settingsOf
from tests.support import Doorkeeper, World

FACTS: Any = SimpleNamespace(account="A")


def closed(reason: str = "Client Closed") -> ClosedClient:
    """A connection that has closed."""
    return ClosedClient(FACTS, 1.0, reason)


class TestConnections:
    """The open and closed connections."""

    def test_numbers(self) -> None:
        """Numbers begin at one and are never used again."""
        connections = Connections()
        assert [connections.nextClient() for _ in range(3)] == [1, 2, 3]
        assert connections.total == 3

    def test_linksShareNumbers(self) -> None:
        """Links and clients get numbers from one series, and links do not count as clients."""
        connections = Connections()
        assert (connections.nextClient(), connections.nextNumber()) == (1, 2)
        assert (connections.nextClient(), connections.total) == (3, 2)

    def test_comeAndGo(self) -> None:
        """An open connection is found by its number."""
        connections = Connections()
        session = object()
        connections.add(1, session)
        assert (len(connections), list(connections), connections.get(1)) == (1, [session], session)
        connections.remove(1, closed(), (1, 2, 3, 4))
        connections.remove(2, closed("Stale Connection"), (10, 20, 30, 40))
        assert (len(connections), connections.get(1)) == (0, None)
        assert connections.closedTraffic == [11, 22, 33, 44]
        assert connections.accountTraffic == {"A": [11, 22, 33, 44]}
        assert connections.ended == {"Client Closed": 1, "Stale Connection": 1}

    def test_slowByAccount(self) -> None:
        """Slow consumers count for their account."""
        connections = Connections()
        for reason in ("Slow Consumer (Pending Bytes)", "Client Closed"):
            connections.remove(1, closed(reason), (0, 0, 0, 0))
        assert connections.accountSlow == {"A": 1}

    def test_removedWhileWalked(self) -> None:
        """A connection may be removed while all of them are visited."""
        connections = Connections()
        for number in range(5):
            connections.add(number, number)
        for connection in connections:
            connections.remove(int(str(connection)), closed(), (0, 0, 0, 0))
        assert len(connections) == 0

    def test_remembersTheLast(self) -> None:
        """Only the last closed connections are remembered."""
        connections = Connections(remember=3)
        for number in range(5):
            connections.remove(number, closed(str(number)), (0, 0, 0, 0))
        assert [connection.reason for connection in connections.closed] == ["2", "3", "4"]

    def test_whenEmpty(self) -> None:
        """The callback for the end of all clients is called once, or at once if there are none."""
        connections = Connections()
        calls: list[str] = []
        connections.whenEmpty(lambda: calls.append("at once"))
        connections.add(1, object())
        connections.add(2, object())
        connections.whenEmpty(lambda: calls.append("later"))
        connections.remove(1, closed(), (0, 0, 0, 0))
        assert calls == ["at once"]
        connections.remove(2, closed(), (0, 0, 0, 0))
        connections.add(3, object())
        connections.remove(3, closed(), (0, 0, 0, 0))
        assert calls == ["at once", "later"]

    def test_slowConsumers(self) -> None:
        """Slow consumers are counted by reason."""
        connections = Connections()
        for reason in ("a", "b", "a"):
            connections.slowConsumer(reason)
        assert connections.slow == {"a": 2, "b": 1}


class TestContext:
    """The defaults and limits of a context."""

    def make(self, **more: Any) -> ClientContext:
        """A context with few parts."""
        accounts: Any = None
        batch = hot.FlushBatch(lambda call: None)
        info = ServerInfo("", "", "", "")
        return ClientContext(Clock(), accounts, Doorkeeper(), info, batch, **more)

    def test_defaults(self) -> None:
        """A context works without observers, and with nats-server's limits."""
        context = self.make()
        assert context.settings == Settings()
        context.notify(None)  # type: ignore[arg-type]
        assert len(context.nonceBytes(11)) == 11
        assert context.nonceBytes(11) != context.nonceBytes(11)

    @pytest.mark.parametrize(
        ("maximum", "there", "room"), [(0, 5, True), (2, 1, True), (2, 2, False)]
    )
    def test_room(self, maximum: int, there: int, room: bool) -> None:
        """There is room for a connection below the limit, or if there is no limit."""
        context = self.make(settings=Settings(max_connections=maximum))
        for number in range(there):
            context.connections.add(number, object())
        if room:
            context.checkRoom()
        else:
            with pytest.raises(errors.ConnectionLimit) as caught:
                context.checkRoom()
            assert caught.value.error is errors.MAX_CONNECTIONS


def test_nothingOfAClientIsKept() -> None:
    """The record of a closed client does not keep its session in memory."""
    world = World()
    wire, other = world.client(), world.client()
    wire.ask(b"SUB foo 1\r\nSUB bar q 2\r\n")
    for subject in (b"foo", b"bar"):
        other.ask(b"PUB %b 0\r\n\r\n" % subject * 2)
    gone = ref(wire.session)
    wire.transport.hangUp()
    world.settle()
    assert len(world.context.connections.closed) == 1
    del wire
    world.advance(5)
    gc.collect()
    assert gone() is None


class TestTracing:
    """Settings for tracing the protocol."""

    def test_off(self) -> None:
        """Nothing is traced by default."""
        assert not settingsOf("debug: true").logging.isTraced

    def test_trace(self) -> None:
        """C{trace} omits the system account."""
        tracing = settingsOf("trace: true\nmax_traced_msg_len: 10").logging
        assert (tracing.isTraced, tracing.trace_verbose, tracing.max_traced_msg_len) == (
            True,
            False,
            10,
        )

    def test_verbose(self) -> None:
        """C{trace_verbose} includes the system account."""
        tracing = settingsOf("trace_verbose: true\ntrace_headers: true").logging
        assert (tracing.isTraced, tracing.trace_verbose, tracing.trace_headers) == (
            True,
            True,
            True,
        )
