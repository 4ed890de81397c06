"""
The default authorizer.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import bcrypt
import pytest
from twisted.internet.defer import Deferred, succeed
from zope.interface.verify import verifyObject

from natsbroker import errors
from natsbroker.auth.defaultauthorizer import (
    GRANTED,
    Logins,
    SettingsAuthorizer,
    UserEntry,
    authorizerFrom,
    grantFrom,
)
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.config.keys.root import USER
from natsbroker.config.model import (
    AccountSettings,
    AuthorizationSettings,
    Settings,
    TLSSettings,
    User,
)
from natsbroker.interfaces import IAuthorizer
from natsbroker.subjects.permissions import Verdict
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.auth.certificates import certificate
from tests.auth.operator.chain import KeyPair, raw
from tests.auth.threads import Threads
from tests.server.support import settingsOf

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()

ALICE = UserEntry("a", Grant("A", "alice"))
BOB = UserEntry("b", Grant("B", "bob"), frozenset({"WEBSOCKET"}))
CAROL = UserEntry(HASH, Grant("A", "carol"))
TOKEN = UserEntry("t", Grant())


def authorizer(*identities: UserEntry, threads: Any = None, **more: Any) -> SettingsAuthorizer:
    """An authorizer with these users."""
    users = {identity.grant.user: identity for identity in identities}
    return SettingsAuthorizer(PasswordChecks(threads or Threads()), Logins(users, **more))


def hello(user: str = "", password: str = "", token: str = "", **more: Any) -> ConnectRequest:
    """A connect request."""
    given = {"user": user, "pass": password, "auth_token": token}
    return ConnectRequest(options={name: value for name, value in given.items() if value}, **more)


def refuses(made: SettingsAuthorizer, greeting: ConnectRequest) -> bool:
    """Whether a login is denied at once."""
    try:
        made.grantFor(greeting)
    except errors.Unauthorized:
        return True
    return False


class TestOpen:
    """Settings without users and tokens."""

    def test_allClients(self) -> None:
        """All clients are admitted, whatever their credentials."""
        made = authorizer()
        verifyObject(IAuthorizer, made)
        assert not made.required
        assert made.grantFor(hello()) == Grant()
        assert made.grantFor(hello("x", "y", "z")) == Grant()
        assert made.grantFor(hello()) is made.grantFor(hello("x"))


class TestUsers:
    """Users with passwords."""

    def test_required(self) -> None:
        """A login is required."""
        assert authorizer(ALICE).required

    def test_nameAndPassword(self) -> None:
        """A user with the right password gets its own grant."""
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
    def test_otherLoginsAreDenied(self, user: str, password: str, token: str) -> None:
        """Any other login is denied."""
        assert refuses(authorizer(ALICE), hello(user, password, token))

    def test_wrongTypes(self) -> None:
        """Options of CONNECT that are not text are ignored."""
        assert refuses(authorizer(ALICE), ConnectRequest(options={"user": 1, "pass": True}))

    def test_connectionTypes(self) -> None:
        """A user with the right password is denied on other connection types than its own."""
        made = authorizer(ALICE, BOB)
        assert refuses(made, hello("bob", "b"))
        assert made.grantFor(hello("bob", "b", connectionType="WEBSOCKET")) == BOB.grant

    def test_secretsAreNotShown(self) -> None:
        """The repr of a user hides the password."""
        assert "hidden" not in repr(UserEntry("hidden", Grant()))


class TestSingle:
    """A single user."""

    @pytest.mark.parametrize(
        ("greeting", "expected"),
        [
            (hello("dora", "d"), True),
            (hello("dora", "d", "x"), True),
            (hello("dora"), False),
            (hello("", "d"), False),
            (hello("nobody", "d"), False),
            (hello(), False),
            (hello(token="d"), False),
        ],
    )
    def test_wrongNameOrPassword(self, greeting: ConnectRequest, expected: bool) -> None:
        """A single user needs the right name and password."""
        made = authorizer(single=UserEntry("d", Grant(user="dora")))
        assert made.required
        assert refuses(made, greeting) is not expected


class TestKeys:
    """Users with keys, who sign nonces."""

    ANN = KeyPair("U")
    IDENTITY = UserEntry("", Grant("A", ANN.key))

    def made(self, *identities: UserEntry, **more: Any) -> SettingsAuthorizer:
        """An authorizer with a user who has a key."""
        return authorizer(*identities, keys={self.ANN.key: self.IDENTITY}, **more)

    def hello(self, signer: KeyPair | None = None, **more: str) -> ConnectRequest:
        """A connection with a user's key."""
        options = {"nkey": self.ANN.key, **more}
        if signer is not None:
            options["sig"] = raw(signer.sign(b"AAAA"))
        return ConnectRequest(options=options, nonce="AAAA")

    def test_nonce(self) -> None:
        """A nonce is sent only if some user has a key."""
        assert self.made().nonce and self.made().required
        assert not authorizer(ALICE).nonce

    def test_signed(self) -> None:
        """A client that signs the nonce is accepted with any other options."""
        assert self.made(ALICE).grantFor(self.hello(self.ANN)) == self.IDENTITY.grant
        greeting = self.hello(self.ANN, **{"user": "alice", "pass": "x"})
        assert self.made(ALICE).grantFor(greeting) == self.IDENTITY.grant

    def test_unsigned(self) -> None:
        """
        A client that does not sign the nonce is refused, although name and password are right.
        """
        assert refuses(self.made(), self.hello())
        assert refuses(self.made(), self.hello(sig="x"))
        assert refuses(self.made(ALICE), self.hello(None, **{"user": "alice", "pass": "a"}))

    def test_strangers(self) -> None:
        """A client that signs with another key, or names an unknown one, is refused."""
        stranger = KeyPair("U")
        assert refuses(self.made(), self.hello(stranger))
        assert refuses(self.made(ALICE), self.hello(stranger, nkey=stranger.key))
        assert refuses(self.made(), self.hello(stranger, nkey=stranger.seed.decode()))

    def test_replay(self) -> None:
        """A signature for one connection is refused on another."""
        first = self.hello(self.ANN)
        made = self.made()
        assert made.grantFor(first) == self.IDENTITY.grant
        assert refuses(made, ConnectRequest(options=first.options, nonce="BBBB"))
        assert refuses(made, ConnectRequest(options=first.options))

    def test_passwordUsersNeedNoKey(self) -> None:
        """Users with passwords need no key, and a key is not a name."""
        assert self.made(ALICE).grantFor(hello("alice", "a")) == ALICE.grant
        assert refuses(self.made(ALICE), hello(self.ANN.key))
        assert refuses(self.made(), hello("alice", "a"))
        assert refuses(self.made(), hello())

    def test_withoutKeys(self) -> None:
        """Where no user has a key, a client's key is ignored."""
        greeting = self.hello(None, **{"user": "alice", "pass": "a"})
        assert authorizer(ALICE).grantFor(greeting) == ALICE.grant

    def test_connectionTypes(self) -> None:
        """A user with a key is denied on other connection types than its own."""
        identity = UserEntry("", Grant(), frozenset({"WEBSOCKET"}))
        made = authorizer(keys={self.ANN.key: identity})
        assert refuses(made, self.hello(self.ANN))

    def test_certificates(self) -> None:
        """A client with a key must sign the nonce, also if certificates name users."""
        made = self.made(ALICE, mapsCertificates=True)
        assert made.grantFor(self.hello(self.ANN)) == self.IDENTITY.grant
        assert refuses(made, hello("alice", "a"))

    def test_keyOfTheDefaultUser(self) -> None:
        """A user with a key may be C{no_auth_user}, who needs no signature."""
        made = self.made(ALICE, noAuthUser=self.ANN.key)
        assert not made.required
        for greeting in (
            hello(),
            self.hello(),
            self.hello(KeyPair("U")),
            ConnectRequest(options={"jwt": "x"}),
        ):
            assert made.grantFor(greeting) == self.IDENTITY.grant
        assert refuses(made, hello("alice", "x"))
        assert refuses(made, self.hello(nkey=KeyPair("U").key))

    def test_nobodyElse(self) -> None:
        """An unknown key is refused, but ignored if no user has a key."""
        greeting = self.hello(nkey=KeyPair("U").key)
        assert refuses(self.made(ALICE, noAuthUser="alice"), greeting)
        assert authorizer(ALICE, noAuthUser="alice").grantFor(greeting) == ALICE.grant


