"""
The login of a connection: any behaviour of an authorizer leads to a grant or a denial.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, fail, succeed

from natsbroker.auth.authenticator import Authenticator
from natsbroker.clients.login import Login
from natsbroker.errors import AUTH_REVOKED, Unauthorized
from natsbroker.runtime.failures import definedAt
from natsbroker.runtime.observers import PluginCalls
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.conftest import FlushLoggedErrors
from tests.server.support import logLines
from tests.support import Doorkeeper

GRANT = Grant(user="me")


async def coroutine(value: Any) -> Any:
    """Return or raise the value after awaiting a Deferred that has already fired."""
    await succeed(None)
    if isinstance(value, Exception):
        raise value
    return value


def raises(error: Exception) -> Callable[[ConnectRequest], Any]:
    """An authorizer's answer that is an exception."""

    def answer(hello: ConnectRequest) -> Any:
        raise error

    return answer


def ask(answer: Callable[[ConnectRequest], Any]) -> tuple[Login, list[Grant | None]]:
    """Ask an authorizer; the outcome is appended to the list."""
    outcomes: list[Grant | None] = []
    login = Login(outcomes.append, PluginCalls())
    login.ask(Doorkeeper(answer), ConnectRequest())
    return login, outcomes


class TestAnswers:
    """All kinds of answers."""

    @pytest.mark.parametrize(
        "answer",
        [lambda hello: GRANT, lambda hello: succeed(GRANT), lambda hello: coroutine(GRANT)],
        ids=["plain", "Deferred", "coroutine"],
    )
    def test_grant(self, answer: Callable[[ConnectRequest], Any]) -> None:
        """A grant may be returned as a plain value, by a Deferred or by a coroutine."""
        login, outcomes = ask(answer)
        assert outcomes == [GRANT]
        assert not login.waiting

    @pytest.mark.parametrize(
        "answer",
        [
            raises(Unauthorized("no")),
            lambda hello: fail(Unauthorized("no")),
            lambda hello: coroutine(Unauthorized("no")),
        ],
        ids=["plain", "Deferred", "coroutine"],
    )
    def test_denial(self, answer: Callable[[ConnectRequest], Any]) -> None:
        """Unauthorized denies the login, and is not a failure of the authorizer."""
        login, outcomes = ask(answer)
        assert outcomes == [None]
        assert not login.waiting

    def test_errorOfDenial(self) -> None:
        """A denial keeps the error that a connected client gets."""
        for error in (Unauthorized("no", AUTH_REVOKED), Unauthorized("no")):
            for answer in (raises(error), lambda hello, error=error: fail(error)):
                login, _ = ask(answer)
                assert login.denial is error.error

    @pytest.mark.parametrize(
        "answer",
        [
            raises(ZeroDivisionError()),
            lambda hello: fail(ZeroDivisionError()),
            lambda hello: coroutine(ZeroDivisionError()),
        ],
        ids=["plain", "Deferred", "coroutine"],
    )
    def test_broken(
        self, answer: Callable[[ConnectRequest], Any], flushLoggedErrors: FlushLoggedErrors
    ) -> None:
        """An authorizer that fails denies the login, and its failure is logged."""
        _, outcomes = ask(answer)
        assert outcomes == [None]
        assert len(flushLoggedErrors(ZeroDivisionError)) == 1

    @pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
    def test_exits(self, error: type[BaseException], flushLoggedErrors: FlushLoggedErrors) -> None:
        """An exception that is meant to end the process denies the login, like any other."""

        def plain(hello: ConnectRequest) -> Grant:
            raise error

        async def later() -> Grant:
            raise error

        for answer in (plain, lambda hello: later()):
            _, outcomes = ask(answer)
            assert outcomes == [None]
            assert len(flushLoggedErrors(error)) == 1

    def test_whatIsLogged(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """An exception's type and place are logged, its text only for debugging."""
        for debug in (False, True):
            with logLines(debug) as lines:
                ask(raises(ValueError("the password is hunter2")))
            assert len(flushLoggedErrors(ValueError)) == 1
            assert lines[0].startswith("[ERR] The authorizer failed: denied: ValueError at ")
            assert lines[0].endswith(" in answer (its text is in the debug log: -D)")
            assert any("hunter2" in line for line in lines) == debug

    def test_placeOfTheAuthor(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """
        The logged place is in the authorizer's code, also if the broker or Python raises the
        exception.
        """
        number: Any = 1
        for mistake in (lambda hello: Grant(user=number), lambda hello: json.loads("?")):
            with logLines() as lines:
                ask(mistake)
            assert len(flushLoggedErrors(TypeError, ValueError)) == 1
            line = mistake.__code__.co_firstlineno
            assert f" at {__file__}:{line} in <lambda> (" in lines[0]

    def test_asyncio(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """An answer that awaits an asyncio future is logged with the way to convert it."""

        async def sleeps() -> Grant:
            await asyncio.sleep(1)
            return GRANT

        async def waits(future: asyncio.Future[Grant]) -> Grant:
            return await future

        loop = asyncio.new_event_loop()
        future: asyncio.Future[Grant] = loop.create_future()
        for answer in (lambda: sleeps(), lambda: waits(future), lambda: future):
            with logLines() as lines:
                _, outcomes = ask(lambda hello, answer=answer: answer())  # type: ignore[misc]
            assert outcomes == [None]
            flushLoggedErrors(RuntimeError)
            assert "await Deferred.fromFuture(asyncio.ensure_future(...))" in lines[0]
            assert "twistd -r asyncio natsbroker" in lines[0]
        loop.close()

    def test_noGrant(self) -> None:
        """An answer that is not a grant is logged with the place of the method that returned it."""

        class Yes(Authenticator):
            def grant(self, avatar: Any, request: ConnectRequest) -> Any:
                return True

        with logLines() as lines:
            Login(lambda grant: None, PluginCalls()).ask(Yes(), ConnectRequest())
        place = f"{__file__}:{Yes.grant.__code__.co_firstlineno}"
        assert lines[0].endswith(
            f"no grant but bool: denied; a Grant has to come from Yes ({place})"
        )

    @pytest.mark.parametrize("value", [None, True, "$G", {"account": "$G"}, Grant, 1, [GRANT]])
    def test_garbage(self, value: object) -> None:
        """An answer that is not a grant denies the login, whatever its truth value."""
        for wrapped in (value, succeed(value), coroutine(value)):
            _, outcomes = ask(lambda hello, wrapped=wrapped: wrapped)  # type: ignore[misc]
            assert outcomes == [None]

    def test_later(self) -> None:
        """An answer may come later. The login waits until then."""
        answer: Deferred[Grant] = Deferred()
        login, outcomes = ask(lambda hello: answer)
        assert (outcomes, login.waiting) == ([], True)
        answer.callback(GRANT)
        assert (outcomes, login.waiting) == ([GRANT], False)

    def test_hello(self) -> None:
        """The authorizer is asked once, with the known facts of the connection."""
        keeper = Doorkeeper()
        hello = ConnectRequest(host="1.2.3.4")
        Login(lambda grant: None, PluginCalls()).ask(keeper, hello)
        assert keeper.asked == [hello]


class TestCalls:
    """The statistics of an authorizer's calls."""

    @pytest.mark.parametrize(
        ("answer", "failures"),
        [
            (lambda hello: GRANT, 0),
            (raises(Unauthorized("no")), 0),
            (raises(ZeroDivisionError()), 1),
            (lambda hello: fail(ZeroDivisionError()), 1),
            (lambda hello: "me", 1),
        ],
        ids=["grant", "denial", "raised", "failed", "garbage"],
    )
    def test_failures(
        self,
        answer: Callable[[ConnectRequest], Any],
        failures: int,
        flushLoggedErrors: FlushLoggedErrors,
    ) -> None:
        """
        A denial counts as a success; an exception or an answer that is not a grant counts as a
        failure.
        """
        calls = PluginCalls()
        Login(lambda grant: None, calls).ask(Doorkeeper(answer), ConnectRequest())
        assert (calls.number, calls.failures) == (1, failures)
        assert calls.seconds > 0
        flushLoggedErrors(ZeroDivisionError)

    def test_open(self) -> None:
        """A call is counted before its answer comes."""
        calls = PluginCalls()
        answer: Deferred[Grant] = Deferred()
        Login(lambda grant: None, calls).ask(Doorkeeper(lambda hello: answer), ConnectRequest())
        assert (calls.number, calls.seconds) == (1, 0.0)
        answer.callback(GRANT)
        assert calls.seconds > 0


class TestCancelling:
    """Logins that are cancelled."""

    def test_cancel(self) -> None:
        """A login that is cancelled cancels the answer and reports nothing."""
        cancelled: list[object] = []
        answer: Deferred[Grant] = Deferred(cancelled.append)
        login, outcomes = ask(lambda hello: answer)
        login.cancel()
        assert cancelled == [answer]
        assert (outcomes, login.waiting) == ([], False)

    def test_giveUp(self) -> None:
        """A login that takes too long is cancelled and logged."""
        answer: Deferred[Grant] = Deferred()
        login, outcomes = ask(lambda hello: answer)
        with logLines() as lines:
            login.giveUp()
        assert (answer.called, outcomes, login.waiting) == (True, [], False)
        [line] = [line for line in lines if "did not answer in time: denied" in line]
        assert f"; it is Doorkeeper ({definedAt(Doorkeeper.grantFor)})" in line

    @pytest.mark.parametrize("late", [GRANT, Unauthorized("no"), ZeroDivisionError(), "garbage"])
    def test_answerAfterwards(self, late: Any) -> None:
        """An answer that comes after the login was given up has no effect and raises no error."""
        answer: Deferred[Any] = Deferred()
        login, outcomes = ask(lambda hello: answer)
        login.cancel()
        if isinstance(late, Exception):
            answer.errback(late)
        else:
            answer.callback(late)
        assert outcomes == []

    def test_cancellerThatRaises(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A canceller that raises an exception is logged and stops nothing else."""

        def fail(deferred: Deferred[Grant]) -> None:
            raise SystemExit

        login, outcomes = ask(lambda hello: Deferred(fail))
        login.cancel()
        assert (outcomes, login.waiting) == ([], False)
        assert len(flushLoggedErrors(SystemExit)) == 1

    def test_stubbornAnswer(self) -> None:
        """A grant that an authorizer gives while it is cancelled is ignored."""
        answer: Deferred[Grant] = Deferred(lambda deferred: deferred.callback(GRANT))
        login, outcomes = ask(lambda hello: answer)
        login.cancel()
        assert outcomes == []

    def test_coroutineIsStopped(self) -> None:
        """A coroutine that waits is closed when its login is cancelled."""
        stopped: list[str] = []
        never: Deferred[None] = Deferred()

        async def answer() -> Grant:
            try:
                await never
            except CancelledError:
                stopped.append("stopped")
                raise
            return GRANT

        login, outcomes = ask(lambda hello: answer())
        login.cancel()
        assert (stopped, outcomes) == (["stopped"], [])

    def test_cancelAfterTheAnswer(self) -> None:
        """Cancelling after the decision does nothing."""
        login, outcomes = ask(lambda hello: GRANT)
        login.cancel()
        assert outcomes == [GRANT]
