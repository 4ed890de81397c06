"""
Tests of the base class of custom authorizers.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from zope.interface.verify import verifyObject

from natsbroker import errors
from natsbroker.auth.authenticator import Authenticator, Revocations
from natsbroker.interfaces import IAuthorizer
from natsbroker.testing.memory import MemoryBroker, MemoryConnection
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.conftest import FlushLoggedErrors
from tests.server.support import logLines


def test_callsEveryWatcher() -> None:
    """Every watcher is called at each revocation."""
    told: list[str] = []
    revocations = Revocations()
    revocations.watchRevocations(lambda: told.append("a"))
    revocations.watchRevocations(lambda: told.append("b"))
    revocations.revoke()
    revocations.revoke()
    assert told == ["a", "b", "a", "b"]


def test_ofOneAccount() -> None:
    """A watcher receives the account of a revocation, if it concerns one account."""
    told: list[tuple[str, ...]] = []
    revocations = Revocations()
    revocations.watchRevocations(lambda *accounts: told.append(accounts))
    revocations.revoke("A")
    revocations.revoke()
    assert told == [("A",), ()]


def test_endedWatcher() -> None:
    """A watcher that has ended is not called again, also if the same callable watches twice."""
    told: list[int] = []

    def watch() -> None:
        told.append(1)

    revocations = Revocations()
    stop = revocations.watchRevocations(watch)
    revocations.watchRevocations(watch)
    stop()
    stop()
    revocations.revoke()
    assert told == [1]


def test_failure(flushLoggedErrors: FlushLoggedErrors) -> None:
    """A watcher that fails is logged, and the others are called."""
    told: list[int] = []

    def fail() -> None:
        raise ZeroDivisionError

    revocations = Revocations()
    revocations.watchRevocations(fail)
    revocations.watchRevocations(lambda: told.append(1))
    revocations.revoke()
    assert told == [1]
    assert len(flushLoggedErrors(ZeroDivisionError)) == 1


HELLO = ConnectRequest(options={"user": "alice", "pass": "secret"})


def outcome(authenticator: Authenticator, hello: ConnectRequest = HELLO) -> list[Any]:
    """A list for the result: a grant, or the exception."""
    results: list[Any] = []
    answer = authenticator.grantFor(hello)
    if isinstance(answer, Deferred):
        answer.addCallbacks(results.append, lambda failure: results.append(failure.value))
    else:
        results.append(answer)
    return results


class Named(Authenticator):
    """An authenticator that overrides the first step only."""

    def authenticate(self, hello: ConnectRequest) -> Any:
        """Accept every client that gives a name."""
        if not hello.text("user"):
            raise errors.Unauthorized("no name")
        return hello.text("user")


class Granting(Authenticator):
    """An authenticator that overrides the second step only."""

    def grant(self, avatar: Any, hello: ConnectRequest) -> Any:
        """An account that depends on the address."""
        return Grant("A" if hello.host == "::1" else "B")


class TestDefaults:
    """The defaults of an authenticator that overrides nothing."""

    def test_provides(self) -> None:
        """An authenticator is an authorizer."""
        verifyObject(IAuthorizer, Authenticator())

    def test_deniesEverybody(self) -> None:
        """An authenticator that overrides nothing denies every login."""
        with pytest.raises(errors.Unauthorized):
            Authenticator().grantFor(HELLO)

    def test_required(self) -> None:
        """An authenticator requires a login, and no nonce by default."""
        assert Authenticator.required and not Authenticator.nonce

    @pytest.mark.parametrize("avatar", ["", None, 7, object()])
    def test_neitherNameNorGrant(self, avatar: object) -> None:
        """A result that is neither a name nor a grant denies the login."""

        class Strange(Authenticator):
            def authenticate(self, hello: ConnectRequest) -> Any:
                return avatar

        with pytest.raises(errors.Unauthorized):
            Strange().grantFor(HELLO)


class TestExplanations:
    """Mistakes in subclasses."""

    @pytest.mark.parametrize(
        ("avatar", "shown"),
        [(None, "None"), (True, "True"), ("", "''"), (b"anna", "bytes"), (object(), "object")],
    )
    def test_names(self, avatar: object, shown: str) -> None:
        """A result that names no user is logged as a warning with its place, once."""

        class Strange(Authenticator):
            def authenticate(self, request: ConnectRequest) -> Any:
                return avatar

        place = f"{__file__}:{Strange.authenticate.__code__.co_firstlineno}"
        strange = Strange()
        with logLines() as lines:
            for _ in range(2):
                with pytest.raises(errors.Unauthorized):
                    strange.grantFor(HELLO)
        [line] = lines
        assert f"Strange.authenticate ({place}) returned {shown}, which names no user" in line
        assert "return the user's name or a Grant" in line

    def test_overridesNothing(self) -> None:
        """An authenticator that overrides no method is logged as a warning."""

        class Misspelt(Authenticator):
            def authentificate(self, request: ConnectRequest) -> Any:
                """A misspelled name, which is never called."""

        with logLines() as lines, pytest.raises(errors.Unauthorized):
            Misspelt().grantFor(HELLO)
        assert "Misspelt overrides neither authenticate nor grant: nobody gets in" in lines[0]

    def test_ownConstructor(self) -> None:
        """A subclass need not call the constructor."""

        class Own(Named):
            def __init__(self) -> None:
                """Do not call the constructor of the base class."""

        with MemoryBroker(authorizer=Own()) as memory:
            client = memory.connect({"user": "anna", "verbose": False})
            assert client.request(b"PING\r\n") == b"PONG\r\n"


class TestOverriding:
    """Subclasses that override one step."""

    def test_authenticate(self) -> None:
        """A name from the first step may do everything in the global account."""
        assert outcome(Named()) == [Grant(user="alice")]

    def test_authenticateDenies(self) -> None:
        """The first step denies a login with Unauthorized."""
        with pytest.raises(errors.Unauthorized):
            Named().grantFor(ConnectRequest())

    def test_authenticateGrants(self) -> None:
        """The first step may answer with the grant itself."""
        given = Grant("A", "alice")

        class Direct(Authenticator):
            def authenticate(self, hello: ConnectRequest) -> Any:
                return given

        assert outcome(Direct()) == [given]

    def test_grant(self) -> None:
        """The second step alone is enough."""
        assert outcome(Granting(), ConnectRequest(host="::1")) == [Grant("A")]
        assert outcome(Granting(), ConnectRequest(host="::2")) == [Grant("B")]

    def test_coroutines(self) -> None:
        """The steps of an authenticator may be coroutines that wait."""
        gate: Deferred[None] = Deferred()

        class Slow(Authenticator):
            async def authenticate(self, hello: ConnectRequest) -> str:
                await gate
                return "bob"

            async def grant(self, avatar: str, hello: ConnectRequest) -> Grant:
                return Grant("A", avatar)

        result = outcome(Slow())
        assert result == []
        gate.callback(None)
        assert result == [Grant("A", "bob")]

    def test_deferreds(self) -> None:
        """The steps of an authenticator may answer with a Deferred."""

        class Later(Authenticator):
            def authenticate(self, hello: ConnectRequest) -> Any:
                return succeed("bob")

            def grant(self, avatar: Any, hello: ConnectRequest) -> Any:
                return succeed(Grant("A", avatar))

        assert outcome(Later()) == [Grant("A", "bob")]

    def test_coroutineDenies(self) -> None:
        """A coroutine that raises Unauthorized denies the login."""

        class Denying(Authenticator):
            async def authenticate(self, hello: ConnectRequest) -> str:
                raise errors.Unauthorized("no")

        [failure] = outcome(Denying())
        assert isinstance(failure, errors.Unauthorized)

    def test_secondStepIsSkipped(self) -> None:
        """The second step is skipped if the first step denies the login."""
        asked: list[Any] = []

        class Denying(Authenticator):
            async def authenticate(self, hello: ConnectRequest) -> str:
                raise errors.Unauthorized("no")

            def grant(self, avatar: Any, hello: ConnectRequest) -> Any:
                asked.append(avatar)
                return Grant()

        outcome(Denying())
        assert asked == []

    def test_revoke(self) -> None:
        """An authenticator notifies watchers of revocations."""
        told: list[int] = []
        authenticator = Named()
        authenticator.watchRevocations(lambda: told.append(1))
        authenticator.revoke()
        assert told == [1]


async def coroutine(value: Any) -> Any:
    """An answer by a coroutine."""
    return _outcome(value)


def plain(value: Any) -> Any:
    """An answer without waiting."""
    return _outcome(value)


def deferred(value: Any) -> Any:
    """An answer by a Deferred."""
    return fail(value) if isinstance(value, BaseException) else succeed(value)


def _outcome(value: Any) -> Any:
    if isinstance(value, BaseException):
        raise value
    return value


def login(broker: MemoryBroker) -> MemoryConnection:
    """A connection that has sent CONNECT."""
    connection = broker.connect()
    connection.receive()
    connection.send(b'CONNECT {"verbose":false,"user":"alice","pass":"secret"}\r\n')
    return connection


class Custom(Authenticator):
    """An authenticator that answers with the test's value in one of its methods."""

    def __init__(self, step: str, answer: Any) -> None:
        super().__init__()
        self._step, self._answer = step, answer

    def authenticate(self, hello: ConnectRequest) -> Any:
        return self._answer() if self._step == "authenticate" else "alice"

    def grant(self, avatar: Any, hello: ConnectRequest) -> Any:
        return self._answer() if self._step == "grant" else super().grant(avatar, hello)

    def grantFor(self, hello: ConnectRequest) -> Any:
        return self._answer() if self._step == "grantFor" else super().grantFor(hello)


