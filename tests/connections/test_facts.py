"""Tests for L{natsbroker.connections.facts}."""

from __future__ import annotations

import json
from typing import Any

from natsbroker.config.model import Settings
from natsbroker.connections.facts import (
    LONGEST_TEXT,
    MOST_SUBJECT_BYTES,
    MOST_SUBSCRIPTIONS,
    ConnectionFacts,
    clientInfoOf,
    typeOf,
)
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import ClientInfo
from tests.support import Doorkeeper, World


def hello(**options: Any) -> bytes:
    """
    A CONNECT line.
    """
    return b"CONNECT " + json.dumps({"verbose": False, **options}).encode() + b"\r\n"


class TestFactsOf:
    """Facts of an open connection."""

    def test_beforeLogin(self) -> None:
        """A connection before its login has an address, a start time and no account."""
        world = World()
        world.clock.advance(7)
        facts = world.dial("192.0.2.1").session.facts()
        assert (facts.cid, facts.type, facts.host, facts.port) == (1, "nats", "192.0.2.1", 50000)
        assert (facts.started, facts.lastActivity, facts.roundTrip) == (7, 7, 0.0)
        assert (facts.account, facts.user, facts.name) == ("", "", "")

    def test_afterTraffic(self) -> None:
        """The counters of the facts are those of the connection."""
        world = World(authorizer=Doorkeeper(lambda hello: Grant("A", "alice")))
        wire = world.client(hello(name="n", lang="l", version="v"))
        wire.ask(b"SUB foo 1\r\nPUB foo 3\r\nabc\r\nPUB bar 2\r\nab\r\n")
        facts = wire.session.facts()
        assert (facts.inMessages, facts.inBytes) == (2, 5)
        assert (facts.outMessages, facts.outBytes, facts.subscriptions) == (1, 3, 1)
        assert (facts.name, facts.lang, facts.version) == ("n", "l", "v")
        assert (facts.account, facts.user, facts.details) == ("A", "alice", ())

    def test_typeOfConnection(self) -> None:
        """
        The type is that of WebSocket, MQTT or a third party's connection, and C{nats} for all
        others.
        """
        wire = World().dial()
        wire.protocol.connectionType = "WEBSOCKET"
        assert wire.session.facts().type == "websocket"
        wire.protocol.connectionType = "IN_PROCESS"
        assert wire.session.facts().type == "nats"
        assert [typeOf(kind) for kind in ("MQTT_WS", "LINES")] == ["mqtt", "lines"]

    def test_noSecrets(self) -> None:
        """The facts contain no credentials of CONNECT."""
        secrets = {
            name: f"canary-{name}"
            for name in ("pass", "auth_token", "jwt", "sig", "nkey", "user", "proxy_sig")
        }
        wire = World().client(hello(name="shown", **secrets))
        wire.send(b"SUB foo 1\r\n")
        shown = repr(wire.session.facts()) + repr(wire.session.factsAtEnd())
        assert "shown" in shown
        assert "canary" not in shown