class TestToken:
    """A single token."""

    def test_rightToken(self) -> None:
        """A client with the token is accepted."""
        made = authorizer(token=TOKEN)
        assert made.required
        assert made.grantFor(hello(token="t")) == Grant()

    def test_otherTokensAreDenied(self) -> None:
        """Another token, or the token as a name or password, is denied."""
        made = authorizer(token=TOKEN)
        for greeting in (hello(), hello(token="x"), hello("t"), hello("x", "t")):
            assert refuses(made, greeting)

    def test_besideUsers(self) -> None:
        """
        A client that names no user may give the token of the configuration, which has users too.
        """
        made = authorizer(ALICE, token=TOKEN)
        assert made.grantFor(hello(token="t")) == Grant()
        assert made.grantFor(hello("alice", "a", "x")) == ALICE.grant
        assert refuses(made, hello("alice", "x", "t"))


class TestHashes:
    """Passwords and tokens that are hashed."""

    def test_hashedPassword(self) -> None:
        """The grant comes after the hash was compared."""
        threads = Threads()
        answer = authorizer(CAROL, threads=threads).grantFor(hello("carol", "secret"))
        assert isinstance(answer, Deferred)
        results: list[Any] = []
        answer.addCallback(results.append)
        threads.run()
        assert results == [CAROL.grant]

    def test_wrongPasswordIsDeniedLater(self) -> None:
        """A wrong password is denied later, not at once."""
        threads = Threads()
        answer = authorizer(CAROL, threads=threads).grantFor(hello("carol", "x"))
        assert isinstance(answer, Deferred)
        results: list[Any] = []
        answer.addErrback(lambda failure: results.append(failure.value))
        threads.run()
        assert isinstance(results[0], errors.Unauthorized)

    def test_unknownAreLikeOthers(self) -> None:
        """
        An unknown name is treated as one fixed existing user, so that timing does not show which
        names exist, even with hashes and plain texts in one table.
        """
        made = authorizer(ALICE, CAROL)
        kinds = []
        for number in range(200):
            path = [self.path(made, f"nobody{number}") for _ in range(2)]
            assert path[0] == path[1]
            kinds.append(path[0])
        assert 50 < sum(kinds) < 150
        other = authorizer(ALICE, CAROL)
        assert kinds != [self.path(other, f"nobody{number}") for number in range(200)]

    def path(self, made: SettingsAuthorizer, name: str) -> bool:
        """Whether a name's password is compared with a hash."""
        try:
            answer = made.grantFor(hello(name, "x"))
        except errors.Unauthorized:
            return False
        assert isinstance(answer, Deferred)
        answer.addErrback(lambda failure: None)
        answer.cancel()
        return True

    def test_unknownTakesTheSamePath(self) -> None:
        """A user that does not exist is denied after a hash was compared, like others."""
        threads = Threads()
        answer = authorizer(CAROL, threads=threads).grantFor(hello("nobody", "secret"))
        assert isinstance(answer, Deferred)
        results: list[Any] = []
        answer.addErrback(lambda failure: results.append(failure.value))
        threads.run()
        assert isinstance(results[0], errors.Unauthorized)

    def test_wrongKindTakesTheSamePath(self) -> None:
        """A user on a wrong connection type is denied after a hash was compared, like others."""
        threads = Threads()
        dave = UserEntry(HASH, Grant(user="dave"), frozenset({"WEBSOCKET"}))
        answer = authorizer(dave, threads=threads).grantFor(hello("dave", "secret"))
        assert isinstance(answer, Deferred)
        results: list[Any] = []
        answer.addErrback(lambda failure: results.append(failure.value))
        threads.run()
        assert isinstance(results[0], errors.Unauthorized)


