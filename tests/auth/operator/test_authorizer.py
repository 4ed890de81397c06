"""
Tests of L{natsbroker.auth.operator.authorizer}.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, succeed
from zope.interface.verify import verifyObject

from natsbroker import errors
from natsbroker.auth.operator.accountclaims import AccountClaims
from natsbroker.auth.operator.authorizer import OperatorAuthorizer
from natsbroker.auth.operator.granting import ServerLimits
from natsbroker.auth.operator.userclaims import UserClaims
from natsbroker.errors import Unauthorized
from natsbroker.interfaces import IAuthorizer
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.nkeys import Role, encodeKey
from tests.auth.keyvalues import ORDER
from tests.auth.operator.chain import Account, KeyPair, Operator, claimsOf, raw, token
from tests.auth.operator.directories import ACCOUNT, OPERATOR, World, issued

USER = KeyPair("U")
NONCE = "xbFnzNdOxjhBoN0"


def hello(
    jwt: Any = None, user: KeyPair | None = USER, nonce: str = NONCE, **changes: Any
) -> ConnectRequest:
    """
    A connection with a JWT and a signed nonce.

    @param user: the signer of the nonce; C{None} for no signature.
    """
    options = {"jwt": ACCOUNT.user(USER) if jwt is None else jwt}
    if user is not None:
        options["sig"] = raw(user.sign(nonce.encode()))
    options.update(changes.pop("options", {}))
    given: dict[str, Any] = {"host": "127.0.0.1", "nonce": nonce, **changes}
    return ConnectRequest(options=options, **given)


class Logins(World):
    """
    An authorizer with its directory.
    """

    def __init__(self, text: Any = None, **arguments: Any) -> None:
        super().__init__(issued() if text is None else text)
        self.authorizer = OperatorAuthorizer(self.directory, self.clock.seconds, **arguments)
        self.revoked: list[tuple[str, ...]] = []
        self.authorizer.watchRevocations(lambda *accounts: self.revoked.append(accounts))

    def ask(self, given: ConnectRequest) -> Any:
        """The grant, or the error instead."""
        outcome: list[Any] = []
        try:
            answer = self.authorizer.grantFor(given)
        except Unauthorized as error:
            return error
        if isinstance(answer, Deferred):
            answer.addCallbacks(outcome.append, lambda why: outcome.append(why.value))
            return outcome[0]
        return answer

    def lets(self, given: ConnectRequest) -> bool:
        """Whether a login is accepted. Any result but a grant or a denial is an error."""
        answer = self.ask(given)
        assert isinstance(answer, (Grant, Unauthorized)), answer
        return isinstance(answer, Grant)


class TestChain:
    """The chain from the operator to the user."""

    def test_interface(self) -> None:
        """The authorizer provides its interface, and requires a login and nonces."""
        authorizer = Logins().authorizer
        assert verifyObject(IAuthorizer, authorizer)
        assert authorizer.required and authorizer.nonce

    def test_letIn(self) -> None:
        """
        A user of an account of the operator is accepted into this account, and named by its key.
        """
        assert Logins().ask(hello()) == Grant(ACCOUNT.key, USER.key)

    def test_atOnce(self) -> None:
        """A login to a known account is decided at once."""
        world = Logins()
        world.ask(hello())
        assert isinstance(world.authorizer.grantFor(hello()), Grant)

    @pytest.mark.parametrize("signed", [ACCOUNT.user(USER, signer=ACCOUNT.signing)])
    def test_signingKey(self, signed: str) -> None:
        """A signing key of the account may sign users."""
        assert Logins().ask(hello(signed)) == Grant(ACCOUNT.key, USER.key)

    def test_signingKeyWithoutAccount(self) -> None:
        """A signing key that does not name its account belongs to no account."""
        text = ACCOUNT.user(USER, {"issuer_account": None}, ACCOUNT.signing)
        assert not Logins().lets(hello(text))

    def test_signingKeyOfAnotherAccount(self) -> None:
        """A signing key does not sign for other accounts (issuer_account mismatch)."""
        other = Account(OPERATOR)
        world = Logins()
        world.resolver.tokens[other.key] = other.jwt()
        forged = ACCOUNT.user(USER, {"issuer_account": other.key}, ACCOUNT.signing)
        assert not world.lets(hello(forged))
        assert not world.lets(hello(ACCOUNT.user(USER, {"issuer_account": other.key})))

    def test_otherOperators(self) -> None:
        """Users of accounts of other operators are denied."""
        stranger = Account(Operator())
        world = Logins()
        world.resolver.tokens[stranger.key] = stranger.jwt()
        assert not world.lets(hello(stranger.user(USER)))

    @pytest.mark.parametrize("given", [{}, {"user": "a", "pass": "b"}, {"auth_token": "x"}])
    def test_withoutJWT(self, given: dict[str, str]) -> None:
        """Names, passwords and tokens without a JWT are denied."""
        assert not Logins().lets(ConnectRequest(options=given, nonce=NONCE))

    def test_lineEnd(self) -> None:
        """A line end after the JWT does not matter. Clients read it from files."""
        assert Logins().lets(hello(ACCOUNT.user(USER) + "\r\n"))


class TestSignature:
    """The nonce must be signed."""

    def test_bothWritings(self) -> None:
        """A signature may be written in either alphabet of base64."""
        signature = USER.sign(NONCE.encode())
        for text in (raw(signature), base64.b64encode(signature).decode()):
            assert Logins().lets(hello(user=None, options={"sig": text}))

    @pytest.mark.parametrize("text", ["", "x", "é", raw(bytes(64)), raw(bytes(63)), raw(bytes(65))])
    def test_noSignature(self, text: str) -> None:
        """A text that is not a signature is refused."""
        assert not Logins().lets(hello(user=None, options={"sig": text}))

    def test_anotherUser(self) -> None:
        """A signature by another key is refused."""
        assert not Logins().lets(hello(user=KeyPair("U")))
        assert not Logins().lets(hello(user=ACCOUNT))

    def test_replay(self) -> None:
        """A signature of another connection's nonce is refused."""
        first = hello()
        assert Logins().lets(first)
        assert not Logins().lets(ConnectRequest(options=first.options, nonce="AAAAAAAAAAAAAAA"))
        assert not Logins().lets(ConnectRequest(options=first.options, nonce=""))

    def test_emptyNonce(self) -> None:
        """A login without a nonce is denied, although the signature is right."""
        assert not Logins().lets(hello(nonce=""))

    def test_malleable(self) -> None:
        """A signature whose bytes were changed to an equivalent one is refused."""
        signature = USER.sign(NONCE.encode())
        scalar = int.from_bytes(signature[32:], "little") + ORDER
        changed = raw(signature[:32] + scalar.to_bytes(32, "little"))
        assert not Logins().lets(hello(user=None, options={"sig": changed}))

    def test_smallOrder(self) -> None:
        """A key of small order cannot sign: anyone could forge its signatures."""
        key = encodeKey(Role.USER, bytes.fromhex("01" + "00" * 31))
        body = claimsOf("user", ACCOUNT, key, {"subs": -1, "data": -1, "payload": -1})
        forged = raw(bytes.fromhex("01" + "00" * 31) + bytes(32))
        assert not Logins().lets(hello(token(ACCOUNT, body), None, options={"sig": forged}))

    def test_seedInPlaceOfKey(self) -> None:
        """A client that sends its seed instead of a signature is denied."""
        assert not Logins().lets(hello(user=None, options={"sig": USER.seed.decode()}))

    def test_bearer(self) -> None:
        """A JWT with a bearer token needs no signature. An account may forbid such tokens."""
        bearer = ACCOUNT.user(USER, {"bearer_token": True})
        assert Logins().lets(hello(bearer, None))
        assert not Logins(issued(limits={"disallow_bearer": True})).lets(hello(bearer, None))
        assert not Logins(issued(limits={"disallow_bearer": True})).lets(hello(bearer))

    def test_bearerByTemplate(self) -> None:
        """The template of a scoped signing key may give bearer tokens to its users."""
        signer = KeyPair("A")
        scope = {"kind": "user_scope", "key": signer.key, "template": {"bearer_token": True}}
        world = Logins(issued(nats={"signing_keys": [scope]}))
        assert world.lets(hello(ACCOUNT.scopedUser(USER, signer), None))


