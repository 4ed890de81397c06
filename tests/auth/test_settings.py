"""
The default authorizer.
"""

from __future__ import annotations

from typing import Any

import bcrypt
import pytest
from twisted.internet.defer import Deferred
from zope.interface.verify import verifyObject

from natsbroker import errors
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.auth.settings import Identity, SettingsAuthorizer
from natsbroker.interfaces import IAuthorizer
from natsbroker.wire.grants import Grant, Hello
from tests.auth.certificates import certificate
from tests.auth.test_passwords import Threads

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()

ALICE = Identity("a", Grant("A", "alice"))
BOB = Identity("b", Grant("B", "bob"), frozenset({"WEBSOCKET"}))
CAROL = Identity(HASH, Grant("A", "carol"))
TOKEN = Identity("t", Grant())


def authorizer(*identities: Identity, threads: Any = None, **more: Any) -> SettingsAuthorizer:
    """An authorizer with these users."""
    users = {each.grant.user: each for each in identities}
    return SettingsAuthorizer(PasswordChecks(threads or Threads()), users, **more)


def hello(user: str = "", password: str = "", token: str = "", **more: Any) -> Hello:
    """What somebody says."""
    given = {"user": user, "pass": password, "auth_token": token}
    return Hello(options={name: value for name, value in given.items() if value}, **more)


def refuses(made: SettingsAuthorizer, greeting: Hello) -> bool:
    """Whether somebody is denied at once."""
    try:
        made.grantFor(greeting)
    except errors.Unauthorized:
        return True
    return False


class TestOpen:
    """No users, no token."""

    def test_everybody(self) -> None:
        """Everybody gets in, whatever they say."""
        made = authorizer()
        verifyObject(IAuthorizer, made)
        assert not made.required
        assert made.grantFor(hello()) == Grant()
        assert made.grantFor(hello("x", "y", "z")) == Grant()


class TestUsers:
    """Users with passwords."""

    def test_required(self) -> None:
        """A login is required."""
        assert authorizer(ALICE).required

    def test_right(self) -> None:
        """Name and password of a user give the user's grant."""
        assert authorizer(ALICE, BOB).grantFor(hello("alice", "a")) == ALICE.grant

    @pytest.mark.parametrize(
        ("user", "password", "token"),
        [
            ("", "", ""),
            ("alice", "", ""),
            ("alice", "b", ""),
            ("alice", "A", ""),
            ("Alice", "a", ""),
            ("nobody", "a", ""),
            ("", "a", ""),
            ("", "", "a"),
            ("alice", "", "a"),
            ("alice", "alice", ""),
        ],
    )
    def test_wrong(self, user: str, password: str, token: str) -> None:
        """Everything else is denied."""
        assert refuses(authorizer(ALICE), hello(user, password, token))

    def test_wrongTypes(self) -> None:
        """Options that are no text are as if they were not there."""
        assert refuses(authorizer(ALICE), Hello(options={"user": 1, "pass": True}))

    def test_connectionTypes(self) -> None:
        """A user for some kinds of connection is denied on others, with the right password."""
        made = authorizer(ALICE, BOB)
        assert refuses(made, hello("bob", "b"))
        assert made.grantFor(hello("bob", "b", connectionType="WEBSOCKET")) == BOB.grant

    def test_secretsAreNotShown(self) -> None:
        """A secret is not in the repr of an identity."""
        assert "hidden" not in repr(Identity("hidden", Grant()))


class TestToken:
    """A token."""

    def test_right(self) -> None:
        """Whoever has it gets in."""
        made = authorizer(token=TOKEN)
        assert made.required
        assert made.grantFor(hello(token="t")) == Grant()

    def test_wrong(self) -> None:
        """Another one, or the token as a name or password, is denied."""
        made = authorizer(token=TOKEN)
        for greeting in (hello(), hello(token="x"), hello("t"), hello("x", "t")):
            assert refuses(made, greeting)

    def test_besideUsers(self) -> None:
        """Who names no user may bring the token instead."""
        made = authorizer(ALICE, token=TOKEN)
        assert made.grantFor(hello(token="t")) == Grant()
        assert made.grantFor(hello("alice", "a", "x")) == ALICE.grant
        assert refuses(made, hello("alice", "x", "t"))


