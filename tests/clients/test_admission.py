"""
The login of a client: authorizers of all kinds, a second CONNECT, and grants that change.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed

from natsbroker import errors
from natsbroker.advisories import (
    ClientConnected,
    ClientDisconnected,
    ClientRefused,
)
from natsbroker.config.model import AuthorizationSettings, Settings
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.values import Kind
from tests.clients.lines import DENIED, msg, pub
from tests.conftest import FlushLoggedErrors
from tests.support import (
    QUIET,
    Doorkeeper,
    Wire,
    World,
    onEach,
)

pytestmark = pytest.mark.usefixtures("implementation")


@onEach
class TestLogin:
    """The login of a client."""

    def connect(self, answer: Any, required: bool = True) -> tuple[World, Wire]:
        """A world with this authorizer, and a client that has received INFO."""
        world = World(authorizer=Doorkeeper(answer, required))
        wire = world.dial()
        wire.receive()
        return world, wire

    def test_granted(self) -> None:
        """A verbose client that is accepted gets +OK, and observers are notified."""
        world, wire = self.connect(lambda hello: Grant("A", "me"))
        assert wire.ask(b"CONNECT {}\r\nPING\r\n") == b"+OK\r\nPONG\r\n"
        assert world.advisories == [ClientConnected(1, "A", "me")]
        assert world.accounts.counts["A"] == 1
        assert str(wire.session) == '127.0.0.1:50000 - cid:1 - "A/user:me"'

    def test_request(self) -> None:
        """The authorizer gets the options of CONNECT, with defaults, and the client's address."""
        world, wire = self.connect(lambda hello: Grant())
        wire.ask(b'CONNECT {"user":"me","PASS":"secret"}\r\n')
        [hello] = world.authorizer.asked
        assert (hello.text("user"), hello.text("pass"), hello.host) == ("me", "secret", "127.0.0.1")
        assert (hello.options["verbose"], hello.connectionType) == (True, "STANDARD")

    @pytest.mark.parametrize("error", [errors.Unauthorized("no"), ZeroDivisionError("broken")])
    @pytest.mark.parametrize("later", [False, True])
    def test_denied(
        self, error: Exception, later: bool, flushLoggedErrors: FlushLoggedErrors
    ) -> None:
        """A denied client gets the same error for every reason, and is disconnected."""

        def answer(hello: ConnectRequest) -> Any:
            if later:
                return fail(error)
            raise error

        world, wire = self.connect(answer)
        assert wire.ask(b"CONNECT {}\r\nSUB foo 1\r\n") == DENIED
        assert wire.closed == "lost"
        assert world.advisories == [ClientRefused(1, "127.0.0.1", "Authentication Failure")]
        assert sum(world.accounts.counts.values()) == 0
        assert len(flushLoggedErrors()) == isinstance(error, ZeroDivisionError)

    @pytest.mark.parametrize("answer", [None, "$G", True, {}])
    def test_garbage(self, answer: object) -> None:
        """An answer that is not a grant denies the login."""
        _, wire = self.connect(lambda hello: answer)
        assert wire.ask(b"CONNECT {}\r\n") == DENIED

    def test_coroutine(self) -> None:
        """An authorizer may be a coroutine."""

        async def answer(hello: ConnectRequest) -> Grant:
            await succeed(None)
            return Grant()

        _, wire = self.connect(answer)
        assert wire.ask(b"CONNECT {}\r\n") == b"+OK\r\n"

    def test_unknownAccount(self) -> None:
        """A grant for an account that does not exist denies the login."""
        _, wire = self.connect(lambda hello: Grant("nowhere"))
        assert wire.ask(b"CONNECT {}\r\n") == DENIED
        assert wire.closed == "lost"

    def test_accountIsFull(self) -> None:
        """A client is refused with an error if its account is at its limit of connections."""
        world, wire = self.connect(lambda hello: Grant())
        world.accounts.maximum = 1
        assert wire.ask(QUIET + b"PING\r\n") == b"PONG\r\n"
        second = world.dial()
        second.receive()
        assert second.ask(QUIET) == b"-ERR 'maximum account active connections exceeded'\r\n"
        assert world.accounts.counts["$G"] == 1

    def test_accountsFail(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A failure during a login closes that connection, and no exception escapes."""
        for later in (False, True):
            grant: Deferred[Grant] = Deferred()
            world, wire = self.connect(lambda hello, grant=grant: grant)

            def explode(grant: Grant, kind: Kind = Kind.CLIENT) -> Any:
                raise ZeroDivisionError("as expected")

            world.accounts.admit = explode  # type: ignore[method-assign]
            if not later:
                grant.callback(Grant())
            wire.send(b"CONNECT {}\r\n")
            if later:
                grant.callback(Grant())
            assert wire.receive() == b""
            assert wire.closed == "lost"
            assert len(flushLoggedErrors(ZeroDivisionError)) == 1

    def test_waits(self) -> None:
        """Input that comes while the authorizer decides is handled after its answer, in order."""
        grant: Deferred[Grant] = Deferred()
        world, wire = self.connect(lambda hello: grant)
        assert wire.ask(QUIET + b"SUB foo 1\r\n" + pub(b"foo", b"hi")[:12]) == b""
        assert wire.ask(pub(b"foo", b"hi")[12:] + b"PING\r\n") == b""
        assert len(world.authorizer.asked) == 1
        grant.callback(Grant())
        assert wire.receive() == msg(b"foo", b"1", b"hi") + b"PONG\r\n"

    def test_waitingIsBounded(self) -> None:
        """No input is read while the authorizer decides."""
        grant: Deferred[Grant] = Deferred()
        _, wire = self.connect(lambda hello: grant)
        wire.send(b"CONNECT {}\r\n")
        assert not wire.reads()
        grant.callback(Grant())
        assert wire.receive() == b"+OK\r\n"
        assert wire.reads()

    def test_neverAnswers(self) -> None:
        """
        An authorizer that never answers denies the login. Its answer is cancelled and ignored.
        """
        cancelled: list[object] = []
        grant: Deferred[Grant] = Deferred(cancelled.append)
        world, wire = self.connect(lambda hello: grant)
        wire.send(b"CONNECT {}\r\n")
        world.advance(1.9)
        assert wire.closed == ""
        world.advance(0.3)
        assert (wire.receive(), wire.closed) == (DENIED, "lost")
        assert cancelled == [grant]

    def test_goesAwayWhileWaiting(self) -> None:
        """A client that disconnects while the authorizer decides is forgotten."""
        grant: Deferred[Grant] = Deferred(lambda deferred: None)
        world, wire = self.connect(lambda hello: grant)
        wire.send(b"CONNECT {}\r\n")
        wire.transport.hangUp()
        world.settle()
        assert len(world.context.connections) == 0
        assert sum(world.accounts.counts.values()) == 0
        assert world.clock.getDelayedCalls() == []

    def test_timeout(self) -> None:
        """A client that does not log in within the time gets an error."""
        world, wire = self.connect(lambda hello: Grant())
        wire.send(b"CONN")
        world.advance(1.9)
        assert wire.closed == ""
        world.advance(0.3)
        assert wire.receive() == b"-ERR 'Authentication Timeout'\r\n"
        assert wire.closed == "lost"

    def test_noTimeoutOnceIn(self) -> None:
        """A client that has sent CONNECT in time is not disconnected later."""
        world, wire = self.connect(lambda hello: Grant())
        wire.ask(QUIET)
        world.advance(1.9)
        assert wire.ask(b"PING\r\n") == b"PONG\r\n"
        world.advance(0.5)
        assert wire.closed == ""

    @pytest.mark.parametrize("first", [b"P", b"SUB foo 1\r\n", b"\r\n"])
    def test_nothingBefore(self, first: bytes) -> None:
        """If a login is required, any input other than CONNECT is refused at its first byte."""
        world, wire = self.connect(lambda hello: Grant())
        assert wire.ask(first) == DENIED
        assert world.authorizer.asked == []

    def test_withoutConnect(self) -> None:
        """
        If CONNECT is not required, the authorizer is asked without options at the first operation.
        """
        world, wire = self.connect(lambda hello: Grant(), required=False)
        assert world.authorizer.asked == []
        assert wire.ask(b"PING\r\n") == b"PONG\r\n"
        assert wire.ask(b"SUB foo 1\r\n") == b"+OK\r\n"
        assert [dict(hello.options) for hello in world.authorizer.asked] == [{}]

    def test_withoutConnectLater(self) -> None:
        """
        The operations of a client without CONNECT are handled after the authorizer has answered.
        """
        grant: Deferred[Grant] = Deferred()
        _, wire = self.connect(lambda hello: grant, required=False)
        assert wire.ask(b"SUB foo 1\r\n" + pub(b"foo", b"hi")) == b""
        grant.callback(Grant())
        assert wire.receive() == b"+OK\r\n+OK\r\n" + msg(b"foo", b"1", b"hi")

    def test_withoutConnectDenied(self) -> None:
        """A client that is denied without CONNECT gets an error at its first operation."""
        _, wire = self.connect(lambda hello: fail(errors.Unauthorized("no")), required=False)
        assert wire.ask(pub(b"foo", b"hi")) == DENIED

    def greeted(self, answer: Any = None) -> tuple[World, Wire]:
        """A world whose guests have a user, and a client that has received INFO."""
        doorkeeper = Doorkeeper(answer or (lambda hello: Grant("A", "guest")), deadline=True)
        world = World(Settings(authorization=AuthorizationSettings(timeout=2.0)), doorkeeper)
        wire = world.dial()
        wire.receive()
        return world, wire

    @pytest.mark.parametrize("first", [b"", b"c", b"CONNECT {"])
    def test_silentGuest(self, first: bytes) -> None:
        """
        If guests have a user, a client that sends nothing, or only a part of CONNECT, is
        disconnected at the login timeout.
        """
        world, wire = self.greeted()
        wire.send(first)
        world.advance(1.9)
        assert (wire.receive(), wire.closed) == (b"", "")
        world.advance(0.2)
        assert wire.receive() == b"-ERR 'Authentication Timeout'\r\n"
        assert (wire.closed, world.authorizer.asked) == ("lost", [])

    @pytest.mark.parametrize("first", [b"P", b"PONG\r\n", b"+OK\r\n", b"INFO {}\r\n"])
    def test_guest(self, first: bytes) -> None:
        """
        If guests have a user, the first byte of another operation than CONNECT logs the client in
        as a guest.
        """
        world, wire = self.greeted()
        assert wire.ask(first) == b""
        assert world.advisories == [ClientConnected(1, "A", "guest")]
        world.advance(5)
        assert wire.closed == ""

    def test_guestDenied(self) -> None:
        """A guest that is denied gets an error at its first byte."""
        _, wire = self.greeted(lambda hello: fail(errors.Unauthorized("no")))
        assert wire.ask(b"P") == DENIED

    def test_guestWaitsForAnswer(self) -> None:
        """Input of a guest is handled after the authorizer has answered."""
        grant: Deferred[Grant] = Deferred()
        _, wire = self.greeted(lambda hello: grant)
        assert wire.ask(b"PI", b"NG\r\n") == b""
        grant.callback(Grant("A", "guest"))
        assert wire.receive() == b"PONG\r\n"


@onEach
class TestConnectAgain:
    """A CONNECT after other operations."""

    def test_keepsEarlySubscriptions(self) -> None:
        """Subscriptions made before the first CONNECT stay, and its options apply."""
        wire = World().dial()
        wire.receive()
        assert wire.ask(b"SUB foo 1\r\n") == b"+OK\r\n"
        assert wire.ask(QUIET + pub(b"foo", b"hi")) == msg(b"foo", b"1", b"hi")
        assert wire.ask(b"SUB bar 1\r\n" + pub(b"bar", b"hi")) == b""

    def test_earlySubscriptionsOfAnotherUser(self) -> None:
        """Subscriptions made before the first CONNECT end if the CONNECT is of another user."""
        world = World(authorizer=Doorkeeper(lambda hello: Grant("A", hello.text("user"))))
        wire = world.dial()
        wire.receive()
        wire.ask(b"SUB foo 1\r\n")
        wire.ask(b'CONNECT {"verbose":false,"pedantic":false,"user":"me"}\r\n')
        assert wire.ask(pub(b"foo", b"hi") + b"PING\r\n") == b"PONG\r\n"
        assert world.accounts.counts["A"] == 1

    def test_dropsSubscriptions(self) -> None:
        """A second CONNECT ends the subscriptions, and keeps the options that it does not name."""
        wire = World().client()
        wire.ask(b"SUB foo 1\r\n")
        assert wire.ask(b"CONNECT {}\r\n" + pub(b"foo", b"hi") + b"PING\r\n") == b"PONG\r\n"
        assert wire.ask(b"SUB foo 1\r\n" + pub(b"foo", b"hi")) == msg(b"foo", b"1", b"hi")

    def test_switchesAccount(self) -> None:
        """
        A second CONNECT may change the account, and both accounts count their connections right.
        """
        world = World(authorizer=Doorkeeper(lambda hello: Grant(hello.text("user") or "A")))
        wire = world.client()
        other = world.client(b'CONNECT {"verbose":false,"pedantic":false,"user":"B"}\r\n')
        other.ask(b"SUB foo 1\r\n")
        wire.ask(pub(b"foo", b"1"))
        wire.ask(b'CONNECT {"user":"B"}\r\n' + pub(b"foo", b"2"))
        assert other.receive() == msg(b"foo", b"1", b"2")
        assert (world.accounts.counts["A"], world.accounts.counts["B"]) == (0, 2)
        kinds = [type(advisory) for advisory in world.advisories]
        assert kinds == [ClientConnected, ClientConnected, ClientDisconnected, ClientConnected]

    def test_deniedTheSecondTime(self) -> None:
        """A second CONNECT that is denied closes the connection."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        world.authorizer.answer = lambda hello: fail(errors.Unauthorized("no"))
        assert wire.ask(QUIET) == DENIED
        assert len(world.accounts["$G"]) == 0

    def test_secondWaits(self) -> None:
        """
        No operation is handled with the first grant while a second CONNECT waits for its answer.
        """
        world = World()
        wire, other = world.client(), world.client()
        other.ask(b"SUB foo 1\r\n")
        grant: Deferred[Grant] = Deferred()
        world.authorizer.answer = lambda hello: grant
        wire.ask(QUIET + pub(b"foo", b"hi"))
        assert other.receive() == b""
        grant.callback(Grant("A"))
        assert other.receive() == b""


@onEach
class TestReauthorizing:
    """Grants of connected clients that are decided again."""

    def world(self, grant: Any) -> World:
        """A world whose authorizer gives this grant."""
        return World(authorizer=Doorkeeper(lambda hello: grant))

    def test_same(self) -> None:
        """A client whose grant stays the same notices nothing."""
        world = self.world(Grant())
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        wire.session.reauthorize()
        assert wire.ask(pub(b"foo", b"x")) == msg(b"foo", b"1", b"x")
        assert world.accounts.counts["$G"] == 1

    def test_denied(self) -> None:
        """A client that is denied when it is checked again gets an error and is disconnected."""
        world = self.world(Grant())
        wire = world.client()
        world.authorizer.answer = lambda hello: fail(errors.Unauthorized("no"))
        wire.session.reauthorize()
        assert (wire.receive(), wire.closed) == (DENIED, "lost")

    @pytest.mark.parametrize("error", [errors.AUTH_REVOKED, errors.ACCOUNT_EXPIRED])
    def test_deniedForAReason(self, error: errors.WireError) -> None:
        """
        A connected client learns the reason of a later denial. At a first login no client learns
        the reason.
        """
        world = self.world(Grant())
        wire = world.client()
        world.authorizer.answer = lambda hello: fail(errors.Unauthorized("no", error))
        wire.session.reauthorize()
        assert (wire.receive(), wire.closed) == (error.line(), "lost")
        assert wire.session.reason == error.reason
        other = world.dial()
        other.receive()
        assert other.ask(b"CONNECT {}\r\n") == DENIED

    @pytest.mark.parametrize(
        ("grant", "told"), [(Grant("A", "me"), b""), (Grant(), b""), (Grant(user="other"), DENIED)]
    )
    def test_otherUser(self, grant: Grant, told: bytes) -> None:
        """
        A client whose new grant is of another user is disconnected. As with nats-server, it gets no
        error if the account differs, or if it becomes a guest.
        """
        world = self.world(Grant(user="me"))
        wire = world.client()
        world.authorizer.answer = lambda hello: grant
        wire.session.reauthorize()
        assert (wire.receive(), bool(wire.closed)) == (told, True)

    def test_userIsAdded(self) -> None:
        """
        A client without a user stays connected only if its new grant is of a user of the same
        account.
        """
        world = self.world(Grant())
        wires = [world.client(), world.client()]
        for wire, grant in zip(wires, [Grant(user="me"), Grant("A", "me")], strict=True):
            world.authorizer.answer = lambda hello, grant=grant: grant
            wire.session.reauthorize()
        assert [wire.closed for wire in wires] == ["", "lost"]
        assert wires[0].session.grant == Grant(user="me")

    def test_newPermissions(self) -> None:
        """
        A new grant ends subscriptions that are denied now, with an error that names them, and
        applies to publishes.
        """
        world = self.world(Grant())
        wire = world.client()
        wire.ask(b"SUB foo 1\r\nSUB bar 2\r\nSUB baz.* 3\r\n" + pub(b"foo", b"x"))
        world.authorizer.answer = lambda hello: Grant(
            publish=PermissionSet(None, [b"foo"]),
            subscribe=SubscribePermissions(None, [b"foo", b"baz.secret"]),
        )
        wire.session.reauthorize()
        assert wire.receive() == (
            b'-ERR \'Permissions Violation for Subscription to "foo" (sid "1")\'\r\n'
        )
        assert wire.ask(pub(b"bar", b"x")) == msg(b"bar", b"2", b"x")
        assert wire.ask(pub(b"baz.secret", b"x") + pub(b"baz.a", b"y")) == msg(b"baz.a", b"3", b"y")
        assert wire.ask(pub(b"foo", b"x")) == (
            b"-ERR 'Permissions Violation for Publish to \"foo\"'\r\n"
        )
        world.authorizer.answer = lambda hello: Grant()
        wire.session.reauthorize()
        assert wire.ask(pub(b"baz.secret", b"z")) == msg(b"baz.secret", b"3", b"z")

    def test_newLimits(self) -> None:
        """The limits of a new grant apply at once."""
        world = self.world(Grant(maxPayload=100, maxSubscriptions=1, expires=1000.0))
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        world.authorizer.answer = lambda hello: Grant(maxPayload=2, maxSubscriptions=2, expires=5.0)
        wire.session.reauthorize()
        assert wire.ask(b"SUB bar 2\r\n") == b""
        assert wire.ask(b"SUB baz 3\r\n") == b"-ERR 'maximum subscriptions exceeded'\r\n"
        world.advance(5.1)
        assert b"User Authentication Expired" in wire.receive()

    def test_responses(self) -> None:
        """A new grant may add the permission to answer requests."""
        world = self.world(Grant())
        wire, asker = world.client(), world.client()
        wire.ask(b"SUB ask 1\r\n")
        world.authorizer.answer = lambda hello: Grant(responses=ResponsePermission(1, 0))
        wire.session.reauthorize()
        asker.ask(pub(b"ask", b"?", b"here"))
        wire.receive()
        assert wire.ask(pub(b"here", b"1")) == b""
        assert b"Permissions Violation" in wire.ask(pub(b"here", b"2"))

    def test_waits(self) -> None:
        """
        No operation is handled while the authorizer decides again. The input is handled afterwards,
        in order.
        """
        world = self.world(Grant())
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n" + b"PUB foo 4\r\n12")
        grant: Deferred[Grant] = Deferred()
        world.authorizer.answer = lambda hello: grant
        wire.session.reauthorize()
        assert not wire.reads()
        assert wire.ask(b"34\r\n", b"PING\r\n") == b""
        grant.callback(Grant())
        assert wire.receive() == msg(b"foo", b"1", b"1234") + b"PONG\r\n"

    def test_neverAnswers(self) -> None:
        """An authorizer that does not answer the second time ends the connection at the timeout."""
        world = self.world(Grant())
        wire = world.client()
        world.authorizer.answer = lambda hello: Deferred()
        wire.session.reauthorize()
        world.advance(2.2)
        assert (wire.receive(), wire.closed) == (DENIED, "lost")

    def test_changedMeanwhile(self) -> None:
        """The authorizer is asked again if the settings change while it decides again."""
        world = self.world(Grant())
        wire = world.client()
        first: Deferred[Grant] = Deferred()
        world.authorizer.answer = lambda hello: first
        wire.session.reauthorize()
        world.authorizer.answer = lambda hello: fail(errors.Unauthorized("no"))
        wire.session.reauthorize()
        first.callback(Grant()) if not first.called else None
        assert wire.receive() == DENIED

    def test_changedBeforeTheFirstAnswer(self) -> None:
        """The authorizer is asked again if the settings change while it decides about the login."""
        world = self.world(Grant())
        wire = world.dial()
        wire.receive()
        first: Deferred[Grant] = Deferred()
        world.authorizer.answer = lambda hello: first
        wire.ask(b"CONNECT {}\r\nPING\r\n")
        world.authorizer.answer = lambda hello: Grant("A", "me")
        wire.session.reauthorize()
        assert wire.receive() == b"+OK\r\nPONG\r\n"
        assert wire.reads()
        assert world.accounts.counts["A"] == 1

    def test_waitsAfterAChangeMeanwhile(self) -> None:
        """
        Each change of the settings restarts the decision, and input waits for the last answer.
        """
        world = self.world(Grant())
        wire = world.client()
        first: Deferred[Grant] = Deferred()
        grant: Deferred[Grant] = Deferred()
        for answer in (first, Grant(), grant):
            world.authorizer.answer = lambda hello, answer=answer: answer
            wire.session.reauthorize()
        assert not wire.reads()
        assert wire.ask(b"PING\r\n") == b""
        grant.callback(Grant())
        assert wire.receive() == b"PONG\r\n"
        assert wire.reads()

    def test_notLetInYet(self) -> None:
        """A client that has not logged in is not checked again."""
        world = self.world(Grant())
        wire = world.dial()
        wire.session.reauthorize()
        assert world.authorizer.asked == []