class TestConditions:
    """Times, addresses and kinds of connection of a user."""

    @pytest.mark.parametrize(
        ("claims", "expected"),
        [
            ({}, True),
            ({"exp": 1000}, True),
            ({"exp": 999}, False),
            ({"exp": -1}, False),
            ({"nbf": 1000}, True),
            ({"nbf": 1001}, False),
        ],
    )
    def test_time(self, claims: dict[str, Any], expected: bool) -> None:
        """A JWT that has expired, or is not yet valid, is denied."""
        assert Logins().lets(hello(ACCOUNT.user(USER, **claims))) is expected

    def test_expires(self) -> None:
        """A grant expires with the JWT."""
        assert Logins().ask(hello(ACCOUNT.user(USER, exp=1060))).expires == 1060

    @pytest.mark.parametrize(
        ("host", "expected"), [("10.9.8.7", True), ("127.0.0.1", False), ("", False), ("x", False)]
    )
    def test_sources(self, host: str, expected: bool) -> None:
        """A user whose JWT names networks is accepted from these networks only."""
        text = ACCOUNT.user(USER, {"src": ["10.0.0.0/8"]})
        assert Logins().lets(hello(text, host=host)) is expected

    @pytest.mark.parametrize(
        ("start", "end", "expires"),
        [
            ("00:00:00", "01:00:00", 3600.0),
            ("01:00:00", "02:00:00", None),
            ("23:00:00", "00:30:00", 1800.0),
        ],
    )
    def test_times(self, start: str, end: str, expires: float | None) -> None:
        """A user with hours is accepted within these and disconnected at their end."""
        times = {"times": [{"start": start, "end": end}], "times_location": "UTC"}
        answer = Logins().ask(hello(ACCOUNT.user(USER, times)))
        assert getattr(answer, "expires", None) == expires

    @pytest.mark.parametrize(
        ("types", "expected"),
        [
            ([], True),
            (["STANDARD"], True),
            (["standard"], True),
            (["WEBSOCKET"], False),
            (["WEBSOCKET", "STANDARD"], True),
            (["CARRIER_PIGEON"], False),
            (["CARRIER_PIGEON", "STANDARD"], True),
        ],
    )
    def test_connectionTypes(self, types: list[str], expected: bool) -> None:
        """
        A user is accepted over the connection types of the JWT only. Unknown types are ignored.
        """
        text = ACCOUNT.user(USER, {"allowed_connection_types": types})
        assert Logins().lets(hello(text)) is expected

    def test_otherKind(self) -> None:
        """A user may be restricted to a third party's connection type, or excluded from it."""
        lines = hello(ACCOUNT.user(USER, {"allowed_connection_types": ["lines"]}))
        assert not Logins().lets(lines)
        assert Logins().lets(replace(lines, connectionType="LINES"))
        standard = hello(ACCOUNT.user(USER, {"allowed_connection_types": ["STANDARD"]}))
        assert not Logins().lets(replace(standard, connectionType="LINES"))

    def test_proxyRequired(self) -> None:
        """A user who must come through a proxy is refused without one."""
        asked = hello(ACCOUNT.user(USER, {"proxy_required": True}))
        assert not Logins().lets(asked)
        assert Logins().lets(replace(asked, proxy="UX"))

    def test_pinned(self) -> None:
        """If accounts are pinned, users of other accounts are denied."""
        assert Logins(pinned=frozenset([ACCOUNT.key])).lets(hello())
        assert not Logins(pinned=frozenset([Account(OPERATOR).key])).lets(hello())
        assert not Logins(pinned=frozenset()).lets(hello())

    @pytest.mark.parametrize("who", ["*", USER.key])
    def test_revoked(self, who: str) -> None:
        """A revoked user is not let in (CVE-2020-26892)."""
        world = Logins(issued(nats={"revocations": {who: 500}}))
        assert not world.lets(hello(ACCOUNT.user(USER, iat=500)))
        assert world.lets(hello(ACCOUNT.user(USER, iat=501)))

    def test_limits(self) -> None:
        """The limits of the server apply to all users."""
        world = Logins(limits=ServerLimits(100, 5))
        grant = world.ask(hello())
        assert (grant.maxPayload, grant.maxSubscriptions) == (100, 5)

    def test_sentinel(self) -> None:
        """A client without a valid JWT gets the configured default JWT."""
        sentinel = ACCOUNT.user(USER, {"bearer_token": True})
        world = Logins(sentinel=sentinel)
        for options in ({}, {"jwt": "x"}, {"user": "a", "pass": "b"}):
            assert world.lets(ConnectRequest(options=options, nonce=NONCE))