class TestHashes:
    """Secrets that are hashed."""

    def test_right(self) -> None:
        """The grant comes when the hash was compared."""
        threads = Threads()
        answer = authorizer(CAROL, threads=threads).grantFor(hello("carol", "secret"))
        assert isinstance(answer, Deferred)
        found: list[Any] = []
        answer.addCallback(found.append)
        threads.run()
        assert found == [CAROL.grant]

    def test_wrong(self) -> None:
        """So does the denial."""
        threads = Threads()
        answer = authorizer(CAROL, threads=threads).grantFor(hello("carol", "x"))
        assert isinstance(answer, Deferred)
        found: list[Any] = []
        answer.addErrback(lambda failure: found.append(failure.value))
        threads.run()
        assert isinstance(found[0], errors.Unauthorized)

    def test_unknownTakesTheSamePath(self) -> None:
        """For a user that does not exist a hash is compared too, and then denied."""
        threads = Threads()
        answer = authorizer(ALICE, CAROL, threads=threads).grantFor(hello("nobody", "secret"))
        assert isinstance(answer, Deferred)
        found: list[Any] = []
        answer.addErrback(lambda failure: found.append(failure.value))
        threads.run()
        assert isinstance(found[0], errors.Unauthorized)

    def test_wrongKindTakesTheSamePath(self) -> None:
        """For a user of another kind of connection too."""
        threads = Threads()
        dave = Identity(HASH, Grant(user="dave"), frozenset({"WEBSOCKET"}))
        answer = authorizer(dave, threads=threads).grantFor(hello("dave", "secret"))
        assert isinstance(answer, Deferred)
        found: list[Any] = []
        answer.addErrback(lambda failure: found.append(failure.value))
        threads.run()
        assert isinstance(found[0], errors.Unauthorized)


class TestNobody:
    """Who brings no credentials."""

    def test_user(self) -> None:
        """Gets what the user has that the settings name, although it has a password."""
        made = authorizer(ALICE, BOB, noAuthUser="alice")
        assert not made.required
        assert made.grantFor(hello()) == ALICE.grant

    def test_hashed(self) -> None:
        """Also if that is a hash."""
        assert authorizer(CAROL, noAuthUser="carol").grantFor(hello()) == CAROL.grant

    @pytest.mark.parametrize(
        "greeting", [hello("alice", "x"), hello("x"), hello("", "x"), hello(token="x")]
    )
    def test_wrong(self, greeting: Hello) -> None:
        """Wrong credentials are still denied."""
        assert refuses(authorizer(ALICE, noAuthUser="alice"), greeting)

    def test_otherUser(self) -> None:
        """Right ones of another user are taken."""
        made = authorizer(ALICE, Identity("e", Grant(user="eve")), noAuthUser="alice")
        assert made.grantFor(hello("eve", "e")) == Grant(user="eve")

    def test_connectionType(self) -> None:
        """The user's kinds of connection hold for nobody as well."""
        made = authorizer(BOB, noAuthUser="bob")
        assert refuses(made, hello())
        assert made.grantFor(hello(connectionType="WEBSOCKET")) == BOB.grant

    def test_missing(self) -> None:
        """A user that does not exist cannot be named."""
        with pytest.raises(ValueError, match="no user"):
            authorizer(ALICE, noAuthUser="nobody")


class TestCertificates:
    """Users that certificates name."""

    def made(self, **more: Any) -> SettingsAuthorizer:
        """An authorizer with two users."""
        users = [
            Identity("", Grant("A", "alice@example.com")),
            Identity("pw", Grant("B", "bob")),
        ]
        return authorizer(*users, mapsCertificates=True, **more)

    def test_named(self) -> None:
        """The user that the certificate names gets in without a password."""
        greeting = hello(certificate=certificate(emails=["alice@example.com"]))
        assert self.made().grantFor(greeting).account == "A"  # type: ignore[union-attr]

    def test_whatIsSaidDoesNotCount(self) -> None:
        """What the client says in CONNECT changes nothing."""
        given = certificate(emails=["alice@example.com"])
        grant = self.made().grantFor(hello("bob", "pw", certificate=given))
        assert grant == Grant("A", "alice@example.com")

    def test_unknown(self) -> None:
        """A certificate that names nobody is denied, whatever the client says."""
        given = certificate(emails=["eve@example.com"])
        assert refuses(self.made(), hello("bob", "pw", certificate=given))

    def test_withoutCertificate(self) -> None:
        """So is a connection without one; a name alone never gets in."""
        assert refuses(self.made(), hello("alice@example.com"))
        assert refuses(self.made(), hello("bob", "pw"))

    def test_required(self) -> None:
        """There is no way in without a login, also if somebody stands for nobody."""
        made = self.made(noAuthUser="bob")
        assert made.required
        assert refuses(made, hello())

    def test_connectionType(self) -> None:
        """The user's kinds of connection hold."""
        user = Identity("", Grant(user="alice"), frozenset({"WEBSOCKET"}))
        made = authorizer(user, mapsCertificates=True)
        given = certificate(names=["alice"])
        assert refuses(made, hello(certificate=given))
        grant = made.grantFor(hello(certificate=given, connectionType="WEBSOCKET"))
        assert grant == user.grant
