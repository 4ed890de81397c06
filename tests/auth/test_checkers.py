"""
Tests of L{natsbroker.auth.checkers} with Twisted's own checkers, and with unusual ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.cred.checkers import (
    ANONYMOUS,
    AllowAnonymousAccess,
    FilePasswordDB,
    InMemoryUsernamePasswordDatabaseDontUse,
)
from twisted.cred.credentials import (
    CramMD5Credentials,
    IAnonymous,
    ICredentials,
    IUsernameHashedPassword,
    IUsernamePassword,
)
from twisted.cred.error import LoginDenied, LoginFailed, UnauthorizedLogin
from twisted.cred.error import Unauthorized as CredUnauthorized
from twisted.cred.strcred import makeChecker
from twisted.internet.defer import Deferred, ensureDeferred, fail, succeed
from zope.interface import implementer

from natsbroker.auth.checkers import (
    CheckerAuthenticator,
    EverythingGranted,
    IAvatars,
    IConnection,
    credentialsOf,
)
from natsbroker.errors import Unauthorized
from natsbroker.testing.contracts import authorizerTests
from natsbroker.wire.grants import ConnectRequest, Grant


def hello(**options: Any) -> ConnectRequest:
    """Credentials of a client."""
    return ConnectRequest(options=options)


ANNA = hello(user="anna", **{"pass": "apple"})


def memory() -> CheckerAuthenticator:
    """Twisted's checker of users in memory."""
    return CheckerAuthenticator([makeChecker("memory:anna:apple:bob:banana")])


TestContract = authorizerTests(
    memory,
    ANNA,
    hello(user="anna", **{"pass": "banana"}),
    lambda authenticator: authenticator.revoke(),
)


class Scripted:
    """A checker that answers with the test's value."""

    def __init__(self, answer: Any, *interfaces: Any) -> None:
        self.answer = answer
        self.credentialInterfaces = interfaces or (IUsernamePassword,)
        self.asked: list[Any] = []

    def requestAvatarId(self, credentials: Any) -> Any:
        """See C{ICredentialsChecker}."""
        self.asked.append(credentials)
        answer = self.answer
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer


async def coroutine(value: Any) -> Any:
    """An answer by a coroutine."""
    if isinstance(value, Exception):
        raise value
    return value


def outcome(authenticator: CheckerAuthenticator, asked: ConnectRequest = ANNA) -> Any:
    """The grant, or the type of the error. It is C{None} while there is no answer."""
    answer: Any = authenticator.grantFor(asked)
    errors: list[Any] = []
    if not isinstance(answer, Deferred):
        answer = ensureDeferred(answer)
    answer.addCallbacks(errors.append, lambda why: errors.append(type(why.value)))
    return errors[0] if errors else None