class TestChanges:
    """Changes of an account while its users are connected."""

    def test_revokesOnce(self) -> None:
        """A changed JWT of an account has its connections checked again, and no others."""
        world = Logins(issued(exp=1010))
        world.ask(hello())
        world.revoked.clear()
        world.directory.update(ACCOUNT.key, issued(2, nats={"revocations": {"*": 1_700_000_000}}))
        assert world.revoked == [(ACCOUNT.key,)]
        error = world.ask(hello())
        assert isinstance(error, Unauthorized) and error.error is errors.AUTH_REVOKED

    def test_accountExpires(self) -> None:
        """When an account expires, its connections are checked again and get the error for that."""
        world = Logins(issued(exp=1010))
        world.ask(hello())
        world.revoked.clear()
        world.clock.advance(10)
        assert world.revoked == [(ACCOUNT.key,)]
        assert world.ask(hello()).error is errors.ACCOUNT_EXPIRED


class Service:
    """A callout service that decides for accounts."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.before: list[Grant | None] = []

    def ask(
        self, account: AccountClaims, hello: ConnectRequest, user: UserClaims
    ) -> Deferred[Grant]:
        self.asked.append((account.token.subject, user.token.text))
        return succeed(Grant("elsewhere", "else"))

    def guarded(self, grant: Grant, account: AccountClaims) -> Grant:
        return replace(grant, memo=account.token.subject)

    def reconsidered(self, hello: ConnectRequest) -> Grant | None:
        self.before.append(hello.granted)
        return hello.granted if hello.granted and hello.granted.user == "else" else None


class TestDelegating:
    """Accounts whose users are decided by a callout service."""

    EXTERNAL = {"authorization": {"auth_users": [USER.key]}}

    def test_serviceDecidesAboutUsers(self) -> None:
        """The service decides about users who have proved their identity."""
        service, other = Service(), KeyPair("U")
        world = Logins(issued(nats=self.EXTERNAL), delegate=service)
        jwt = ACCOUNT.user(other)
        assert world.ask(hello(jwt, other)) == Grant("elsewhere", "else")
        assert service.asked == [(ACCOUNT.key, jwt)]

    def test_checkedAgain(self) -> None:
        """When a connection is checked again, the service that accepted it decides first."""
        service = Service()
        world = Logins(issued(nats=self.EXTERNAL), delegate=service)
        asked = Grant("elsewhere", "else")
        assert world.ask(hello("nonsense", granted=asked)) is asked
        assert world.ask(hello(granted=Grant(ACCOUNT.key, USER.key))).user == USER.key
        assert service.before[0] is asked
        assert service.asked == []

    def test_unproved(self) -> None:
        """The service is not asked about a user whose signature is wrong."""
        service, other = Service(), KeyPair("U")
        world = Logins(issued(nats=self.EXTERNAL), delegate=service)
        assert not world.lets(hello(ACCOUNT.user(other), USER))
        assert service.asked == []

    def test_ownUsers(self) -> None:
        """The service's own users are accepted without asking the service."""
        service = Service()
        world = Logins(issued(nats=self.EXTERNAL), delegate=service)
        granted = world.ask(hello())
        assert granted == Grant(ACCOUNT.key, USER.key)
        assert granted.memo == ACCOUNT.key
        assert service.asked == []

    def test_nobodyToAsk(self) -> None:
        """A user of an account with auth callout is denied if there is no service to ask."""
        other = KeyPair("U")
        assert not Logins(issued(nats=self.EXTERNAL)).lets(hello(ACCOUNT.user(other), other))


