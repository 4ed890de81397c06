"""
One client's conversation.

Promises: the session answers what the real server answers, keeps order, and lets nothing escape.
The rows of the conformance table are played elsewhere; here is what they leave open: authorizers of
all kinds, deadlines, slow receivers, changes while it runs, and the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed

from natsbroker import errors
from natsbroker.advisories import (
    ClientConnected,
    ClientDisconnected,
    ClientRefused,
    SlowConsumer,
)
from natsbroker.net.limits import Limits
from natsbroker.net.stall import PATIENCE
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.wire.grants import Grant, Hello
from natsbroker.wire.values import Kind, Message
from tests.conftest import FlushLoggedErrors
from tests.support import (
    HEADERS,
    QUIET,
    BatchRecorder,
    Doorkeeper,
    Names,
    Recorder,
    Wire,
    World,
    onEach,
    using,
)

DENIED = b"-ERR 'Authorization Violation'\r\n"
MIB = 1 << 20


@pytest.fixture(autouse=True)
def implementation(names: Names) -> Iterator[Names]:
    """Use the implementation under test."""
    with using(names):
        yield names


def info(data: bytes) -> dict[str, Any]:
    """The fields of an INFO line, which must be all there is."""
    assert data.startswith(b"INFO ") and data.endswith(b" \r\n")
    fields: dict[str, Any] = json.loads(data[5:])
    return fields


def pub(subject: bytes, body: bytes, reply: bytes = b"") -> bytes:
    """A PUB."""
    return b"PUB %b %b%d\r\n%b\r\n" % (subject, reply + b" " if reply else b"", len(body), body)


def msg(subject: bytes, sid: bytes, body: bytes) -> bytes:
    """A MSG."""
    return b"MSG %b %b %d\r\n%b\r\n" % (subject, sid, len(body), body)


@onEach
class TestGreeting:
    """The first bytes."""

    def test_info(self) -> None:
        """A client is greeted with INFO, which names its connection."""
        world = World()
        fields = info(world.dial("10.0.0.7").receive())
        assert (fields["client_id"], fields["client_ip"]) == (1, "10.0.0.7")
        assert "nonce" not in fields and "auth_required" not in fields
        assert info(world.dial().receive())["client_id"] == 2

    def test_nonce(self) -> None:
        """Where a signature is wanted INFO has a nonce of 15 characters, new for everybody."""
        world = World(authorizer=Doorkeeper(required=True, nonce=True))
        letters = iter((b"a", b"b"))
        world.context.nonceBytes = lambda count: next(letters) * count
        nonces = [info(world.dial().receive())["nonce"] for _ in range(2)]
        assert [len(each) for each in nonces] == [15, 15]
        assert nonces[0] != nonces[1]

    def test_oneTooMany(self) -> None:
        """One connection too many is greeted, told so and closed; room returns."""
        world = World(Limits(max_connections=2))
        wires = [world.client() for _ in range(2)]
        third = world.dial()
        greeting, _, rest = third.receive().partition(b"\r\n")
        assert info(greeting + b"\r\n")["client_id"] == 3
        assert rest == b"-ERR 'maximum connections exceeded'\r\n"
        assert third.closed == "lost"
        wires[0].transport.hangUp()
        world.settle()
        assert world.client().ask(b"PING\r\n") == b"PONG\r\n"

    def test_withoutLimit(self) -> None:
        """A limit of zero is none."""
        world = World(Limits(max_connections=0))
        assert all(world.client().ask(b"PING\r\n") == b"PONG\r\n" for _ in range(10))


@onEach
class TestLogin:
    """Being let in."""

    def connect(self, answer: Any, required: bool = True) -> tuple[World, Wire]:
        """A world with such an authorizer, and a client that has been greeted."""
        world = World(authorizer=Doorkeeper(answer, required))
        wire = world.dial()
        wire.receive()
        return world, wire

    def test_granted(self) -> None:
        """Who is let in gets +OK if it is verbose, and is announced."""
        world, wire = self.connect(lambda hello: Grant("A", "me"))
        assert wire.ask(b"CONNECT {}\r\nPING\r\n") == b"+OK\r\nPONG\r\n"
        assert world.advisories == [ClientConnected(1, "A", "me")]
        assert world.accounts.counts["A"] == 1
        assert str(wire.session) == '127.0.0.1:50000 - cid:1 - "A/user:me"'

    def test_whatItSaid(self) -> None:
        """The authorizer is told what CONNECT said, with defaults, and where it came from."""
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
        """Who is denied, for whatever reason, is told the one text and closed."""

        def answer(hello: Hello) -> Any:
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
        """An answer that is no grant lets nobody in."""
        _, wire = self.connect(lambda hello: answer)
        assert wire.ask(b"CONNECT {}\r\n") == DENIED

    def test_coroutine(self) -> None:
        """An authorizer may be a coroutine."""

        async def answer(hello: Hello) -> Grant:
            await succeed(None)
            return Grant()

        _, wire = self.connect(answer)
        assert wire.ask(b"CONNECT {}\r\n") == b"+OK\r\n"

    def test_unknownAccount(self) -> None:
        """A grant for an account that does not exist lets nobody in."""
        _, wire = self.connect(lambda hello: Grant("nowhere"))
        assert wire.ask(b"CONNECT {}\r\n") == DENIED
        assert wire.closed == "lost"

    def test_accountIsFull(self) -> None:
        """An account that takes no more connections says so."""
        world, wire = self.connect(lambda hello: Grant())
        world.accounts.maximum = 1
        assert wire.ask(QUIET + b"PING\r\n") == b"PONG\r\n"
        second = world.dial()
        second.receive()
        assert second.ask(QUIET) == b"-ERR 'maximum account active connections exceeded'\r\n"
        assert world.accounts.counts["$G"] == 1

    def test_accountsFail(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A failure in letting somebody in closes that connection, and nothing escapes."""
        for later in (False, True):
            grant: Deferred[Grant] = Deferred()
            world, wire = self.connect(lambda hello, grant=grant: grant)

            def explode(grant: Grant) -> Any:
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
        """What comes while the authorizer thinks is handled when it has answered, in order."""
        grant: Deferred[Grant] = Deferred()
        world, wire = self.connect(lambda hello: grant)
        assert wire.ask(QUIET + b"SUB foo 1\r\n" + pub(b"foo", b"hi")[:12]) == b""
        assert wire.ask(pub(b"foo", b"hi")[12:] + b"PING\r\n") == b""
        assert len(world.authorizer.asked) == 1
        grant.callback(Grant())
        assert wire.receive() == msg(b"foo", b"1", b"hi") + b"PONG\r\n"

    def test_waitingIsBounded(self) -> None:
        """While the authorizer thinks nothing more is read."""
        grant: Deferred[Grant] = Deferred()
        _, wire = self.connect(lambda hello: grant)
        wire.send(b"CONNECT {}\r\n")
        assert not wire.reads()
        grant.callback(Grant())
        assert wire.receive() == b"+OK\r\n"
        assert wire.reads()

    def test_neverAnswers(self) -> None:
        """An authorizer that never answers lets nobody in; its answer is cancelled and ignored."""
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
        """A client that goes away while the authorizer thinks is forgotten."""
        grant: Deferred[Grant] = Deferred(lambda deferred: None)
        world, wire = self.connect(lambda hello: grant)
        wire.send(b"CONNECT {}\r\n")
        wire.transport.hangUp()
        world.settle()
        assert len(world.context.connections) == 0
        assert sum(world.accounts.counts.values()) == 0
        assert world.clock.getDelayedCalls() == []

    def test_timeout(self) -> None:
        """Who must say who it is and does not is told so when the time is over."""
        world, wire = self.connect(lambda hello: Grant())
        wire.send(b"CONN")
        world.advance(1.9)
        assert wire.closed == ""
        world.advance(0.3)
        assert wire.receive() == b"-ERR 'Authentication Timeout'\r\n"
        assert wire.closed == "lost"

    def test_noTimeoutOnceIn(self) -> None:
        """Who said it in time is left alone."""
        world, wire = self.connect(lambda hello: Grant())
        wire.ask(QUIET)
        world.advance(1.9)
        assert wire.ask(b"PING\r\n") == b"PONG\r\n"
        world.advance(0.5)
        assert wire.closed == ""

    @pytest.mark.parametrize("first", [b"P", b"SUB foo 1\r\n", b"\r\n"])
    def test_nothingBefore(self, first: bytes) -> None:
        """Where a login is required anything else is refused at its first byte."""
        world, wire = self.connect(lambda hello: Grant())
        assert wire.ask(first) == DENIED
        assert world.authorizer.asked == []

    def test_withoutConnect(self) -> None:
        """Where none is required the authorizer is asked with nothing at the first operation."""
        world, wire = self.connect(lambda hello: Grant(), required=False)
        assert world.authorizer.asked == []
        assert wire.ask(b"PING\r\n") == b"PONG\r\n"
        assert wire.ask(b"SUB foo 1\r\n") == b"+OK\r\n"
        assert [dict(hello.options) for hello in world.authorizer.asked] == [{}]

    def test_withoutConnectLater(self) -> None:
        """The operation that it began with is done when the authorizer has answered."""
        grant: Deferred[Grant] = Deferred()
        _, wire = self.connect(lambda hello: grant, required=False)
        assert wire.ask(b"SUB foo 1\r\n" + pub(b"foo", b"hi")) == b""
        grant.callback(Grant())
        assert wire.receive() == b"+OK\r\n+OK\r\n" + msg(b"foo", b"1", b"hi")

    def test_withoutConnectDenied(self) -> None:
        """Who is not let in without CONNECT is told so at the first operation."""
        _, wire = self.connect(lambda hello: fail(errors.Unauthorized("no")), required=False)
        assert wire.ask(pub(b"foo", b"hi")) == DENIED


