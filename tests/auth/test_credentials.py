"""
From the users of the settings to identities with grants.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from twisted.internet.defer import succeed

from natsbroker import errors
from natsbroker.auth.configured import SettingsAuthorizer
from natsbroker.auth.credentials import authorizerFrom, grantFrom
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.config.model import (
    AccountSettings,
    AuthorizationSettings,
    Settings,
    TLSSettings,
    User,
)
from natsbroker.subjects.permissions import Verdict
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.auth.operator.chain import KeyPair, raw
from tests.server.support import settingsOf

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


def authorizer(settings: Settings | str) -> SettingsAuthorizer:
    """The default authorizer for some settings."""
    if isinstance(settings, str):
        settings = settingsOf(settings)
    return authorizerFrom(settings, PasswordChecks(lambda call, *args: succeed(call(*args))))


def grantOf(settings: Settings | str, **options: str) -> Grant:
    """What somebody gets who says that in CONNECT."""
    grant = authorizer(settings).grantFor(ConnectRequest(options=options))
    assert isinstance(grant, Grant)
    return grant


class TestGrants:
    """What users may do."""

    def test_plain(self) -> None:
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
        """The limits of the account hold where they are smaller than the server's."""
        small = grantOf(USERS, user="small", **{"pass": "s"})
        assert (small.account, small.maxPayload, small.maxSubscriptions) == ("A", 100, 2)
        large = grantOf(USERS, user="large", **{"pass": "l"})
        assert (large.account, large.maxPayload, large.maxSubscriptions) == ("B", None, None)

    def test_unknownAccount(self) -> None:
        """A user may be of an account that has no entry."""
        assert grantFrom(User("u", account="X"), Settings()).account == "X"


class TestSingles:
    """One user, or a token."""

    def test_user(self) -> None:
        """The only user gets in with the password."""
        text = "authorization { user: u, password: p }"
        assert grantOf(text, user="u", **{"pass": "p"}).user == "u"
        with pytest.raises(errors.Unauthorized):
            grantOf(text, user="u", **{"pass": "x"})

    def test_token(self) -> None:
        """Whoever has the token gets in, and has no name."""
        text = "authorization { token: t }"
        assert grantOf(text, auth_token="t") == Grant()
        with pytest.raises(errors.Unauthorized):
            grantOf(text, user="t")

    def test_noAuthUser(self) -> None:
        """Without credentials one is the user that the settings name."""
        text = USERS + "\nno_auth_user: small"
        assert grantOf(text).account == "A"
        assert not authorizer(text).required

    def test_singleUserAndCertificates(self) -> None:
        """The only user, or token, is not one whom certificates name."""
        for text in ("user: u, password: p", "token: t"):
            settings = settingsOf(f"authorization {{ {text} }}")
            settings = replace(settings, tls=TLSSettings(verify=True, verify_and_map=True))
            made = authorizer(settings)
            options = {"user": "u", "pass": "p", "auth_token": "t"}
            assert isinstance(made.grantFor(ConnectRequest(options=options)), Grant)

    def test_nkey(self) -> None:
        """A user with a key signs, and has its permissions."""
        user = KeyPair("U")
        text = f"accounts {{ A {{ users: [{{nkey: {user.key}, permissions: {{publish: x}}}}] }} }}"
        made = authorizer(text)
        assert made.nonce
        options = {"nkey": user.key, "sig": raw(user.sign(b"nonce"))}
        grant = made.grantFor(ConnectRequest(options=options, nonce="nonce"))
        assert isinstance(grant, Grant)
        assert (grant.account, grant.user) == ("A", user.key)
        assert grant.publish is not None and not grant.publish.allows(b"y")
        with pytest.raises(errors.Unauthorized):
            made.grantFor(ConnectRequest(options={"user": user.key}))

    def test_nobody(self) -> None:
        """Without users everybody gets in."""
        assert grantOf("port: 4222", user="any") == Grant()
        assert not authorizer("port: 4222").required


class TestAmbiguity:
    """Settings that leave it open who may connect (CVE-2023-47090)."""

    SYSTEM = User("sys", "s", "$SYS")

    def settings(self, **more: object) -> Settings:
        """Settings in which only the system account has users."""
        accounts = {"$SYS": AccountSettings("$SYS", (self.SYSTEM,))}
        return replace(Settings(accounts=accounts), **more)  # type: ignore[arg-type]

    def test_refused(self) -> None:
        """They are refused, also when no configuration reader looked at them."""
        with pytest.raises(ValueError, match="only the system account"):
            authorizer(self.settings())

    def test_told(self) -> None:
        """With an authorization block they are clear: nobody else gets in."""
        made = authorizer(self.settings(authorization=AuthorizationSettings(defined=True)))
        assert made.required
        with pytest.raises(errors.Unauthorized):
            made.grantFor(ConnectRequest())

    def test_reallyRequired(self) -> None:
        """Users of another account beside them make it clear too."""
        accounts = {
            "$SYS": AccountSettings("$SYS", (self.SYSTEM,)),
            "A": AccountSettings("A", (User("a", "a", "A"),)),
        }
        assert authorizer(Settings(accounts=accounts)).required
