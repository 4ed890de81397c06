"""
Tests for L{natsbroker.clients.dialect}: clients of another protocol than NATS. The operations of
the tested protocol are calls of the session in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from natsbroker import errors
from natsbroker.advisories import ClientConnected, ClientDisconnected, ClientRefused, SlowConsumer
from natsbroker.clients.dialect import ClientDialect, DialectFactory
from natsbroker.clients.finding import askToLeave, kick
from natsbroker.config.model import Settings, changed
from natsbroker.config.tls import TLSSettings
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.values import Message
from tests.conftest import FlushLoggedErrors
from tests.support import HEADERS, QUIET, Doorkeeper, Names, Wire, World, onEach, using


class Calls(ClientDialect):
    """
    A dialect each of whose operations is a line with the name of a session's method and its
    arguments.

    @ivar will: a message to publish after the connection has ended.
    @ivar failing: methods that raise exceptions.
    """

    will: tuple[bytes, bytes] | None = None
    failing: tuple[str, ...] = ()

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._input = b""

    def _fail(self, name: str) -> None:
        if name in self.failing:
            raise RuntimeError(name)

    def feed(self, data: bytes) -> None:
        self._fail("feed")
        self._input += data

    def next(self) -> Any:
        line, end, rest = self._input.partition(b"\n")
        if not end:
            return None
        self._input = rest
        return json.loads(line)

    def handle(self, operation: list[Any]) -> None:
        self._fail("handle")
        name, *arguments = operation
        values = [text.encode() if isinstance(text, str) else text for text in arguments]
        try:
            getattr(self.session, name)(*values)
        except errors.ProtocolViolation as violation:
            self.session.write(violation.error.filled(*violation.arguments).encode() + b"\n")

    def encode(self, message: Message, tag: bytes) -> bytes:
        self._fail("encode")
        return b"%b %b %b\n" % (tag, message.shownSubject, message.body)

    def farewell(self, error: errors.WireError) -> bytes:
        self._fail("farewell")
        return b"bye: %b\n" % error.reason.encode()

    def ping(self) -> bytes:
        return b"ping\n"

    def admitted(self) -> None:
        self.session.write(b"admitted\n")

    def subscriptionEnded(self, tag: bytes, isForbidden: bool) -> None:
        self.session.write(b"ended %b %d\n" % (tag, isForbidden))

    def leaving(self) -> None:
        self.session.write(b"leaving\n")

    def closed(self, reason: str) -> None:
        if self.will is not None:
            with suppress(errors.ProtocolViolation):
                self.session.publish(*self.will)


class Dialects(World):
    """
    A broker whose clients use this dialect.

    @ivar dialects: the dialects of all connections.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.nats = self.factory
        self.dialects: list[Calls] = []
        self.made: list[Settings] = []
        self.use()

    def use(self, overlay: Any = None, tls: TLSSettings | None = None) -> DialectFactory:
        """Give other settings to clients that connect from now on."""
        factory = DialectFactory(self.context, self._make, "CALLS", overlay, tls, self._authorizer)
        self.factory = factory  # type: ignore[assignment]
        return factory

    def _make(self, session: Any) -> Calls:
        self.dialects.append(Calls(session))
        return self.dialects[-1]

    def _authorizer(self, settings: Settings) -> Any:
        if settings.no_auth_user == "nobody":
            raise ValueError("nobody")
        self.made.append(settings)
        return Doorkeeper(lambda hello: Grant(account="B"))

    def member(self) -> Wire:
        """A client of the dialect that is logged in."""
        wire = self.dial()
        assert wire.ask(call("login", {})) == b"admitted\n"
        return wire

    def user(self, hello: bytes = QUIET) -> Wire:
        """A client of NATS."""
        ours, self.factory = self.factory, self.nats
        try:
            return self.client(hello)
        finally:
            self.factory = ours


def call(*operation: Any) -> bytes:
    """An operation in the form in which it is sent."""
    return json.dumps(operation).encode() + b"\n"


@pytest.fixture(autouse=True)
def implementation(names: Names) -> Iterator[Names]:
    """Use the implementation under test."""
    with using(names):
        yield names


def granting(**fields: Any) -> Doorkeeper:
    """An authorizer that gives every client the same grant."""
    return Doorkeeper(lambda hello: Grant(user="u", **fields))