class TestNobody:
    """Clients without credentials, and C{no_auth_user}."""

    def test_user(self) -> None:
        """A client without credentials is the default user, although that user has a password."""
        made = authorizer(ALICE, BOB, noAuthUser="alice")
        assert not made.required
        assert made.grantFor(hello()) == ALICE.grant

    def test_hashed(self) -> None:
        """
        A client without credentials is the default user, also if that user has a hashed password.
        """
        assert authorizer(CAROL, noAuthUser="carol").grantFor(hello()) == CAROL.grant

    @pytest.mark.parametrize(
        "greeting", [hello("alice", "x"), hello("x"), hello("", "x"), hello(token="x")]
    )
    def test_wrongCredentialsAreDenied(self, greeting: ConnectRequest) -> None:
        """Wrong credentials are still denied."""
        assert refuses(authorizer(ALICE, noAuthUser="alice"), greeting)

    def test_otherUser(self) -> None:
        """Correct credentials of another user are accepted."""
        made = authorizer(ALICE, UserEntry("e", Grant(user="eve")), noAuthUser="alice")
        assert made.grantFor(hello("eve", "e")) == Grant(user="eve")

    def test_connectionType(self) -> None:
        """The default user is denied on other connection types than its own."""
        made = authorizer(BOB, noAuthUser="bob")
        assert refuses(made, hello())
        assert made.grantFor(hello(connectionType="WEBSOCKET")) == BOB.grant

    def test_missing(self) -> None:
        """A default user that does not exist is refused."""
        with pytest.raises(ValueError, match="no user"):
            authorizer(ALICE, noAuthUser="nobody")


