"""
Tests of L{natsbroker.auth.operator.userclaims}.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.terms import NO_LIMIT, PermissionClaims, UserPermissionLimits
from natsbroker.auth.operator.userclaims import UserClaims
from tests.auth.operator.chain import Account, KeyPair, Operator, claimsOf, oldToken, token
from tests.auth.operator.claimvalues import KNOWN, VALUES

ACCOUNT, USER = Account(Operator()), KeyPair("U")

#: Every claim that a user's JWT may have.
NAMES = st.sampled_from(
    [
        "pub",
        "sub",
        "resp",
        "src",
        "times",
        "times_location",
        "subs",
        "data",
        "payload",
        "bearer_token",
        "proxy_required",
        "allowed_connection_types",
        "issuer_account",
        "tags",
    ]
)


class TestUserClaims:
    """The JWT of a user."""

    def test_known(self) -> None:
        """A JWT of the Go library is read with all that it says."""
        claims = UserClaims.decode(KNOWN["user"])
        assert claims.terms == UserPermissionLimits(
            PermissionClaims(("a", "b.>"), (), ("c q.*",)),
            ("10.0.0.0/8", "2001:db8::/32"),
            (("08:00:00", "16:30:00"),),
            "Europe/Berlin",
            -1,
            -1,
            512,
            True,
            False,
            ("STANDARD",),
        )
        assert claims.tags == ("region:eu", "x")
        assert claims.account == claims.issuerAccount != claims.token.issuer

    def test_scoped(self) -> None:
        """The JWT of a user of a scoped signer says nothing about it."""
        assert UserClaims.decode(KNOWN["scoped"]).terms == UserPermissionLimits()

    def test_versionOne(self) -> None:
        """In version 1, limits that are not there are none, and the account stands elsewhere."""
        nats = {"sub": {"allow": ["a"]}, "payload": 5, "src": "10.0.0.0/8"}
        text = oldToken("user", ACCOUNT.signing, USER.key, nats, issuer_account=ACCOUNT.key)
        claims = UserClaims.decode(text)
        assert claims.account == ACCOUNT.key and claims.terms.rules.subscribeAllow == ("a",)
        assert (claims.terms.subscriptions, claims.terms.payload) == (NO_LIMIT, 5)
        assert claims.terms.sources == ("10.0.0.0/8",)

    def test_account(self) -> None:
        """Without C{issuer_account} the issuer is the account."""
        assert UserClaims.decode(ACCOUNT.user(USER)).account == ACCOUNT.key

    @pytest.mark.parametrize(
        "nats",
        [
            {"issuer_account": "x"},
            {"issuer_account": USER.key},
            {"pub": {"allow": [" "]}},
            {"sub": {"deny": [""]}},
            {"src": ["nowhere"]},
            {"src": 1},
            {"times": [{"start": "x", "end": "y"}]},
            {"times": [{}]},
            {"times": [None]},
            {"times_location": "Nowhere"},
            {"subs": "1"},
            {"payload": 2**63},
            {"bearer_token": "yes"},
            {"tags": "x"},
            {"resp": [1]},
            {"pub": "a"},
        ],
    )
    def test_nonsense(self, nats: dict[str, Any]) -> None:
        """Claims that make no sense refuse the user."""
        with pytest.raises(FieldError):
            UserClaims.decode(ACCOUNT.user(USER, nats))

    @pytest.mark.parametrize("subject", ["", "x", ACCOUNT.key, USER.key[:-1], USER.key.lower()])
    def test_subjects(self, subject: str) -> None:
        """The subject must be a user's key."""
        with pytest.raises(FieldError):
            UserClaims.decode(token(ACCOUNT, claimsOf("user", ACCOUNT, subject, {})))

    @pytest.mark.parametrize("name", NAMES.elements)  # type: ignore[attr-defined]
    @pytest.mark.parametrize(
        "value", [None, ..., [], {}, 1, -1, "", "x", True, [None], {"a": None}]
    )
    def test_everyClaim(self, name: str, value: Any) -> None:
        """Every claim may be absent or of any type without an exception (CVE-2020-26521)."""
        body = claimsOf("user", ACCOUNT, USER.key, {})
        if value is not ...:
            body["nats"][name] = value
        try:
            UserClaims.decode(token(ACCOUNT, body))
        except FieldError:
            pass

    @given(st.dictionaries(NAMES, VALUES))
    def test_anyClaims(self, nats: dict[str, Any]) -> None:
        """No signed claims make anything but a user or a refusal."""
        body = claimsOf("user", ACCOUNT, USER.key, json.loads(json.dumps(nats)))
        try:
            UserClaims.decode(token(ACCOUNT, body))
        except FieldError:
            pass