@onEach
class TestRights:
    """A client has the permissions of its user on every path."""

    def test_login(self) -> None:
        """The authorizer gets options, address and kind. Input before its answer waits."""
        answer: Deferred[Grant] = Deferred()
        world = Dialects(None, Doorkeeper(lambda hello: answer))
        wire = world.dial()
        assert wire.ask(call("login", {"user": "x", "pass": "y"}) + call("write", "z")) == b""
        asked = world.authorizer.asked[0]
        assert (asked.text("user"), asked.text("pass")) == ("x", "y")
        assert (asked.connectionType, asked.host) == ("CALLS", "127.0.0.1")
        assert not wire.reads()
        answer.callback(Grant(account="A", user="x"))
        assert wire.receive() == b"admitted\nz" and wire.reads()
        assert ClientConnected(wire.session.cid, "A", "x") in world.advisories
        assert wire.session.facts().type == "calls"

    @pytest.mark.parametrize("operation", [("publish", "a", "b"), ("subscribe", "a", "1")])
    def test_nobody(self, operation: tuple[str, ...]) -> None:
        """
        A client that publishes or subscribes before the login is disconnected, even if no login is
        required.
        """
        wire = Dialects().dial()
        assert wire.ask(call(*operation) + call("write", "x")) == b"bye: Authentication Failure\n"

    def test_denied(self) -> None:
        """A denied client is disconnected, and the denial is reported."""

        def deny(hello: ConnectRequest) -> Grant:
            raise errors.Unauthorized

        world = Dialects(None, Doorkeeper(deny))
        assert world.dial().ask(call("login", {})) == b"bye: Authentication Failure\n"
        assert [event.reason for event in world.advisories if isinstance(event, ClientRefused)] == [
            "Authentication Failure"
        ]

    def test_account(self) -> None:
        """A login cannot choose the account."""
        wire = Dialects().dial()
        assert wire.ask(call("login", {"account": "A"})) == b"bye: Authentication Failure\n"

    def test_strangeOptions(self) -> None:
        """Options of wrong types end the connection."""
        assert Dialects().dial().ask(call("login", {"user": 5})) == b"bye: Protocol Violation\n"

    def test_publish(self) -> None:
        """A denied publish, or one to a reserved subject, is refused, and the connection stays."""
        world = Dialects(None, granting(publish=PermissionSet((b"a.>",), (b"a.b",))))
        wire, listener = world.member(), world.user()
        listener.ask(b"SUB > 1\r\n")
        assert b'for Publish to "b"' in wire.ask(call("publish", "b", "x"))
        assert b'for Publish to "a.b"' in wire.ask(call("publish", "a.b", "x"))
        assert b"Reply" in wire.ask(call("publish", "a.c", "x", "_R_.x"))
        assert wire.ask(call("publish", "a.c", "x")) == b""
        assert listener.receive() == b"MSG a.c 1 1\r\nx\r\n"

    @pytest.mark.parametrize("subject", ["", "a b", "a\r\nPUB b 1", "a.*", ">", "a..b"])
    def test_subjects(self, subject: str) -> None:
        """A subject or reply subject that the protocol of NATS cannot represent is refused."""
        wire = Dialects().member()
        assert wire.ask(call("publish", subject, "x")) == b"Invalid Publish Subject\n"
        if subject:
            assert wire.ask(call("publish", "a", "x", subject)) == b"Invalid Publish Subject\n"
        assert b"Invalid" in wire.ask(call("subscribe", "a b", "1"))

    def test_largest(self) -> None:
        """The payload limit of the grant applies, headers included."""
        wire = Dialects(None, granting(maxPayload=30)).member()
        assert wire.ask(call("publish", "a", "x" * 30)) == b""
        assert b"Maximum Payload" in wire.ask(call("publish", "a", "x" * 31))
        assert b"Maximum Payload" in wire.ask(call("publish", "a", "x" * 20, "", {"a": "b"}))

    def test_subscribe(self) -> None:
        """
        Permissions and the limit apply to subscriptions. Messages on denied subjects are omitted.
        """
        allowed = SubscribePermissions(None, (b"a.secret", b"b"))
        world = Dialects(None, granting(subscribe=allowed, maxSubscriptions=1))
        wire, sender = world.member(), world.user()
        assert b'for Subscription to "b"' in wire.ask(call("subscribe", "b", "1"))
        assert wire.ask(call("subscribe", "a.*", "1")) == b""
        assert b"maximum subscriptions" in wire.ask(call("subscribe", "c", "2"))
        sender.ask(b"PUB a.secret 1\r\nx\r\nPUB a.b 1\r\ny\r\n")
        assert wire.receive() == b"1 a.b y\n"

    def test_review(self) -> None:
        """A new grant ends denied subscriptions, and a denial ends the connection."""
        world = Dialects(None, granting())
        wire = world.member()
        wire.ask(call("subscribe", "a", "1") + call("subscribe", "b", "2"))
        only = SubscribePermissions((b"b",))
        world.authorizer.answer = lambda hello: Grant(user="u", subscribe=only)
        wire.session.reauthorize()
        assert wire.receive() == b"ended 1 1\n"
        world.authorizer.answer = lambda hello: Grant(account="A", user="u")
        wire.session.reauthorize()
        assert wire.receive() == b"bye: Client Closed\n"

    def test_will(self) -> None:
        """The will of a disconnected client is published only if its user may do so."""
        world = Dialects(None, granting(publish=PermissionSet((b"a",))))
        listener = world.user()
        listener.ask(b"SUB > 1\r\n")
        for subject in (b"a", b"b"):
            wire = world.member()
            world.dialects[-1].will = subject, b"gone"
            wire.transport.hangUp()
            world.settle()
        assert listener.receive() == b"MSG a 1 4\r\ngone\r\n"
        gone = [event for event in world.advisories if isinstance(event, ClientDisconnected)]
        assert len(gone) == 2 and not len(world.context.connections) - 1
        world.dialects[-1].session.publish(b"a", b"late")
        assert listener.receive() == b""