class TestCertificates:
    """Users that certificates name."""

    def made(self, **more: Any) -> SettingsAuthorizer:
        """An authorizer that maps certificates to two users."""
        users = [
            UserEntry("", Grant("A", "alice@example.com")),
            UserEntry("pw", Grant("B", "bob")),
        ]
        return authorizer(*users, mapsCertificates=True, **more)

    def test_userOfCertificate(self) -> None:
        """The user that a certificate names needs no password."""
        greeting = hello(certificate=certificate(emails=["alice@example.com"]))
        assert self.made().grantFor(greeting).account == "A"  # type: ignore[union-attr]

    @pytest.mark.parametrize("more", [{"user": "bob"}, {"token": "x"}, {"user": "alice"}])
    def test_nameInConnect(self, more: dict[str, str]) -> None:
        """A name in CONNECT does not change the user that a certificate names."""
        given = certificate(emails=["alice@example.com"])
        grant = self.made().grantFor(hello(certificate=given, **more))
        assert grant == Grant("A", "alice@example.com")

    def test_passwordsCount(self) -> None:
        """The user of a certificate must give its password, if it has one, and no other."""
        given = certificate(emails=["alice@example.com"])
        assert refuses(self.made(), hello("bob", "pw", certificate=given))
        assert refuses(self.made(), hello("alice@example.com", "x", certificate=given))
        given = certificate(names=["bob"])
        assert refuses(self.made(), hello(certificate=given))
        assert refuses(self.made(), hello("bob", "x", certificate=given))
        assert self.made().grantFor(hello("", "pw", certificate=given)) == Grant("B", "bob")

    def test_singleUser(self) -> None:
        """A certificate does not name a single user."""
        given = certificate(emails=["alice@example.com"])
        single = UserEntry("", Grant(user="alice@example.com"))
        made = authorizer(mapsCertificates=True, single=single)
        assert refuses(made, hello(certificate=given))
        assert made.grantFor(hello("alice@example.com")) == single.grant

    def test_unknown(self) -> None:
        """A client whose certificate names no user is denied, whatever its credentials."""
        given = certificate(emails=["eve@example.com"])
        assert refuses(self.made(), hello("bob", "pw", certificate=given))

    def test_withoutCertificate(self) -> None:
        """A client without a certificate is refused, whatever its name and password."""
        assert refuses(self.made(), hello("alice@example.com"))
        assert refuses(self.made(), hello("bob", "pw"))

    def test_required(self) -> None:
        """A client without a certificate is denied, also with C{no_auth_user}."""
        made = self.made(noAuthUser="bob")
        assert not made.required
        assert refuses(made, hello())

    def test_connectionType(self) -> None:
        """The user of a certificate is denied on other connection types than its own."""
        user = UserEntry("", Grant(user="alice"), frozenset({"WEBSOCKET"}))
        made = authorizer(user, mapsCertificates=True)
        given = certificate(names=["alice"])
        assert refuses(made, hello(certificate=given))
        grant = made.grantFor(hello(certificate=given, connectionType="WEBSOCKET"))
        assert grant == user.grant