@onEach
class TestConnectAgain:
    """CONNECT after something else."""

    def test_keepsEarlySubscriptions(self) -> None:
        """Subscriptions from before the first CONNECT stay, with the options that it says."""
        wire = World().dial()
        wire.receive()
        assert wire.ask(b"SUB foo 1\r\n") == b"+OK\r\n"
        assert wire.ask(QUIET + pub(b"foo", b"hi")) == msg(b"foo", b"1", b"hi")
        assert wire.ask(b"SUB bar 1\r\n" + pub(b"bar", b"hi")) == b""

    def test_earlySubscriptionsOfAnotherUser(self) -> None:
        """They end if CONNECT makes it somebody else."""
        world = World(authorizer=Doorkeeper(lambda hello: Grant("A", hello.text("user"))))
        wire = world.dial()
        wire.receive()
        wire.ask(b"SUB foo 1\r\n")
        wire.ask(b'CONNECT {"verbose":false,"pedantic":false,"user":"me"}\r\n')
        assert wire.ask(pub(b"foo", b"hi") + b"PING\r\n") == b"PONG\r\n"
        assert world.accounts.counts["A"] == 1

    def test_dropsSubscriptions(self) -> None:
        """A second CONNECT drops the subscriptions, keeps options that it does not name."""
        wire = World().client()
        wire.ask(b"SUB foo 1\r\n")
        assert wire.ask(b"CONNECT {}\r\n" + pub(b"foo", b"hi") + b"PING\r\n") == b"PONG\r\n"
        assert wire.ask(b"SUB foo 1\r\n" + pub(b"foo", b"hi")) == msg(b"foo", b"1", b"hi")

    def test_switchesAccount(self) -> None:
        """A second CONNECT may lead to another account; the books are right."""
        world = World(authorizer=Doorkeeper(lambda hello: Grant(hello.text("user") or "A")))
        wire = world.client()
        other = world.client(b'CONNECT {"verbose":false,"pedantic":false,"user":"B"}\r\n')
        other.ask(b"SUB foo 1\r\n")
        wire.ask(pub(b"foo", b"1"))
        wire.ask(b'CONNECT {"user":"B"}\r\n' + pub(b"foo", b"2"))
        assert other.receive() == msg(b"foo", b"1", b"2")
        assert (world.accounts.counts["A"], world.accounts.counts["B"]) == (0, 2)
        kinds = [type(each) for each in world.advisories]
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
        """While a second CONNECT waits, nothing is done in the first one's name."""
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
class TestOptions:
    """What CONNECT can say."""

    def test_echo(self) -> None:
        """A client that wants no echo gets everything but its own messages."""
        world = World()
        wire = world.client(b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n')
        wire.ask(b"SUB foo 1\r\n")
        assert wire.ask(pub(b"foo", b"mine")) == b""
        world.client().ask(pub(b"foo", b"theirs"))
        assert wire.receive() == msg(b"foo", b"1", b"theirs")

    def test_protocol(self) -> None:
        """The answer to the first PING of a newer client is followed by INFO, once."""
        wire = World().client(b'CONNECT {"verbose":false,"protocol":1}\r\n')
        pong, _, rest = wire.ask(b"PING\r\n").partition(b"\r\n")
        assert pong == b"PONG"
        fields = info(rest)
        assert (fields["connect_info"], fields["remote_account"]) == (True, "$G")
        assert wire.ask(b"PING\r\n") == b"PONG\r\n"

    def test_noResponders(self) -> None:
        """Who asks and reaches nobody is told so at its reply subject."""
        wire = World().client(HEADERS)
        wire.ask(b"SUB _INBOX.* 5\r\n")
        block = b"NATS/1.0 503\r\nNats-Subject: nobody\r\n\r\n"
        assert wire.ask(pub(b"nobody", b"", b"_INBOX.x")) == (
            b"HMSG _INBOX.x 5 38 38\r\n" + block + b"\r\n"
        )
        assert wire.ask(pub(b"nobody", b"")) == b""
        assert wire.ask(pub(b"nobody", b"", b"elsewhere")) == b""

    def test_headersSwitchedOff(self) -> None:
        """Where the server has no headers, HPUB is refused and no_responders too."""
        world = World(Limits(headers=False))
        wire = world.client(b'CONNECT {"verbose":false,"headers":true}\r\n')
        assert (wire.ask(b"HPUB foo 1 1\r\nx\r\n"), wire.closed) == (b"", "lost")
        other = world.dial()
        other.receive()
        answer = other.ask(b'CONNECT {"headers":true,"no_responders":true}\r\n')
        assert answer == b"-ERR 'no responders requires headers support'\r\n"

    def test_pedantic(self) -> None:
        """A pedantic client is told of a bad subject before its payload is there."""
        wire = World().client(b'CONNECT {"verbose":false}\r\n')
        assert wire.ask(b"PUB foo.* 2\r\n") == b"-ERR 'Invalid Publish Subject'\r\n"
        assert wire.ask(b"hi\r\nPING\r\n") == b"PONG\r\n"


@onEach
class TestPermissions:
    """What the grant says."""

    def client(self, grant: Grant, hello: bytes = HEADERS) -> tuple[World, Wire]:
        """A client with such a grant."""
        world = World(authorizer=Doorkeeper(lambda hello: grant))
        return world, world.client(hello)

    def test_publish(self) -> None:
        """What is denied is refused by name, again and again; what is allowed is not."""
        _, wire = self.client(Grant(publish=PermissionSet([b"ok"])))
        wire.ask(b"SUB > 1\r\n")
        answer = wire.ask(pub(b"no", b"1") + pub(b"ok", b"2") + pub(b"no", b"3"))
        refusal = b"-ERR 'Permissions Violation for Publish to \"no\"'\r\n"
        assert answer == refusal + msg(b"ok", b"1", b"2") + refusal

    def test_subscribe(self) -> None:
        """A subscription that is denied does not stand; its sid stays free."""
        _, wire = self.client(Grant(subscribe=SubscribePermissions([b"ok"])))
        refusal = b"-ERR 'Permissions Violation for Subscription to \"no\"'\r\n"
        assert wire.ask(b"SUB no 1\r\nSUB ok 1\r\n" + pub(b"ok", b"x")) == refusal + msg(
            b"ok", b"1", b"x"
        )

    def test_filtered(self) -> None:
        """A subscription that covers something denied stands; that is not delivered."""
        _, wire = self.client(Grant(subscribe=SubscribePermissions(None, [b"a.secret"])))
        wire.ask(b"SUB a.* 1\r\n")
        assert wire.ask(pub(b"a.secret", b"x") + pub(b"a.b", b"y")) == msg(b"a.b", b"1", b"y")

    def test_responses(self) -> None:
        """Who may only answer can answer what it was asked, as often as it may."""
        grant = Grant(responses=ResponsePermission(2, 10), subscribe=SubscribePermissions([b"ask"]))
        world, wire = self.client(grant)
        wire.ask(b"SUB ask 1\r\n")
        world.authorizer.answer = lambda hello: Grant()
        asker = world.client()
        asker.ask(b"SUB _INBOX.> 1\r\n")
        refusal = b"-ERR 'Permissions Violation for Publish to \"_INBOX.a\"'\r\n"
        assert wire.ask(pub(b"_INBOX.a", b"early")) == refusal
        asker.ask(pub(b"ask", b"?", b"_INBOX.a"))
        assert wire.receive() == b"MSG ask 1 _INBOX.a 1\r\n?\r\n"
        assert wire.ask(pub(b"_INBOX.a", b"1"), pub(b"_INBOX.a", b"2")) == b""
        assert wire.ask(pub(b"_INBOX.a", b"3")) == refusal
        assert asker.receive() == msg(b"_INBOX.a", b"1", b"1") + msg(b"_INBOX.a", b"1", b"2")
        asker.ask(pub(b"ask", b"?", b"_INBOX.a"))
        world.advance(10.1)
        wire.receive()
        assert wire.ask(pub(b"_INBOX.a", b"late")) == refusal

    def test_ownLimits(self) -> None:
        """A grant's own limits go before the server's."""
        world, wire = self.client(Grant(maxPayload=3, maxSubscriptions=1))
        assert wire.ask(b"SUB a 1\r\nSUB b 2\r\n") == b"-ERR 'maximum subscriptions exceeded'\r\n"
        assert wire.ask(b"PUB a 4\r\n") == b"-ERR 'Maximum Payload Violation'\r\n"
        world.authorizer.answer = lambda hello: Grant(maxPayload=-1)
        generous = world.client()
        assert generous.ask(b"PUB a %d\r\n" % (2 * MIB)) == b""
        assert generous.closed == ""

    def test_namesAreNotTrusted(self) -> None:
        """A refusal that names a subject of any bytes is one line that can be read."""
        _, wire = self.client(Grant(publish=PermissionSet([])))
        answer = wire.ask(pub(b"\xff\xfe'%s", b""))
        assert answer == b"-ERR 'Permissions Violation for Publish to \"\\xff\\xfe'%s\"'\r\n"


@onEach
class TestReauthorizing:
    """Grants that may no longer hold."""

    def world(self, grant: Any) -> World:
        """A world that grants that."""
        return World(authorizer=Doorkeeper(lambda hello: grant))

    def test_same(self) -> None:
        """Who is still let in notices nothing."""
        world = self.world(Grant())
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        wire.session.reauthorize()
        assert wire.ask(pub(b"foo", b"x")) == msg(b"foo", b"1", b"x")
        assert world.accounts.counts["$G"] == 1

    def test_denied(self) -> None:
        """Who is no longer let in is told so and closed."""
        world = self.world(Grant())
        wire = world.client()
        world.authorizer.answer = lambda hello: fail(errors.Unauthorized("no"))
        wire.session.reauthorize()
        assert (wire.receive(), wire.closed) == (DENIED, "lost")

    @pytest.mark.parametrize("grant", [Grant("A"), Grant(user="other")])
    def test_somebodyElse(self, grant: Grant) -> None:
        """Who would be somebody else now must connect again."""
        world = self.world(Grant())
        wire = world.client()
        world.authorizer.answer = lambda hello: grant
        wire.session.reauthorize()
        assert wire.receive() == DENIED

    def test_newPermissions(self) -> None:
        """Subscriptions that are no longer allowed end and are named; publishing follows too."""
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
        """A new grant's own limits are in force at once."""
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
        """The permission to answer can be taken away and given."""
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
        """While the authorizer thinks nothing is done; what came is done in order afterwards."""
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
        """An authorizer that does not answer again in time ends the connection."""
        world = self.world(Grant())
        wire = world.client()
        world.authorizer.answer = lambda hello: Deferred()
        wire.session.reauthorize()
        world.advance(2.2)
        assert (wire.receive(), wire.closed) == (DENIED, "lost")

    def test_changedMeanwhile(self) -> None:
        """A change that comes while the authorizer thinks makes it be asked afresh."""
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
        """The same while it is thinking for the first time."""
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

    def test_notLetInYet(self) -> None:
        """Who has not asked to be let in is not asked about."""
        world = self.world(Grant())
        wire = world.dial()
        wire.session.reauthorize()
        assert world.authorizer.asked == []


@onEach
class TestDeadlines:
    """What happens when time passes."""

    def test_pings(self) -> None:
        """A client that is silent is sent PINGs, and is stale when it leaves too many open."""
        world = World(Limits(ping_interval=10.0, ping_max=2))
        wire = world.client()
        world.advance(2.5)
        assert wire.receive() == b"PING\r\n"
        world.advance(10)
        assert wire.receive() == b"PING\r\n"
        world.advance(9.5)
        assert (wire.receive(), wire.closed) == (b"", "")
        world.advance(0.6)
        assert wire.receive() == b"-ERR 'Stale Connection'\r\n"
        assert wire.closed == "lost"

    def test_pongs(self) -> None:
        """A client that answers stays, and the round trip is measured."""
        world = World(Limits(ping_interval=10.0, ping_max=2))
        wire = world.client()
        for _ in range(6):
            world.advance(10)
            if wire.receive():
                world.advance(0.2)
                wire.send(b"PONG\r\n")
        assert wire.closed == ""
        assert 0.15 < wire.session.roundTrip < 10

    @pytest.mark.parametrize("data", [pub(b"foo", b"x"), b"PING\r\n", b"SUB foo 1\r\n"])
    def test_trafficIsEnough(self, data: bytes) -> None:
        """Any operation but PONG keeps PINGs away after the first."""
        world = World(Limits(ping_interval=10.0))
        wire = world.client()
        world.advance(3)
        assert wire.ask(b"PONG\r\n") == b"PING\r\n"
        for _ in range(10):
            world.advance(5)
            assert b"PING" not in wire.ask(data)

    def test_beforeLogin(self) -> None:
        """A client that never says CONNECT is asked too."""
        world = World(Limits(ping_interval=1.0, ping_max=1))
        wire = world.dial()
        wire.receive()
        world.advance(5)
        assert wire.receive() == b"PING\r\n-ERR 'Stale Connection'\r\n"

    def test_expires(self) -> None:
        """A grant that ends closes the connection then."""
        world = World(authorizer=Doorkeeper(lambda hello: Grant(expires=50.0)))
        wire = world.client()
        world.advance(49.9)
        wire.receive()
        assert wire.closed == ""
        world.advance(0.2)
        assert wire.receive() == b"-ERR 'User Authentication Expired'\r\n"

    def test_expiredAlready(self) -> None:
        """A grant that has ended already lets nobody stay."""
        world = World(authorizer=Doorkeeper(lambda hello: Grant(expires=50.0)))
        world.clock.advance(100)
        wire = world.dial()
        wire.receive()
        wire.send(QUIET)
        world.advance(0.1)
        assert wire.receive() == b"-ERR 'User Authentication Expired'\r\n"

    def test_writeDeadline(self) -> None:
        """A client that takes nothing for too long is cut without a word."""
        world = World(Limits(write_deadline=3.0))
        wire, other = world.client(), world.client()
        wire.ask(b"SUB foo 1\r\n")
        wire.transport.taking = False
        other.ask(pub(b"foo", b"x" * 200_000))
        world.advance(2.9)
        assert wire.closed == ""
        world.advance(0.2)
        assert (wire.receive(), wire.closed) == (b"", "aborted")
        assert wire.session.reason == "Slow Consumer (Write Deadline)"
        assert world.context.connections.slow == {"Slow Consumer (Write Deadline)": 1}

    def test_writeDeadlineAtTheBeginningOfTime(self) -> None:
        """That holds also where the clock began at zero."""
        world = World(Limits(write_deadline=3.0))
        wire = world.dial()
        wire.session.writeBlocked()
        world.advance(3.1)
        assert wire.closed == "aborted"

    def test_takesInTime(self) -> None:
        """A client that takes what waits before that stays."""
        world = World(Limits(write_deadline=3.0))
        wire, other = world.client(), world.client()
        wire.ask(b"SUB foo 1\r\n")
        for _ in range(3):
            wire.transport.taking = False
            other.ask(pub(b"foo", b"x" * 200_000))
            world.advance(2)
            wire.transport.taking = True
            assert len(wire.receive()) > 200_000
            world.advance(2)
        assert wire.closed == ""

    def test_nothingIsLeft(self) -> None:
        """When all connections have gone there are no timers."""
        world = World()
        for number in range(5):
            wire = world.client()
            wire.ask(b"SUB foo 1\r\n") if number % 2 else wire.ask(b"FOO\r\n")
            wire.transport.hangUp()
        world.advance(2)
        assert len(world.context.connections) == 0
        assert world.clock.getDelayedCalls() == []


@onEach
class TestSlowReceivers:
    """Receivers that lag, and those who publish to them."""

    def test_cut(self) -> None:
        """A receiver for which too much waits is cut without a word; others notice nothing."""
        world = World(Limits(max_pending=300_000, stall=False))
        slow, good, publisher = (world.client() for _ in range(3))
        for each in (slow, good):
            each.ask(b"SUB foo 1\r\n")
        slow.transport.taking = False
        for _ in range(10):
            publisher.ask(pub(b"foo", b"x" * 100_000))
            assert len(good.receive()) > 100_000
        assert (slow.receive(), slow.closed) == (b"", "aborted")
        assert slow.session.reason == "Slow Consumer (Pending Bytes)"
        assert world.context.connections.slow == {"Slow Consumer (Pending Bytes)": 1}
        assert [each for each in world.advisories if isinstance(each, SlowConsumer)] == [
            SlowConsumer(slow.session.cid, 300_000, "Slow Consumer (Pending Bytes)")
        ]
        assert len(world.accounts["$G"]) == 1

    def test_memoryIsBounded(self) -> None:
        """No more than the limit and one transport's buffer waits for a receiver."""
        world = World(Limits(max_pending=300_000, stall=False))
        slow, publisher = world.client(), world.client()
        slow.ask(b"SUB foo 1\r\n")
        slow.transport.taking = False
        for _ in range(200):
            publisher.ask(pub(b"foo", b"x" * 5000))
            assert slow.session.outbox.pending <= 300_000
            assert slow.transport.waiting <= 80_000

    def test_publisherWaits(self) -> None:
        """A publisher is not read while a receiver that it reached has more than 1 MiB waiting."""
        world = World()
        slow, publisher, other = (world.client() for _ in range(3))
        slow.ask(b"SUB foo 1\r\n")
        slow.transport.taking = False
        for _ in range(3):
            publisher.ask(pub(b"foo", b"x" * 600_000))
        assert not publisher.reads()
        assert other.ask(b"PING\r\n" + pub(b"bar", b"x")) == b"PONG\r\n"
        assert other.reads()
        slow.transport.taking = True
        assert len(slow.receive()) > 1_800_000
        assert publisher.reads()
        assert publisher.ask(b"PING\r\n") == b"PONG\r\n"

    def test_patienceEnds(self) -> None:
        """A publisher goes on after a while; the receiver is not waited for again."""
        world = World()
        slow, publisher = world.client(), world.client()
        slow.ask(b"SUB foo 1\r\n")
        slow.transport.taking = False
        for _ in range(3):
            publisher.ask(pub(b"foo", b"x" * 600_000))
        world.advance(PATIENCE + 0.05)
        assert publisher.reads()
        assert slow.session.outbox.lagging
        publisher.ask(pub(b"foo", b"x" * 600_000))
        assert publisher.reads()
        assert slow.closed == ""

    def test_waitsAgainForOneThatCaughtUp(self) -> None:
        """A receiver that has caught up is waited for again."""
        world = World()
        slow, publisher = world.client(), world.client()
        slow.ask(b"SUB foo 1\r\n")
        for _ in range(2):
            slow.transport.taking = False
            for _ in range(3):
                publisher.ask(pub(b"foo", b"x" * 600_000))
            assert not publisher.reads()
            world.advance(PATIENCE + 0.05)
            slow.transport.taking = True
            slow.receive()
            assert publisher.reads()

    def test_receiverGoes(self) -> None:
        """A publisher that waits goes on when the receiver goes away."""
        world = World()
        slow, publisher = world.client(), world.client()
        slow.ask(b"SUB foo 1\r\n")
        slow.transport.taking = False
        for _ in range(3):
            publisher.ask(pub(b"foo", b"x" * 600_000))
        slow.transport.hangUp()
        world.settle()
        assert publisher.reads()

    def test_publisherGoes(self) -> None:
        """A publisher that waits may go away; nothing is left of the wait."""
        world = World()
        slow, publisher = world.client(), world.client()
        slow.ask(b"SUB foo 1\r\n")
        slow.transport.taking = False
        for _ in range(3):
            publisher.ask(pub(b"foo", b"x" * 600_000))
        publisher.transport.hangUp()
        world.advance(1)
        assert world.accounts.counts["$G"] == 1
        slow.transport.taking = True
        assert len(slow.receive()) > 1_800_000

    def test_switchedOff(self) -> None:
        """Where the settings say so no publisher waits for anybody."""
        world = World(Limits(stall=False))
        slow, publisher = world.client(), world.client()
        slow.ask(b"SUB foo 1\r\n")
        slow.transport.taking = False
        for _ in range(4):
            publisher.ask(pub(b"foo", b"x" * 600_000))
        assert publisher.reads()

    def test_nothingIsLost(self) -> None:
        """A receiver that stops and goes on gets everything, in order."""
        world = World()
        slow, publisher = world.client(), world.client()
        slow.ask(b"SUB foo 1\r\n")
        got = b""
        for number in range(60):
            slow.transport.taking = number % 3 == 0
            publisher.ask(pub(b"foo", b"%06d" % number * 5000))
            got += slow.receive()
            world.advance(0.2)
        slow.transport.taking = True
        got += slow.receive()
        assert got.replace(b"PING\r\n", b"") == b"".join(
            msg(b"foo", b"1", b"%06d" % number * 5000) for number in range(60)
        )

    def test_itsOwnMessages(self) -> None:
        """A client that publishes to itself and takes nothing waits for itself, then is cut."""
        world = World(Limits(max_pending=4 * MIB))
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        wire.transport.taking = False
        for _ in range(20):
            wire.ask(pub(b"foo", b"x" * 600_000))
            world.advance(PATIENCE + 0.05)
        assert wire.closed == "aborted"


@onEach
class TestChanges:
    """Settings that change while connections are there."""

    def test_limits(self) -> None:
        """New limits are in force for connections that are there."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB a 1\r\n")
        world.context.limits = Limits(
            max_payload=5,
            max_subscriptions=1,
            max_sub_tokens=2,
            max_control_line=20,
            max_pending=77,
        )
        wire.session.limitsChanged()
        assert wire.session.outbox.limit == 77
        assert wire.ask(b"SUB b 2\r\n") == b"-ERR 'maximum subscriptions exceeded'\r\n"
        assert b"too many tokens" in wire.ask(b"SUB a.b.c 2\r\n")
        assert wire.ask(pub(b"a", b"12345")) == msg(b"a", b"1", b"12345")
        assert wire.ask(b"PUB a 6\r\n") == b"-ERR 'Maximum Payload Violation'\r\n"

    def test_limitsOfTheLane(self) -> None:
        """A payload that was allowed before is refused when the limit shrinks."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB a 1\r\n" + pub(b"a", b"123456") * 3)
        world.context.limits = Limits(max_payload=5)
        wire.session.limitsChanged()
        assert wire.ask(pub(b"a", b"123456")) == b"-ERR 'Maximum Payload Violation'\r\n"

    def test_controlLine(self) -> None:
        """A shorter control line is in force for the next line."""
        world = World()
        wire = world.client()
        world.context.limits = Limits(max_control_line=10)
        wire.session.limitsChanged()
        assert wire.ask(pub(b"a" * 9, b"")) == b"-ERR 'maximum control line exceeded'\r\n"

    def test_pingInterval(self) -> None:
        """A shorter interval shows at once."""
        world = World()
        wire = world.client()
        world.advance(3)
        wire.ask(b"PONG\r\n")
        world.context.limits = Limits(ping_interval=5.0)
        wire.session.limitsChanged()
        world.advance(5.1)
        assert wire.receive() == b"PING\r\n"

    def test_beforeLogin(self) -> None:
        """A connection that is not let in yet takes new limits too."""
        world = World()
        wire = world.dial()
        wire.receive()
        world.context.limits = Limits(max_control_line=10)
        wire.session.limitsChanged()
        assert wire.ask(b'CONNECT {"name":"x"}\r\n') == (
            b"-ERR 'maximum control line exceeded'\r\n"
        )

    def test_lameDuck(self) -> None:
        """Clients that understand it are told that the server is a lame duck; others are not."""
        world = World()
        new = world.client(b'CONNECT {"verbose":false,"protocol":1}\r\n')
        old, silent = world.client(), world.dial()
        silent.receive()
        world.context.info = world.context.info.changed(ldm=True)
        for each in (new, old, silent):
            each.session.sendInfo()
        fields = info(new.receive())
        assert fields["ldm"] is True
        assert "connect_info" not in fields
        assert (old.receive(), silent.receive()) == (b"", b"")

    def test_tracing(self) -> None:
        """While the protocol is traced every message takes the readable path, and back."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        for traced in (True, False):
            world.context.tracing.protocol = traced
            wire.session.tracingChanged()
            assert wire.ask(pub(b"foo", b"x")) == msg(b"foo", b"1", b"x")


@onEach
class TestTheEnd:
    """How connections end."""

    def test_errorAndClose(self) -> None:
        """A violation is told, after everything that came before, and closes the connection."""
        world = World()
        wire = world.client()
        answer = wire.ask(b"SUB foo 1\r\n" + pub(b"foo", b"x") + b"FOO\r\n" + pub(b"foo", b"y"))
        assert answer == msg(b"foo", b"1", b"x") + b"-ERR 'Unknown Protocol Operation'\r\n"
        assert wire.closed == "lost"
        assert wire.session.reason == "Protocol Violation"

    def test_silentClose(self) -> None:
        """Where the real server closes in silence, so do we."""
        wire = World().client()
        assert (wire.ask(b"SUB foo\r\n"), wire.closed) == (b"", "lost")

    def test_nothingAfterwards(self) -> None:
        """A connection that is closing gets no more messages and its input is not kept."""
        world = World()
        wire, other = world.client(), world.client()
        wire.ask(b"SUB foo 1\r\n")
        wire.transport.taking = False
        wire.send(b"FOO\r\n")
        other.ask(pub(b"foo", b"x"))
        for _ in range(10):
            wire.protocol.dataReceived(b"x" * 10_000)
        assert wire.session.decoder.pending == 0
        wire.transport.taking = True
        assert wire.receive() == b"-ERR 'Unknown Protocol Operation'\r\n"

    def test_linger(self) -> None:
        """A closed connection whose peer does not take the rest is cut after a second."""
        world = World()
        wire = world.client()
        wire.transport.taking = False
        wire.send(b"FOO\r\n")
        world.advance(0.9)
        assert wire.closed == ""
        world.advance(0.2)
        assert wire.closed == "aborted"
        assert world.clock.getDelayedCalls() == []

    def test_whatWaitedIsSent(self) -> None:
        """What waited for a peer that had stopped to take is sent before the end, if it goes on."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        wire.transport.taking = False
        for _ in range(3):
            wire.ask(pub(b"foo", b"x" * 100_000))
        wire.send(b"FOO\r\n")
        world.advance(0.5)
        wire.transport.taking = True
        got = wire.receive()
        assert got == msg(b"foo", b"1", b"x" * 100_000) * 3 + (
            b"-ERR 'Unknown Protocol Operation'\r\n"
        )
        assert wire.closed == "lost"

    def test_books(self) -> None:
        """When a client goes, its subscriptions end and its account counts one less."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\nSUB bar q 2\r\n" + pub(b"foo", b"xyz"))
        assert (len(world.accounts["$G"]), len(world.context.connections)) == (2, 1)
        wire.transport.hangUp()
        world.settle()
        assert (len(world.accounts["$G"]), len(world.context.connections)) == (0, 0)
        assert world.accounts.counts["$G"] == 0
        assert world.context.connections.closedTraffic == [1, 3, 1, 3]
        [closed] = world.context.connections.closed
        assert (closed.reason, closed.facts.subscriptions) == ("Client Closed", 2)
        assert world.advisories[-1] == ClientDisconnected(1, "$G", "", "Client Closed")

    def test_booksOfOneThatWasClosed(self) -> None:
        """What is remembered of a client that we closed is how it was before."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\nFOO\r\n")
        [closed] = world.context.connections.closed
        assert (closed.reason, closed.facts.subscriptions) == ("Protocol Violation", 1)
        assert world.advisories[-1] == ClientDisconnected(1, "$G", "", "Protocol Violation")

    def test_closedByTheServer(self) -> None:
        """The server may close a connection for a reason of its own; the first reason counts."""
        wire = World().client()
        wire.session.close(errors.AUTH_REVOKED)
        wire.session.close(errors.STALE)
        assert wire.receive() == b"-ERR 'User Authentication Revoked'\r\n"
        assert wire.session.reason == "Credentials Revoked"

    def test_subscriberOfAnotherKindFails(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A service that fails while it gets a message does not let that escape."""
        world = World()

        def fail(message: Message) -> None:
            raise ZeroDivisionError("as expected")

        world.accounts["$G"].busFor(Kind.INTERNAL).subscribe(b"foo", Recorder(fail))
        wire = world.client()
        wire.ask(pub(b"foo", b"x"))
        assert len(flushLoggedErrors(ZeroDivisionError)) == 1

    def test_batchFails(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A service that fails at the end of a turn harms neither the client nor other services."""

        class Broken(BatchRecorder):
            def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
                raise ZeroDivisionError("as expected")

        world = World()
        bus = world.accounts["$G"].busFor(Kind.INTERNAL)
        after = BatchRecorder()
        for subject, service in [(b"foo", Broken()), (b"bar", after)]:
            bus.subscribe(subject, service)
        wire = world.client()
        wire.send(pub(b"foo", b"x") + pub(b"bar", b"y"))
        world.settle()
        assert after.batches == [[b"y"]]
        assert wire.ask(b"PING\r\n") == b"PONG\r\n"
        assert len(flushLoggedErrors(ZeroDivisionError)) == 1


@onEach
class TestServices:
    """Clients and services inside the broker."""

    def test_both(self) -> None:
        """A service gets what clients publish and answers them."""
        world = World()
        bus = world.accounts["$G"].busFor(Kind.INTERNAL)
        service = Recorder(lambda message: bus.publish(Message(message.reply, b"answer")))
        bus.subscribe(b"ask", service, "tag")
        wire = world.client()
        wire.ask(b"SUB here 1\r\n")
        assert wire.ask(pub(b"ask", b"?", b"here")) == msg(b"here", b"1", b"answer")
        assert service.tags == ["tag"]

    def test_publishingOutsideOfInput(self) -> None:
        """What a service publishes by itself is sent soon."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        world.accounts["$G"].busFor(Kind.INTERNAL).publish(Message(b"foo", b"x"))
        assert wire.transport.take() == b""
        assert wire.receive() == msg(b"foo", b"1", b"x")

    def test_filter(self) -> None:
        """A filter sees every message of a client, also of one that was on the fast lane."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n" + pub(b"foo", b"before"))
        seen: list[bytes] = []

        class Filter:
            def filterMessage(self, message: Message, kind: int) -> Message | None:
                seen.append(message.body)
                return None

        remove = world.accounts["$G"].addFilter(Filter())  # type: ignore[arg-type]
        assert wire.ask(pub(b"foo", b"during")) == b""
        remove()
        assert wire.ask(pub(b"foo", b"after")) == msg(b"foo", b"1", b"after")
        assert seen == [b"during"]
