"""Contract tests for L{IAuthorizer}."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from natsbroker.errors import Unauthorized
from natsbroker.interfaces import IAuthorizer
from natsbroker.testing.contracts.base import Contract
from natsbroker.wire.grants import ConnectRequest, Grant

__all__ = ["authorizerTests"]


#: Options of a hostile client.
_STRANGE: Sequence[dict[str, Any]] = (
    {"user": "", "pass": ""},
    {"user": "x" * 10_000, "pass": "y" * 10_000},
    {"user": "\x00\r\n", "pass": "\u00fc\U0001f600\ufffd"},
    {"user": "*", "pass": ">"},
    {"user": 1, "pass": None},
    {"auth_token": "' OR 1=1 --"},
    {"nkey": "N", "sig": "!!"},
    {"jwt": "a.b.c", "sig": "=="},
    {"jwt": "....", "nkey": "\u00fc"},
)


#: The turns for which an answer that comes later is waited for.
_TURNS = 1000


def _onlyDenied(failure: Failure) -> None:
    failure.trap(Unauthorized)


def _requireRequest(name: str, given: object) -> None:
    if not isinstance(given, ConnectRequest):
        cure = f"ConnectRequest(options={given!r})" if isinstance(given, dict) else "one"
        raise TypeError(f"{name} is {type(given).__name__}, not ConnectRequest: write {cure}")


def authorizerTests(
    factory: Callable[[], Any],
    goodHello: ConnectRequest,
    badHello: ConnectRequest,
    revoke: Callable[[Any], object] | None = None,
    settle: Callable[[], object] = lambda: None,
    close: Callable[[Any], object] = lambda authorizer: None,
) -> type[SynchronousTestCase]:
    """
    Tests for an L{IAuthorizer}.

    A L{ConnectRequest} has the fields of a client's CONNECT, so the two connections are like
    C{ConnectRequest(options={"user": "anna", "pass": "apple"})}.

    An answer may be a Deferred. If it waits for threads, as C{adbapi} does, C{settle} must run the
    calls that threads hand to the reactor: C{lambda: reactor.iterate(0.01)}. It is called again
    until there is an answer. A thread pool that starts with the reactor is started by the factory.

    @param factory: makes an authorizer; called for each test, and more than once in some.
    @param goodHello: a connection that it lets in.
    @param badHello: one that it denies.
    @param revoke: makes an authorizer announce a revocation; C{None} if it never does.
    @param settle: runs the work that answers wait for; by default none.
    @param close: called with each authorizer at the end of its test, to end its threads.
    @raise TypeError: for an authorizer in place of a factory, or for something else than a
        L{ConnectRequest}.
    """
    made: Any = factory
    if not callable(made):
        kind = type(factory).__name__
        raise TypeError(f"the factory makes an authorizer for each test: write lambda: {kind}(...)")
    _requireRequest("goodHello", goodHello)
    _requireRequest("badHello", badHello)

    class AuthorizerTests(Contract):
        def make(self) -> Any:
            authorizer = factory()
            self.addCleanup(close, authorizer)
            return authorizer

        def ask(self, authorizer: IAuthorizer, hello: ConnectRequest) -> Grant | None:
            try:
                answer: Any = authorizer.grantFor(hello)
            except Unauthorized:
                return None
            if isinstance(answer, Coroutine):
                answer = ensureDeferred(answer)
            if isinstance(answer, Deferred):
                answer.addErrback(_onlyDenied)
                for _ in range(_TURNS):
                    settle()
                    if answer.called and not answer.paused:
                        break
                answer = self.successResultOf(answer)
                if answer is None:
                    return None
            self.holds(isinstance(answer, Grant), answer)
            grant: Grant = answer
            return grant

        def test_provides(self) -> None:
            """An authorizer provides the interface and names the credentials that clients need."""
            authorizer = self.make()
            self.holds(verifyObject(IAuthorizer, authorizer))
            self.holds(isinstance(authorizer.required, bool), authorizer.required)
            self.holds(isinstance(authorizer.deadline, bool), authorizer.deadline)
            self.holds(
                authorizer.deadline or not authorizer.required, "a required login needs a deadline"
            )
            self.holds(isinstance(authorizer.nonce, bool), authorizer.nonce)

        def test_good(self) -> None:
            """An admitted client gets a grant that names an account."""
            grant = self.ask(self.make(), goodHello)
            if grant is None:
                raise AssertionError("the good login is denied")
            self.holds(isinstance(grant.account, str), grant.account)
            self.holds(grant.account != "")
            self.holds(isinstance(grant.user, str), grant.user)

        def test_bad(self) -> None:
            """A denied login fails with Unauthorized, not with another error."""
            self.isNothing(self.ask(self.make(), badHello))

        def test_repeatedLogin(self) -> None:
            """
            A second login with the same credentials gives the same user and account. An earlier
            grant does not admit other credentials.
            """
            authorizer = self.make()
            first = self.ask(authorizer, goodHello)
            denied = self.ask(authorizer, badHello)
            second = self.ask(authorizer, goodHello)
            self.isNothing(denied)
            if first is None or second is None:
                raise AssertionError("the good login is denied")
            self.same((first.account, first.user), (second.account, second.user))

        def test_nobody(self) -> None:
            """
            A connection without credentials gets a grant or a denial; where a login is required it
            is denied.
            """
            authorizer = self.make()
            grant = self.ask(authorizer, ConnectRequest())
            if authorizer.required:
                self.isNothing(grant)

        def test_strange(self) -> None:
            """The answer is a grant or a denial, whatever the connection says."""
            for options in _STRANGE:
                authorizer = self.make()
                for nonce in ("", "AAAAAAAAAAAAAAA"):
                    grant = self.ask(authorizer, ConnectRequest(options=options, nonce=nonce))
                    if authorizer.required:
                        self.isNothing(grant, options)

        def test_revocations(self) -> None:
            """A watcher learns of revocations until it stops watching."""
            authorizer = self.make()
            told: list[str] = []
            stops = [
                authorizer.watchRevocations(lambda: told.append("one")),
                authorizer.watchRevocations(lambda: told.append("two")),
            ]
            if revoke is not None:
                revoke(authorizer)
                settle()
                self.same(sorted(told), ["one", "two"])
                told.clear()
                stops[0]()
                revoke(authorizer)
                settle()
                self.same(told, ["two"])
            for stop in stops:
                stop()

    return AuthorizerTests