@onEach
class TestMessages:
    """Messages in both directions."""

    def test_delivery(self) -> None:
        """Each message is encoded by the dialect, on every path, and is counted."""
        world = Dialects()
        wire, sender = world.member(), world.user(HEADERS)
        wire.ask(call("subscribe", "a.*", "1") + call("subscribe", "q", "2", "group"))
        sender.ask(b"PUB a.b 1\r\nx\r\nHPUB a.c 14 15\r\nNATS/1.0\r\n\r\n\r\ny\r\nPUB q 1\r\nz\r\n")
        assert wire.receive() == b"1 a.b x\n1 a.c NATS/1.0\r\n\r\n\r\ny\n2 q z\n"
        assert wire.session.traffic[2:] == (3, 17)

    def test_headers(self) -> None:
        """Headers are those of the NATS message."""
        world = Dialects()
        wire, listener = world.member(), world.user(HEADERS)
        listener.ask(b"SUB a 1\r\n")
        wire.ask(call("publish", "a", "x", "r", {"k": "v"}))
        assert listener.receive() == b"HMSG a 1 r 18 19\r\nNATS/1.0\r\nk: v\r\n\r\nx\r\n"

    def test_echo(self) -> None:
        """A client may exclude its own messages."""
        world = Dialects()
        for echo, expected in ((True, b"1 a x\n"), (False, b"")):
            wire = world.dial()
            wire.ask(call("login", {"echo": echo}) + call("subscribe", "a", "1"))
            assert wire.ask(call("publish", "a", "x")) == expected
            wire.ask(call("unsubscribe", "1"))

    def test_nobodyResponds(self) -> None:
        """A request without responders is answered with the status for that."""
        wire = Dialects().member()
        wire.ask(call("subscribe", "inbox.*", "1"))
        wire.ask(call("subscribe", "inbox.x", "2"))
        answer = wire.ask(call("publish", "service", "x", "inbox.x"))
        assert b"inbox.x NATS/1.0 503\r\nNats-Subject: service\r\n\r\n" in answer

    def test_ending(self) -> None:
        """A subscription ends after its last message, or at once on request."""
        world = Dialects()
        wire = world.member()
        wire.ask(call("subscribe", "a", "1") + call("unsubscribe", "1", 1))
        assert wire.ask(call("publish", "a", "x")) == b"1 a x\nended 1 0\n"
        wire.ask(call("subscribe", "a", "1") + call("unsubscribe", "1"))
        assert wire.ask(call("publish", "a", "x")) == b""

    def test_order(self) -> None:
        """A publish in several steps is finished before the next publish, also without input."""
        world = Dialects()
        wire, listener = world.member(), world.user()
        listener.ask(b"SUB > 1\r\n")
        session = wire.session
        done: list[int] = []

        def slow() -> Iterator[None]:
            yield
            done.append(1)

        session.later(slow())
        session.publish(b"a", b"x")
        assert done == [1]
        assert listener.receive() == b"MSG a 1 1\r\nx\r\n"