class TestTwisted:
    """Checkers that come with Twisted."""

    @pytest.mark.parametrize(
        ("user", "password", "expected"),
        [
            ("anna", "apple", Grant(user="anna")),
            ("bob", "banana", Grant(user="bob")),
            ("anna", "banana", Unauthorized),
            ("anna", "", Unauthorized),
            ("carl", "apple", Unauthorized),
            ("", "apple", Unauthorized),
        ],
    )
    def test_memory(self, user: str, password: str, expected: Any) -> None:
        """C{memory:} accepts users with the right password."""
        assert outcome(memory(), hello(user=user, **{"pass": password})) == expected

    def test_file(self, tmp_path: Path) -> None:
        """C{file:} accepts the users in the file. Names and passwords are UTF-8."""
        path = tmp_path / "users"
        path.write_text("anna:apple\n\u00fcte:\u00e4pfel\n", "utf-8")
        authenticator = CheckerAuthenticator([makeChecker(f"file:{path}")])
        assert outcome(authenticator) == Grant(user="anna")
        ute = hello(user="\u00fcte", **{"pass": "\u00e4pfel"})
        assert outcome(authenticator, ute) == Grant(user="\u00fcte")
        assert outcome(authenticator, hello(user="anna", **{"pass": "x"})) is Unauthorized

    def test_hashedFile(self, tmp_path: Path) -> None:
        """A checker whose file has hashes receives the password in plain text."""
        path = tmp_path / "users"
        path.write_text("anna:elppa\n")
        checker = FilePasswordDB(str(path), hash=lambda name, given, kept: given[::-1])
        assert outcome(CheckerAuthenticator([checker])) == Grant(user="anna")

    def test_anonymous(self) -> None:
        """C{anonymous} accepts clients without credentials, and no others."""
        authenticator = CheckerAuthenticator([AllowAnonymousAccess()])
        assert not authenticator.required
        assert outcome(authenticator, hello()) == Grant()
        assert outcome(authenticator, hello(user="")) == Grant()
        for brought in ("user", "pass", "auth_token", "nkey", "jwt", "sig"):
            assert outcome(authenticator, hello(**{brought: "x"})) is Unauthorized

    def test_anonymousBesideOthers(self) -> None:
        """A client with a wrong password is not accepted as anonymous."""
        authenticator = CheckerAuthenticator(
            [InMemoryUsernamePasswordDatabaseDontUse(anna=b"apple"), AllowAnonymousAccess()]
        )
        assert outcome(authenticator) == Grant(user="anna")
        assert outcome(authenticator, hello()) == Grant()
        assert outcome(authenticator, hello(user="anna", **{"pass": "x"})) is Unauthorized

    def test_unsupported(self) -> None:
        """A checker that requires credentials of another kind is refused at the start."""
        with pytest.raises(ValueError, match="Scripted checks no credentials"):
            CheckerAuthenticator([Scripted(b"x", CramMD5Credentials)])


class TestCredentials:
    """The credentials that a checker receives."""

    def test_login(self) -> None:
        """
        A name and a password are UTF-8 bytes, and a password can be compared with bytes or text.
        """
        credentials = credentialsOf(hello(user="\u00fc", **{"pass": "\u00e4"}))
        for kind in (IUsernamePassword, IUsernameHashedPassword, IConnection):
            assert kind.providedBy(credentials)
        assert not IAnonymous.providedBy(credentials)
        assert credentials.username == b"\xc3\xbc"
        assert credentials.password == b"\xc3\xa4"
        assert credentials.checkPassword(b"\xc3\xa4") and credentials.checkPassword("\u00e4")
        assert not credentials.checkPassword(b"") and not credentials.checkPassword("a")

    def test_noCredentialsAreAnonymous(self) -> None:
        """A client without credentials is anonymous."""
        credentials = credentialsOf(ConnectRequest(host="::1"))
        assert IAnonymous.providedBy(credentials) and IConnection.providedBy(credentials)
        assert not IUsernamePassword.providedBy(credentials)
        assert credentials.request.host == "::1"

    def test_tokenIsAConnection(self) -> None:
        """
        A client with a token is neither a user nor anonymous. A checker of connections can accept
        it.
        """

        @implementer(ICredentials)
        class Tokens(Scripted):
            def requestAvatarId(self, credentials: Any) -> Any:
                token = credentials.request.text("auth_token")
                return {"t0ken": b"robot"}.get(token) or fail(UnauthorizedLogin())

        authenticator = CheckerAuthenticator(
            [Tokens(None, IConnection), Scripted(b"never"), Scripted(b"never", IAnonymous)]
        )
        assert outcome(authenticator, hello(auth_token="t0ken")) == Grant(user="robot")
        assert outcome(authenticator, hello(auth_token="other")) is Unauthorized

    @pytest.mark.parametrize("name", ["user", "pass", "auth_token", "jwt"])
    def test_strangeTypes(self, name: str) -> None:
        """Options of CONNECT that are not text are ignored."""
        assert IAnonymous.providedBy(credentialsOf(hello(**{name: 7})))


