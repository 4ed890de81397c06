"""Tests for L{natsbroker.streaming.context}."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from natsbroker.config.settings.streaming import Streaming
from natsbroker.connections.turns import turnsOn
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.streaming.context import Clients, StreamingContext
from natsbroker.streaming.model import StreamingClient
from natsbroker.subjects.channels import RequestSubjects
from tests.streaming.support import Stage


def test_creationHasNoEffects() -> None:
    """A context subscribes to nothing, starts no timer and reads nothing from the store."""
    stage = Stage()
    before = len(stage.account), stage.clock.getDelayedCalls()
    service = stage.service
    context = StreamingContext(
        stage.bus,
        stage.clock,
        Streaming(),
        RequestSubjects("test-cluster"),
        stage.store,
        service.run,
        stage.clock.seconds,
        lambda: 0,
        lambda: b"_INBOX.x",
        turnsOn(stage.clock).of("A"),
    )
    assert (len(context.clients), len(context.channels)) == (0, 0)
    assert (len(stage.account), stage.clock.getDelayedCalls()) == before


def client(clientID: str = "a", connID: bytes = b"1") -> StreamingClient:
    """A client."""
    return StreamingClient(clientID, "hb", connID, 1, "")


class TestClients:
    """L{Clients}."""

    def test_find(self) -> None:
        """
        A client is found by its connection id, even with a wrong client id; without a connection
        id, by its client id.
        """
        clients = Clients()
        one = client()
        clients.register(one)
        assert clients.find("a", b"1") is one
        assert clients.find("other", b"1") is one
        assert clients.find("a", b"") is one
        assert clients.find("a", b"2") is None
        assert clients.find("b", b"") is None
        assert one.isRegistered

    def test_oneForEachID(self) -> None:
        """There is one client for each client id."""
        clients = Clients()
        clients.register(client())
        with pytest.raises(KeyError):
            clients.register(client(connID=b"2"))
        assert clients.find("a", b"2") is None

    def test_unregister(self) -> None:
        """A client that has left is not found, and gets no heartbeats."""
        clients = Clients()
        one = client()
        clients.register(one)
        clock = Clock()
        one.heartbeat = Deadlines(clock, clock.seconds).after(1, lambda: None)
        clients.unregister(one)
        assert (len(clients), list(clients), clients.find("", b"1")) == (0, [], None)
        assert not one.isRegistered
        assert one.heartbeat is None

    def test_sharedConnectionID(self) -> None:
        """
        If two clients use one connection id, it finds the second, also after the first has left.
        """
        clients = Clients()
        one, two = client(), client("b")
        clients.register(one)
        clients.register(two)
        clients.unregister(one)
        assert clients.find("a", b"1") is two