USERS = """
max_payload: 1000
authorization {
    users = [
        {user: plain, password: p}
        {user: ruled, password: r, permissions: {
            publish: {allow: ["a.>"], deny: ["a.secret"]}
            subscribe: ["b.>", "c q"]
            allow_responses: {max: 3, expires: "5s"}
        }}
    ]
}
accounts {
    A {
        users: [{user: small, password: s}]
        limits { max_payload: 100, max_subscriptions: 2 }
    }
    B {
        users: [{user: large, password: l}]
        limits { max_payload: 5000 }
    }
}
"""


def authorizerOf(settings: Settings | str) -> SettingsAuthorizer:
    """The default authorizer for some settings."""
    if isinstance(settings, str):
        settings = settingsOf(settings)
    return authorizerFrom(settings, PasswordChecks(lambda call, *args: succeed(call(*args))))


def grantOf(settings: Settings | str, **options: str) -> Grant:
    """The grant for the options of a CONNECT."""
    grant = authorizerOf(settings).grantFor(ConnectRequest(options=options))
    assert isinstance(grant, Grant)
    return grant


class TestGrants:
    """The grants of users."""

    def test_fields(self) -> None:
        """Each field of a configured user is a field of its grant, or is needed for the login."""
        login = {"password", "permissions", "allowed_connection_types", "nkey", "proxy_required"}
        names = {field.name for field in fields(User)}
        assert names == {*GRANTED, *login, "isOutside"}
        assert {key.attribute or name for name, key in USER.keys.items()} <= names

    def test_userWithoutPermissions(self) -> None:
        """A user without permissions may do everything in the global account."""
        assert grantOf(USERS, user="plain", **{"pass": "p"}) == Grant(user="plain")

    def test_permissions(self) -> None:
        """Permissions are compiled into the grant."""
        grant = grantOf(USERS, user="ruled", **{"pass": "r"})
        assert grant.publish is not None and grant.subscribe is not None
        assert grant.publish.allows(b"a.x") and not grant.publish.allows(b"a.secret")
        assert not grant.publish.allows(b"x")
        assert grant.subscribe.verdict(b"b.x") is Verdict.ALLOWED
        assert grant.subscribe.verdict(b"c") is Verdict.DENIED
        assert grant.subscribe.verdict(b"c", b"q") is Verdict.ALLOWED
        assert grant.responses is not None
        assert (grant.responses.max, grant.responses.expires) == (3, 5.0)

    def test_accountLimits(self) -> None:
        """The limits of the account apply where they are smaller than the server's."""
        small = grantOf(USERS, user="small", **{"pass": "s"})
        assert (small.account, small.maxPayload, small.maxSubscriptions) == ("A", 100, 2)
        large = grantOf(USERS, user="large", **{"pass": "l"})
        assert (large.account, large.maxPayload, large.maxSubscriptions) == ("B", None, None)

    def test_unknownAccount(self) -> None:
        """A user's account need not have an entry."""
        assert grantFrom(User("u", account="X"), Settings()).account == "X"