@onEach
class TestLimits:
    """Limits that close or delay a connection."""

    @pytest.mark.parametrize("method", ["feed", "handle", "encode", "farewell"])
    def test_failing(self, method: str, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A dialect that raises an exception closes its own connection only."""
        world = Dialects()
        wire, other = world.member(), world.user()
        wire.ask(call("subscribe", "a", "1"))
        other.ask(b"SUB a 1\r\n")
        world.dialects[-1].failing = (method,)
        wire.send(call("write", "x"))
        assert other.ask(b"PUB a 1\r\nx\r\nPING\r\n") == b"MSG a 1 1\r\nx\r\nPONG\r\n"
        if method == "farewell":
            kick(world.context.connections, wire.session.cid)
        assert wire.closed == "lost"
        assert len(flushLoggedErrors(RuntimeError)) == 1

    def test_malformed(self) -> None:
        """Malformed input ends the connection."""
        assert Dialects().member().ask(b"{\n") == b"bye: Protocol Violation\n"

    def test_endless(self) -> None:
        """An endless operation closes the connection at a limit."""
        world = Dialects(Settings(max_payload=1000, max_control_line=100))
        wire = world.member()
        assert wire.ask(b"x" * 1100) == b""
        assert wire.ask(b"x") == b"bye: Protocol Violation\n"

    def test_late(self) -> None:
        """A client that does not log in in time is closed, even if no login is required."""
        world = Dialects()
        wire = world.dial()
        world.advance(world.context.settings.authorization.timeout + 0.1)
        assert wire.receive() == b"bye: Authentication Timeout\n"

    def test_idle(self) -> None:
        """An idle client gets pings, and is disconnected if it does not answer."""
        world = Dialects(Settings(ping_interval=1.0, ping_max=1))
        wire = world.member()
        world.advance(1.5)
        assert wire.receive() == b"ping\n"
        wire.ask(call("ponged"))
        assert wire.session.roundTrip > 0
        world.advance(5.0)
        assert wire.receive().endswith(b"bye: Stale Connection\n")

    def test_full(self) -> None:
        """A client beyond the connection limit gets the dialect's line for the error."""
        world = Dialects(Settings(max_connections=1))
        world.member()
        assert world.dial().receive() == b"bye: Maximum Connections Exceeded\n"

    def test_slow(self) -> None:
        """A client that does not read is disconnected when too much output waits."""
        world = Dialects(Settings(max_pending=1000))
        wire, sender = world.member(), world.user()
        wire.ask(call("subscribe", "a", "1"))
        wire.transport.taking = False
        sender.ask(b"PUB a 200000\r\n" + b"x" * 200_000 + b"\r\n")
        assert wire.closed == "aborted"
        assert wire.session.reason == "Slow Consumer (Pending Bytes)"
        assert any(isinstance(event, SlowConsumer) for event in world.advisories)

    def test_told(self) -> None:
        """A client can be told to leave, and can be disconnected."""
        world = Dialects()
        wire, connections = world.member(), world.context.connections
        assert askToLeave(connections, wire.session.cid)
        assert wire.receive() == b"leaving\n"
        world.context.info = world.context.info.changed(ldm=True)
        wire.session.sendInfo()
        assert wire.receive() == b"leaving\n"
        assert kick(connections, wire.session.cid)
        assert wire.receive() == b"bye: Kicked\n"

    def test_reason(self) -> None:
        """A dialect may close the connection for a violation that NATS connections survive."""
        wire = Dialects().member()
        wire.session.close(errors.INVALID_SUBJECT)
        assert wire.receive() == b"bye: Protocol Violation\n" and wire.closed == "lost"


@onEach
class TestSettings:
    """The settings of clients of a dialect."""

    def test_overlay(self) -> None:
        """
        The dialect's own limits apply to its clients only, and its logins are those of all clients.
        """
        world = Dialects()
        world.use(lambda settings: replace(settings, max_payload=3))
        wire = world.member()
        assert wire.session.settings.max_payload == 3
        assert wire.session.settings is wire.session.settings
        assert b"Maximum Payload" in wire.ask(call("publish", "a", "xxxx"))
        assert wire.session.grant.account == "$G" and not world.made
        assert world.user().session.context.settings.max_payload > 3

    def test_logins(self) -> None:
        """A dialect may have its own users. An overlay with invalid users is refused."""
        world = Dialects()
        world.use(lambda settings: changed(settings, "authorization.user", "x"))
        assert world.member().session.grant.account == "B"
        with pytest.raises(ValueError, match="nobody"):
            world.use(lambda settings: replace(settings, no_auth_user="nobody"))

    def test_reload(self) -> None:
        """A reload applies the dialect's settings and users again, or is refused as a whole."""
        world = Dialects()
        account = ""
        factory = world.use(lambda settings: replace(settings, max_payload=5, no_auth_user=account))
        wire = world.member()
        account = "nobody"
        with pytest.raises(ValueError, match="nobody"):
            factory.planReload(world.context.settings, None)
        assert wire.session.grant.account == "$G"
        account = "somebody"
        factory.planReload(world.context.settings, None)()
        assert wire.receive() == b"bye: Client Closed\n"

    def test_files(self) -> None:
        """TLS with a missing file is refused, at the start and at a reload."""
        world = Dialects()
        wrong = TLSSettings(certs=(("no.pem", "no.pem"),))
        with pytest.raises(ValueError, match=r"no\.pem"):
            world.use(tls=wrong)
        with pytest.raises(ValueError, match=r"no\.pem"):
            world.use().planReload(world.context.settings, wrong)


@onEach
class TestHolding:
    """Operations that wait for something of the dialect."""

    def test_order(self) -> None:
        """Operations behind one that waits are handled after it, and reading pauses."""
        world = Dialects()
        wire = world.member()
        resume = wire.session.hold()
        assert wire.ask(call("write", "x")) == b""
        assert not wire.reads()
        resume()
        assert wire.receive() == b"x" and wire.reads()

    def test_several(self) -> None:
        """Operations wait for everything that they were held for."""
        wire = Dialects().member()
        first, second = wire.session.hold(), wire.session.hold()
        first()
        assert wire.ask(call("write", "x")) == b"" and not wire.reads()
        second()
        assert wire.receive() == b"x" and wire.reads()

    def test_inside(self) -> None:
        """An operation that ends its own wait lets the next one go on."""
        world = Dialects()
        wire = world.member()
        waits: list[Any] = []

        def handle(operation: list[Any]) -> None:
            if operation == ["now"]:
                wire.session.hold()()
            elif operation == ["later"]:
                waits.append(wire.session.hold())
            else:
                wire.session.write(operation[0].encode())

        vars(world.dialects[-1])["handle"] = handle
        assert wire.ask(call("now") + call("a") + call("later") + call("b")) == b"a"
        waits[0]()
        assert wire.receive() == b"b" and wire.reads()

    def test_lost(self) -> None:
        """Operations of a client that is gone are handled, and then it ends once."""
        world = Dialects()
        listener = world.user()
        listener.ask(b"SUB a 1\r\n")
        wire = world.member()
        world.dialects[-1].will = (b"a", b"will")
        waits: list[Any] = []
        dialect, usual = world.dialects[-1], world.dialects[-1].handle

        def handle(operation: list[Any]) -> None:
            if operation == ["later"]:
                waits.append(wire.session.hold())
            else:
                usual(operation)

        vars(dialect)["handle"] = handle
        wire.send(call("later") + call("publish", "a", "x"))
        wire.transport.hangUp()
        world.settle()
        assert listener.receive() == b"" and not wire.session.reason
        waits[0]()
        assert listener.receive() == b"MSG a 1 1\r\nx\r\nMSG a 1 4\r\nwill\r\n"
        ends = [event for event in world.advisories if isinstance(event, ClientDisconnected)]
        assert len(ends) == 1

    def test_closed(self) -> None:
        """A client that is closed meanwhile ends at once, and nothing of it is handled later."""
        world = Dialects()
        wire = world.member()
        resume = wire.session.hold()
        wire.send(call("write", "x"))
        kick(world.context.connections, wire.session.cid)
        assert wire.receive() == b"bye: Kicked\n" and wire.closed
        resume()
        assert wire.receive() == b""