class TestFuzz:
    """Any texts and claims."""

    @given(st.text(), st.text())
    def test_anyTexts(self, jwt: str, signature: str) -> None:
        """Any JWT and signature that the account did not issue are denied."""
        given = ConnectRequest(options={"jwt": jwt, "sig": signature}, nonce=NONCE)
        assert not Logins().lets(given)

    @given(
        st.dictionaries(
            st.sampled_from(["exp", "nbf", "iat", "aud", "name", "nats", "sub", "iss", "jti"]),
            st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers()),
        )
    )
    def test_anyClaims(self, changes: dict[str, Any]) -> None:
        """Any signed claims lead to a grant or a denial."""
        body = {**claimsOf("user", ACCOUNT, USER.key, {"subs": -1, "payload": -1}), **changes}
        Logins().lets(hello(token(ACCOUNT, body)))

    @given(st.integers(min_value=0), st.binary(min_size=1, max_size=3))
    def test_damagedTokens(self, place: int, damage: bytes) -> None:
        """A JWT with a change anywhere is denied."""
        text = ACCOUNT.user(USER)
        place %= len(text)
        changed = text[:place] + damage.decode("latin-1") + text[place + 1 :]
        if changed.rstrip("\r\n") != text:
            assert not Logins().lets(hello(changed))
