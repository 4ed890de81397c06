"""
Tests of L{natsbroker.auth.operator.accountclaims}.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.callout.xkeys import CurveKeys
from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.accountclaims import (
    EVERYBODY,
    AccountClaims,
    ExternalAuthorization,
    OperatorLimits,
)
from natsbroker.auth.operator.userclaims import NO_LIMIT, PermissionClaims
from natsbroker.config.settings.accounts import MappingDestination, SubjectMapping
from natsbroker.config.settings.authorization import MessageTraces
from tests.auth.operator.chain import Account, KeyPair, Operator, claimsOf, oldToken, token
from tests.auth.operator.claimvalues import KNOWN, VALUES

OPERATOR = Operator()
ACCOUNT, USER = Account(OPERATOR), KeyPair("U")

NAMES = st.sampled_from(
    [
        "limits",
        "signing_keys",
        "revocations",
        "default_permissions",
        "authorization",
        "exports",
        "imports",
        "mappings",
        "tags",
        "trace",
        "cluster_traffic",
    ]
)


class TestAccountClaims:
    """The JWT of an account."""

    def test_goLibrary(self) -> None:
        """A JWT of the Go library is read with all its fields."""
        claims = AccountClaims.decode(KNOWN["account"])
        assert claims.tags == ("team:blue",)
        assert claims.terms == OperatorLimits(10, NO_LIMIT, 20, 1024, True)
        assert claims.defaults == PermissionClaims(publishDeny=("no",))
        assert list(claims.revocations.values()) == [500, 1000]
        plain, scoped = sorted(claims.signers.items(), key=lambda item: item[1] is not None)
        assert plain[1] is None
        template = scoped[1]
        assert template is not None and template.subscriptions == 5
        assert (template.data, template.payload) == (NO_LIMIT, NO_LIMIT)
        assert template.rules == PermissionClaims(
            ("work.{{name()}}",), (), (), ("secret.> q",), (3, 60_000_000_000)
        )
        assert [export.export.subject for export in claims.exports] == ["svc.*"]
        assert [imported.activation is not None for imported in claims.imports] == [True]
        assert claims.mappings == (
            SubjectMapping(
                "m.*", (MappingDestination("n.$1", 40), MappingDestination("o.$1", 60, "c"))
            ),
        )
        assert claims.external.accounts == (EVERYBODY,)

    @pytest.mark.parametrize(
        ("limits", "isThere"),
        [
            ({}, False),
            ({"mem_storage": 0, "disk_storage": 0}, False),
            ({"mem_storage": -1}, True),
            ({"disk_storage": 1024}, True),
            ({"tiered_limits": {"R1": {"disk_storage": 1}}}, True),
        ],
    )
    def test_jetstream(self, limits: dict[str, Any], isThere: bool) -> None:
        """An account has JetStream if its storage limits allow any storage."""
        claims = AccountClaims.decode(ACCOUNT.jwt(limits=limits))
        assert claims.terms.jetstream is claims.exchanges is isThere

    def test_versionOne(self) -> None:
        """A limit that is missing in a version 1 JWT of an account is zero."""
        nats = {"limits": {"conn": 4, "subs": -1}, "signing_keys": [ACCOUNT.signing.key]}
        claims = AccountClaims.decode(oldToken("account", OPERATOR, ACCOUNT.key, nats))
        assert claims.terms == OperatorLimits(4, 0, NO_LIMIT, 0)
        assert dict(claims.signers) == {ACCOUNT.signing.key: None}

    def test_jetStreamLimits(self) -> None:
        """JetStream limits of a JWT get the names that the account information uses."""
        limits = {
            "mem_storage": 1,
            "disk_storage": -1,
            "streams": 3,
            "consumer": 4,
            "max_bytes_required": True,
            "disk_max_stream_bytes": 5,
        }
        terms = AccountClaims.decode(ACCOUNT.jwt(limits=limits)).terms
        assert terms.jetstreamTiers == {}
        expected = {
            "max_memory": 1,
            "max_storage": -1,
            "max_streams": 3,
            "max_consumers": 4,
            "max_ack_pending": -1,
            "memory_max_stream_bytes": -1,
            "storage_max_stream_bytes": 5,
            "max_bytes_required": True,
        }
        assert terms.jetstreamLimits == expected
        terms = AccountClaims.decode(ACCOUNT.jwt(limits={"tiered_limits": {"R1": limits}})).terms
        assert (terms.jetstreamLimits, terms.jetstreamTiers) == ({}, {"R1": expected})

    def test_missingLimits(self) -> None:
        """A limit that the operator does not set allows nothing, as in nats-server."""
        body = claimsOf("account", OPERATOR, ACCOUNT.key, {})
        claims = AccountClaims.decode(token(OPERATOR, body))
        assert claims.terms == OperatorLimits(0, 0, 0, 0)

    @pytest.mark.parametrize(
        ("value", "meant"),
        [
            *((number, number) for number in (2**31, 2**40, 2**63 - 1, NO_LIMIT)),
            *((number, 0) for number in (0, -2, -(2**33), -(2**63))),
        ],
    )
    def test_numbers(self, value: int, meant: int) -> None:
        """
        Limits of 64 bits keep their value. Only -1 means unlimited. Other negative limits allow
        nothing, as with nats-server.
        """
        claims = AccountClaims.decode(ACCOUNT.jwt(limits={"conn": value, "subs": value}))
        assert claims.terms.connections == claims.terms.subscriptions == meant

    @pytest.mark.parametrize(
        ("revocations", "issuedAt", "revoked"),
        [
            ({}, 5, False),
            ({USER.key: 5}, 5, True),
            ({USER.key: 5}, 4, True),
            ({USER.key: 5}, 6, False),
            ({KeyPair("U").key: 5}, 5, False),
            ({EVERYBODY: 5}, 5, True),
            ({EVERYBODY: 5}, 6, False),
            ({EVERYBODY: 3, USER.key: 5}, 4, True),
            ({EVERYBODY: 5, USER.key: 3}, 4, True),
            ({USER.key: 0}, 0, True),
        ],
    )
    def test_revocations(self, revocations: dict[str, int], issuedAt: int, revoked: bool) -> None:
        """A JWT issued before or at the moment of a revocation is revoked (CVE-2020-26892)."""
        claims = AccountClaims.decode(ACCOUNT.jwt({"revocations": revocations}))
        assert claims.isRevoked(USER.key, issuedAt) is revoked

    def test_external(self) -> None:
        """The auth callout of an account's JWT is read."""
        xkey = CurveKeys().publicKey
        given = {"auth_users": [USER.key], "allowed_accounts": [ACCOUNT.key], "xkey": xkey}
        external = AccountClaims.decode(ACCOUNT.jwt({"authorization": given})).external
        assert external == ExternalAuthorization((USER.key,), (ACCOUNT.key,), xkey)
        assert external.allows(ACCOUNT.key) and not external.allows(Account(OPERATOR).key)
        assert ExternalAuthorization((USER.key,), (EVERYBODY,)).allows("anything")
        assert not ExternalAuthorization((USER.key,), (EVERYBODY, ACCOUNT.key)).allows("anything")

    @pytest.mark.parametrize(
        "nats",
        [
            {"signing_keys": ["x"]},
            {"signing_keys": [USER.key]},
            {"signing_keys": [{"kind": "user_scope"}]},
            {"signing_keys": [{"kind": "other", "key": ACCOUNT.signing.key}]},
            {"signing_keys": [{"key": ACCOUNT.signing.key}]},
            {"signing_keys": [None]},
            {"revocations": {"*": "now"}},
            {"default_permissions": {"pub": {"allow": [" "]}}},
            {"authorization": {"allowed_accounts": [ACCOUNT.key]}},
            {"authorization": {"auth_users": [ACCOUNT.key]}},
            {"authorization": {"auth_users": [USER.key], "allowed_accounts": ["x"]}},
            {"authorization": {"auth_users": [USER.key], "allowed_accounts": ["*", ACCOUNT.key]}},
            {"authorization": {"auth_users": [USER.key], "xkey": USER.key}},
            {"exports": [{"subject": "a"}]},
            {"imports": [{"subject": "a", "type": "stream"}]},
            {"limits": []},
            {"limits": {"conn": "1"}},
        ],
    )
    def test_invalidClaims(self, nats: dict[str, Any]) -> None:
        """A JWT with invalid claims is refused."""
        with pytest.raises(FieldError):
            AccountClaims.decode(ACCOUNT.jwt(nats))

    @pytest.mark.parametrize("subject", ["", "x", "..", "/..", "../../x", USER.key, OPERATOR.key])
    def test_subjects(self, subject: str) -> None:
        """The subject of an account's JWT must be the key of an account."""
        with pytest.raises(FieldError):
            AccountClaims.decode(token(OPERATOR, claimsOf("account", OPERATOR, subject, {})))

    @pytest.mark.parametrize(
        ("trace", "sampling"),
        [({}, 100), ({"sampling": 0}, 100), ({"sampling": 1}, 1), ({"sampling": 100}, 100)],
    )
    def test_trace(self, trace: dict[str, Any], sampling: int) -> None:
        """
        The trace destination of a JWT is read. All messages are traced unless the JWT gives a
        percentage.
        """
        claims = AccountClaims.decode(ACCOUNT.jwt({"trace": {"dest": "t.x", **trace}}))
        assert claims.trace == MessageTraces("t.x", sampling)
        assert claims.exchanges

    @pytest.mark.parametrize(
        ("trace", "why"),
        [
            ({}, "Trace.Destination subject cannot be empty"),
            ({"dest": "t x"}, 'Trace.Destination subject "t x" cannot have spaces'),
            ({"dest": ".x"}, 'Trace.Destination subject ".x" cannot start or end with a `.`'),
            ({"dest": "t..x"}, 'Trace.Destination subject "t..x" cannot contain consecutive `.`'),
            ({"dest": "t.*"}, 'Trace.Destination subject "t.*" is not a valid publish subject'),
            (
                {"dest": "t", "sampling": 101},
                "Trace.Sampling value '101' is not valid, should be in the range [1..100]",
            ),
            (
                {"dest": "t", "sampling": -1},
                "Trace.Sampling value '-1' is not valid, should be in the range [1..100]",
            ),
        ],
    )
    def test_wrongTrace(self, trace: dict[str, Any], why: str) -> None:
        """A malformed trace destination is refused with nats-server's error."""
        with pytest.raises(FieldError) as refused:
            AccountClaims.decode(ACCOUNT.jwt({"trace": trace}))
        assert str(refused.value) == f"the account {why}"

    def test_moreThanTheOperatorAllows(self) -> None:
        """
        An account with more exports or imports than allowed, or with wildcards in them, is refused.
        """
        exports = [{"subject": "a.*", "type": "stream"}, {"subject": "b", "type": "stream"}]
        imports = [{"subject": "a", "type": "stream", "account": Account(OPERATOR).key}]
        AccountClaims.decode(ACCOUNT.jwt({"exports": exports}, limits={"exports": 2}))
        for nats, limits in (
            ({"exports": exports}, {"exports": 1}),
            ({"exports": exports}, {"exports": 2, "wildcards": False}),
            ({"imports": imports}, {"imports": 0}),
        ):
            with pytest.raises(FieldError):
                AccountClaims.decode(ACCOUNT.jwt(nats, limits=limits))

    @given(st.dictionaries(NAMES, VALUES))
    def test_anyClaims(self, nats: dict[str, Any]) -> None:
        """Any signed claims either describe an account or are refused."""
        body = claimsOf("account", OPERATOR, ACCOUNT.key, nats)
        try:
            AccountClaims.decode(token(OPERATOR, body))
        except FieldError:
            pass