class TestFactsAtEnd:
    """Facts that are kept after a connection has closed."""

    def closed(self, world: World) -> ConnectionFacts:
        """
        The facts of the connection that closed last.
        """
        return world.context.connections.closed[-1].facts

    def test_keepsAccountAndSubscriptions(self) -> None:
        """The facts of a closed connection have its account and its subscriptions."""
        world = World(authorizer=Doorkeeper(lambda hello: Grant("A", "alice")))
        wire = world.client()
        wire.ask(b"SUB foo 1\r\nSUB bar q 2\r\nUNSUB 2 5\r\nPUB foo 2\r\nab\r\n")
        wire.transport.hangUp()
        world.settle()
        facts = self.closed(world)
        assert (facts.account, facts.user, facts.subscriptions) == ("A", "alice", 2)
        assert [tuple(detail) for detail in facts.details] == [
            (b"foo", b"", b"1", 1, 0),
            (b"bar", b"q", b"2", 0, 5),
        ]
        assert facts.outMessages == 1

    def test_pending(self) -> None:
        """A connection that has ended has no pending bytes, although some were not sent."""
        world = World()
        wire = world.client()
        session = wire.session
        session.outbox.pause()
        session.outbox.write(b"x" * 100)
        world.settle()
        session.lost()
        assert self.closed(world).pending == 0

    def test_textIsBounded(self) -> None:
        """Long texts of a peer are truncated in the facts of a closed connection."""
        wire = World().client(hello(name="n" * 999, lang="l" * 999, version="v" * 999))
        facts = wire.session.factsAtEnd()
        assert {len(facts.name), len(facts.lang), len(facts.version)} == {LONGEST_TEXT}
        assert len(wire.session.facts().name) == 999

    def test_subscriptionsAreBounded(self) -> None:
        """The facts of a closed connection have its first subscriptions, and the number of all."""
        world = World()
        wire = world.client()
        for sid in range(100):
            wire.send(b"SUB foo %d\r\n" % sid)
        facts = wire.session.factsAtEnd()
        assert facts.subscriptions == 100
        assert [subscription.sid for subscription in facts.details] == [
            b"%d" % n for n in range(16)
        ]
        assert len(facts.details) == MOST_SUBSCRIPTIONS

    def test_subjectsAreBounded(self) -> None:
        """The subjects in the facts of a closed connection have a limited total length."""
        wire = World().client()
        for sid in range(3):
            wire.send(b"SUB " + b"s" * 500 + b" %d\r\n" % sid)
        kept = wire.session.factsAtEnd().details
        assert len(kept) == 2
        assert sum(len(subscription.pattern) for subscription in kept) <= MOST_SUBJECT_BYTES

    def test_sessionIsNotKept(self) -> None:
        """
        The facts of a closed connection contain only plain values, so that its session can be
        freed.
        """
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        wire.transport.hangUp()
        world.settle()
        (closed,) = world.context.connections.closed
        waiting: list[Any] = [closed.facts, closed.reason, closed.stop]
        while waiting:
            deferred = waiting.pop()
            if isinstance(deferred, tuple):
                waiting += deferred
            else:
                assert deferred is None or type(deferred) in (str, bytes, int, float)

    def test_refusedIsRemembered(self) -> None:
        """A connection beyond the limit is recorded as closed, and counted by this reason."""
        world = World(Settings(max_connections=1))
        world.client()
        refused = world.dial()
        refused.receive()
        world.clock.advance(2)
        assert refused.closed
        connections = world.context.connections
        assert [connection.reason for connection in connections.closed] == [
            "Maximum Connections Exceeded"
        ]
        assert connections.ended == {"Maximum Connections Exceeded": 1}
        assert len(connections) == 1


class TestClientInfo:
    """The description of a client for services of other accounts."""

    def test_little(self) -> None:
        """A description that is not shared has the account and the round trip in nanoseconds."""
        world = World(authorizer=Doorkeeper(lambda hello: Grant("A", "alice")))
        facts = world.client(hello(name="n")).session.facts()._replace(roundTrip=0.5)
        assert clientInfoOf(facts, "server", False) == ClientInfo(acc="A", rtt=500_000_000)

    def test_all(self) -> None:
        """A shared description has the user and the address, and never a secret."""
        world = World(authorizer=Doorkeeper(lambda hello: Grant("A", "alice")))
        world.clock.advance(7)
        wire = world.client(hello(name="n", lang="l", version="v", auth_token="t"))
        info = clientInfoOf(wire.session.facts(), "server", True)
        assert info == ClientInfo(
            start=7.0,
            host="127.0.0.1",
            id=1,
            acc="A",
            user="alice",
            name="n",
            lang="l",
            ver="v",
            rtt=1,
            server="server",
            kind="Client",
            client_type="nats",
        )