class TestSingles:
    """A single user, or a token."""

    def test_user(self) -> None:
        """A single user is accepted with the right password."""
        text = "authorization { user: u, password: p }"
        assert grantOf(text, user="u", **{"pass": "p"}).user == "u"
        with pytest.raises(errors.Unauthorized):
            grantOf(text, user="u", **{"pass": "x"})

    def test_token(self) -> None:
        """A client with the token is accepted, and has no name."""
        text = "authorization { token: t }"
        assert grantOf(text, auth_token="t") == Grant()
        with pytest.raises(errors.Unauthorized):
            grantOf(text, user="t")

    def test_noAuthUser(self) -> None:
        """A client without credentials is the user that C{no_auth_user} names."""
        text = USERS + "\nno_auth_user: small"
        assert grantOf(text).account == "A"
        assert not authorizerOf(text).required

    def test_singleUserAndCertificates(self) -> None:
        """
        A single user, or a token, is accepted by its credentials, also if certificates name users.
        """
        for text in ("user: u, password: p", "token: t"):
            settings = settingsOf(f"authorization {{ {text} }}")
            settings = replace(settings, tls=TLSSettings(verify=True, verify_and_map=True))
            made = authorizerOf(settings)
            options = {"user": "u", "pass": "p", "auth_token": "t"}
            assert isinstance(made.grantFor(ConnectRequest(options=options)), Grant)

    def test_nkey(self) -> None:
        """A user with a key signs the nonce, and has its own permissions."""
        user = KeyPair("U")
        text = f"accounts {{ A {{ users: [{{nkey: {user.key}, permissions: {{publish: x}}}}] }} }}"
        made = authorizerOf(text)
        assert made.nonce
        options = {"nkey": user.key, "sig": raw(user.sign(b"nonce"))}
        grant = made.grantFor(ConnectRequest(options=options, nonce="nonce"))
        assert isinstance(grant, Grant)
        assert (grant.account, grant.user) == ("A", user.key)
        assert grant.publish is not None and not grant.publish.allows(b"y")
        with pytest.raises(errors.Unauthorized):
            made.grantFor(ConnectRequest(options={"user": user.key}))

    def test_noUsers(self) -> None:
        """Every client is accepted if there are no users."""
        assert grantOf("port: 4222", user="any") == Grant()
        assert not authorizerOf("port: 4222").required


class TestOnlySystemUsers:
    """Settings in which only the system account has users."""

    SYSTEM = User("sys", "s", "$SYS")

    def settings(self, **more: object) -> Settings:
        accounts = {"$SYS": AccountSettings("$SYS", (self.SYSTEM,))}
        return replace(Settings(accounts=accounts), **more)  # type: ignore[arg-type]

    def test_guests(self) -> None:
        """
        Clients without a login are accepted as guests of the global account, and others are not.
        """
        made = authorizerOf(self.settings())
        assert not made.required
        grant = made.grantFor(ConnectRequest())
        assert isinstance(grant, Grant) and grant.account == "$G"
        named = made.grantFor(ConnectRequest(options={"user": "sys", "pass": "s"}))
        assert isinstance(named, Grant) and named.account == "$SYS"
        with pytest.raises(errors.Unauthorized):
            made.grantFor(ConnectRequest(options={"user": "sys", "pass": "x"}))

    def test_anotherAccount(self) -> None:
        """
        Every client needs a login if there is an account beside the system account, even without
        users.
        """
        accounts = self.settings().accounts
        made = authorizerOf(Settings(accounts={**accounts, "A": AccountSettings("A")}))
        assert made.required

    def test_authorizationBlock(self) -> None:
        """Only the users of an authorization block are accepted, without guests."""
        made = authorizerOf(self.settings(authorization=AuthorizationSettings(defined=True)))
        assert made.required
        with pytest.raises(errors.Unauthorized):
            made.grantFor(ConnectRequest())

    def test_reallyRequired(self) -> None:
        """Every client needs a login if another account has users too."""
        accounts = {
            "$SYS": AccountSettings("$SYS", (self.SYSTEM,)),
            "A": AccountSettings("A", (User("a", "a", "A"),)),
        }
        assert authorizerOf(Settings(accounts=accounts)).required
