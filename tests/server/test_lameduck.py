"""
Leaving slowly.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from natsbroker.server.lameduck import LameDuck
from tests.server.support import Client, Host, logLines

NEW = b'CONNECT {"verbose":false,"protocol":1}\r\n'
OLD = b'CONNECT {"verbose":false,"protocol":0}\r\n'
TIMES = 'lame_duck_grace_period: "10s"\nlame_duck_duration: "40s"'


class Departure:
    """A broker in lame duck mode, with some clients."""

    def __init__(self, *hellos: bytes, times: str = TIMES) -> None:
        self.host = Host(times)
        self.clients = [self.host.client(hello) for hello in hellos]
        self.done: list[Any] = []
        self.duck = LameDuck(
            self.host.broker.clientContext, self.host.broker.settings, self.host.broker._random
        )

    def begin(self) -> None:
        """Begin."""
        ensureDeferred(self.duck.depart()).addBoth(self.done.append)
        self.host.settle()

    @property
    def left(self) -> list[Client]:
        """The clients that are still connected."""
        return [client for client in self.clients if not client.closed]


class TestTelling:
    """The messages to clients."""

    def test_clientThatReadsInfo(self) -> None:
        """A client that understands INFO receives it at once."""
        leaving = Departure(NEW)
        leaving.begin()
        answer = leaving.clients[0].receive()
        assert answer.startswith(b"INFO ")
        assert json.loads(answer[5:])["ldm"] is True

    def test_clientWithoutLameDuckMode(self) -> None:
        """A client that does not support lame duck mode gets no INFO about it."""
        leaving = Departure(OLD)
        leaving.begin()
        assert leaving.clients[0].receive() == b""

    def test_served(self) -> None:
        """In lame duck mode, clients are served as before."""
        leaving = Departure(OLD)
        leaving.begin()
        assert leaving.clients[0].ask(b"PING\r\n") == b"PONG\r\n"


class TestClosing:
    """The closing of clients."""

    def test_grace(self) -> None:
        """No client is closed in the grace period."""
        leaving = Departure(OLD, OLD)
        leaving.begin()
        leaving.host.advance(9.9)
        assert len(leaving.left) == 2

    def test_spread(self) -> None:
        """Afterwards clients are closed one after the other, without an error line."""
        leaving = Departure(*[OLD] * 4)
        leaving.begin()
        with logLines() as lines:
            leaving.host.advance(10.1)
        assert "[INF] Closing existing clients" in lines
        assert len(leaving.left) == 3
        counts = []
        while leaving.left:
            leaving.host.advance(0.5)
            counts.append(len(leaving.left))
        assert counts == sorted(counts, reverse=True)
        assert set(range(3)) <= set(counts)
        assert all(b"-ERR" not in client.receive() for client in leaving.clients)
        assert leaving.clients[0].session.reason == "Server Shutdown"
        assert leaving.done == [None]

    def test_pauses(self) -> None:
        """Closing two clients takes no longer than a second each."""
        leaving = Departure(OLD, OLD)
        leaving.begin()
        leaving.host.advance(10.1)
        assert len(leaving.left) == 1
        leaving.host.advance(1.1)
        assert leaving.left == []

    def test_manyClients(self) -> None:
        """All clients are closed by the end of the duration, however many there are."""
        leaving = Departure(*[OLD] * 200, times=TIMES)
        leaving.begin()
        leaving.host.advance(10 + 31)
        assert leaving.left == []
        assert leaving.done == [None]

    def test_noTimeLeft(self) -> None:
        """If the grace period is as long as the duration, clients are closed within a second."""
        leaving = Departure(*[OLD] * 5)
        settings = leaving.host.broker.settings
        leaving.duck._settings = replace(settings, lame_duck_duration=10.0)
        leaving.begin()
        leaving.host.advance(11.5)
        assert leaving.left == []


class TestEnding:
    """The end of lame duck mode."""

    def test_noClients(self) -> None:
        """Without clients the mode ends at once."""
        leaving = Departure()
        leaving.begin()
        assert leaving.done == [None]

    def test_everybodyLeft(self) -> None:
        """Lame duck mode ends early when all clients have disconnected."""
        leaving = Departure(NEW, NEW)
        leaving.begin()
        for client in leaving.clients:
            assert leaving.done == []
            client.transport.hangUp()
            leaving.host.settle()
        assert leaving.done == [None]

    @pytest.mark.parametrize("after", [1.0, 10.2])
    def test_cancel(self, after: float) -> None:
        """Lame duck mode can be cancelled at any time. The remaining clients stay connected."""
        leaving = Departure(*[OLD] * 5)
        leaving.begin()
        leaving.host.advance(after)
        there = len(leaving.left)
        leaving.duck.cancel()
        assert leaving.done == [None]
        leaving.host.advance(60)
        assert len(leaving.left) == there

    def test_cancelBeforeBeginning(self) -> None:
        """Cancelling before lame duck mode has no effect, even on a later one."""
        leaving = Departure(OLD)
        leaving.duck.cancel()
        leaving.begin()
        assert (len(leaving.left), leaving.done) == (1, [])
        leaving.host.advance(11.5)
        assert (leaving.left, leaving.done) == ([], [None])