class TestAnswers:
    """The answers of checkers."""

    @pytest.mark.parametrize(
        "wrapped", [lambda v: v, succeed, coroutine], ids=["plain", "Deferred", "coroutine"]
    )
    @pytest.mark.parametrize(
        ("avatar", "expected"),
        [
            (b"anna", Grant(user="anna")),
            ("anna", Grant(user="anna")),
            (ANONYMOUS, Grant()),
            (b"", Unauthorized),
            ("", Unauthorized),
            (None, TypeError),
            (True, TypeError),
            (0, TypeError),
            (object(), TypeError),
            (["anna"], TypeError),
            (Grant(user="anna"), TypeError),
            (b"\xff", UnicodeDecodeError),
        ],
    )
    def test_avatars(self, wrapped: Any, avatar: Any, expected: Any) -> None:
        """An avatar id is a name, in bytes or text; any other value denies the login."""
        checker = Scripted(lambda: wrapped(avatar))
        assert outcome(CheckerAuthenticator([checker])) == expected

    @pytest.mark.parametrize("error", [UnauthorizedLogin, LoginFailed, LoginDenied])
    def test_denials(self, error: type[Exception]) -> None:
        """A checker that does not know a user leaves the login to the next one."""
        for answer in (
            error(),
            lambda: fail(error()),
            lambda: coroutine(error()),
        ):
            second = Scripted(b"second")
            assert outcome(CheckerAuthenticator([Scripted(answer), second])) == Grant(user="second")
            assert outcome(CheckerAuthenticator([Scripted(answer)])) is Unauthorized

    def test_credUnauthorized(self) -> None:
        """A checker that raises the base class of refusals denies the login."""
        assert outcome(CheckerAuthenticator([Scripted(CredUnauthorized())])) is Unauthorized

    def test_firstDecides(self) -> None:
        """The first checker that knows a user decides; the next is not asked."""
        second = Scripted(b"second")
        assert outcome(CheckerAuthenticator([Scripted(b"first"), second])) == Grant(user="first")
        assert second.asked == []

    @pytest.mark.parametrize(
        "answer",
        [
            ZeroDivisionError(),
            lambda: fail(ZeroDivisionError()),
            lambda: coroutine(ZeroDivisionError()),
        ],
        ids=["plain", "Deferred", "coroutine"],
    )
    def test_broken(self, answer: Any) -> None:
        """A checker that fails ends the login with its error, and the next checker is not asked."""
        second = Scripted(b"second")
        assert outcome(CheckerAuthenticator([Scripted(answer), second])) is ZeroDivisionError
        assert second.asked == []

    def test_checkerHangs(self) -> None:
        """A checker that never answers is cancelled with the login."""
        cancelled: list[Any] = []
        checker = Scripted(lambda: Deferred(cancelled.append))
        asking: Any = CheckerAuthenticator([checker]).grantFor(ANNA)
        asking.cancel()
        results: list[Any] = []
        asking.addErrback(results.append)
        assert len(cancelled) == len(results) == 1

    def test_nobodyAsked(self) -> None:
        """A login is denied if no checker takes its credentials."""
        assert outcome(CheckerAuthenticator([])) is Unauthorized
        assert outcome(memory(), hello()) is Unauthorized
        assert memory().required


@implementer(IAvatars)
class Avatars(EverythingGranted):
    """Grants by name; clients without a name get an account of their own."""

    def grantOf(self, name: str, hello: ConnectRequest) -> Grant:
        if name == "bob":
            raise Unauthorized("not today")
        return Grant("A" if name else "GUESTS", name)

    def hasGuests(self) -> bool:
        return True


class TestAvatars:
    """The permissions of avatars."""

    def test_granted(self) -> None:
        """The avatar's grant is the client's, and an avatar may deny the login."""
        checker = makeChecker("memory:anna:apple:bob:banana")
        authenticator = CheckerAuthenticator([checker], Avatars())
        assert outcome(authenticator) == Grant("A", "anna")
        bob = hello(user="bob", **{"pass": "banana"})
        assert outcome(authenticator, bob) is Unauthorized

    def test_guests(self) -> None:
        """Guests are not passed to checkers, and a client with a wrong password is not a guest."""
        checker = Scripted(UnauthorizedLogin())
        authenticator = CheckerAuthenticator([checker], Avatars())
        assert not authenticator.required
        assert outcome(authenticator, hello()) == Grant("GUESTS")
        assert checker.asked == []
        assert outcome(authenticator) is Unauthorized