@pytest.mark.parametrize("form", [plain, deferred, coroutine], ids=lambda form: form.__name__)
@pytest.mark.parametrize("step", ["authenticate", "grant", "grantFor"])
class TestInABroker:
    """Custom authenticators in a broker: every form of answer, at every step."""

    def test_accepts(self, step: str, form: Any) -> None:
        """A grant accepts the login."""
        authenticator = Custom(step, lambda: form(Grant(user="alice")))
        with MemoryBroker(authorizer=authenticator) as broker:
            assert login(broker).request(b"PING\r\n") == b"PONG\r\n"

    def test_denies(self, step: str, form: Any) -> None:
        """A denial refuses the login, and is not logged as an error."""
        with MemoryBroker(authorizer=Custom(step, lambda: form(errors.Unauthorized()))) as broker:
            connection = login(broker)
            assert connection.closed == "lost"
            assert b"Authorization Violation" in connection.receive()

    @pytest.mark.parametrize(
        "error",
        [ZeroDivisionError, RecursionError, MemoryError, StopAsyncIteration, CancelledError],
    )
    def test_raises(
        self,
        step: str,
        form: Any,
        error: type[Exception],
        flushLoggedErrors: FlushLoggedErrors,
    ) -> None:
        """An exception denies the login and is logged."""
        with MemoryBroker(authorizer=Custom(step, lambda: form(error()))) as broker:
            assert login(broker).closed == "lost"
            assert len(flushLoggedErrors(error)) == 1

    @pytest.mark.parametrize(
        "nonsense", [None, True, 1, "", b"alice", {"user": "alice"}, [Grant()], Grant, object()]
    )
    def test_resultOfAnotherType(
        self, step: str, form: Any, nonsense: Any, flushLoggedErrors: FlushLoggedErrors
    ) -> None:
        """A result that is neither a grant nor a name denies the login."""
        with logLines() as lines:
            with MemoryBroker(authorizer=Custom(step, lambda: form(nonsense))) as broker:
                assert login(broker).closed == "lost"
        assert any("denied" in line or "Not authorized" in line for line in lines)

    def test_wrongGrant(self, step: str, form: Any, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A grant with a value of a wrong type raises an exception, which denies the login."""
        strange: Any = ["orders.>"]
        authenticator = Custom(step, lambda: form(Grant(user="alice", publish=strange)))
        with MemoryBroker(authorizer=authenticator) as broker:
            assert login(broker).closed == "lost"
            assert len(flushLoggedErrors(TypeError)) == 1

    def test_unknownAccount(self, step: str, form: Any) -> None:
        """A grant for an account that does not exist denies the login."""
        authenticator = Custom(step, lambda: form(Grant("NOWHERE", "alice")))
        with logLines() as lines, MemoryBroker(authorizer=authenticator) as broker:
            assert login(broker).closed == "lost"
        assert any("Unknown account NOWHERE" in line for line in lines)

    def test_ended(self, step: str, form: Any) -> None:
        """A client whose grant has already expired is disconnected."""
        authenticator = Custom(step, lambda: form(Grant(user="alice", expires=0.0)))
        with MemoryBroker(authorizer=authenticator) as broker:
            connection = login(broker)
            broker.advance(0.1)
            assert connection.closed == "lost"

    def test_authenticatorHangs(self, step: str, form: Any) -> None:
        """
        An authenticator that does not answer denies the login at the timeout and is cancelled;
        other clients are served meanwhile.
        """
        cancelled: list[Any] = []
        waiting = [Deferred(cancelled.append), Grant(user="bob")]

        def answer() -> Any:
            first = waiting.pop(0)
            if form is coroutine and isinstance(first, Deferred):
                return _await(first)
            return first if isinstance(first, Deferred) else form(first)

        authenticator = Custom(step, answer)
        with logLines() as lines, MemoryBroker(authorizer=authenticator) as broker:
            connection, other = login(broker), login(broker)
            assert other.request(b"PING\r\n") == b"PONG\r\n"
            assert connection.closed == ""
            assert connection.request(b"PING\r\n") == b""
            broker.advance(2.5)
            assert connection.receive() == b"-ERR 'Authorization Violation'\r\n"
            assert (connection.closed, len(cancelled)) == ("lost", 1)
            assert other.request(b"PING\r\n").endswith(b"PONG\r\n")
        assert any("did not answer in time: denied" in line for line in lines)

    def test_answersTooLate(self, step: str, form: Any) -> None:
        """A grant that comes after the timeout, or after the end of the connection, is ignored."""
        gates: list[Any] = []

        def answer() -> Any:
            gates.append(Deferred())
            return _await(gates[-1]) if form is coroutine else gates[-1]

        with MemoryBroker(authorizer=Custom(step, answer)) as broker:
            connection = login(broker)
            broker.advance(2.5)
            gates[0].callback(Grant(user="alice"))
            assert (connection.closed, list(broker.broker.clientContext.connections)) == (
                "lost",
                [],
            )


async def _await(answer: Any) -> Any:
    return await answer


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_exits(error: type[BaseException], flushLoggedErrors: FlushLoggedErrors) -> None:
    """An exception that would end the program denies the login, and other clients are served."""
    answers: list[Any] = [error(), Grant(user="alice")]

    def answer() -> Any:
        given = answers.pop(0)
        if isinstance(given, BaseException):
            raise given
        return given

    with MemoryBroker(authorizer=Custom("grantFor", answer)) as broker:
        denied = broker.connect({"verbose": False})
        assert denied.closed == "lost"
        assert len(flushLoggedErrors(error)) == 1
        assert broker.connect({"verbose": False}).request(b"PING\r\n") == b"PONG\r\n"
