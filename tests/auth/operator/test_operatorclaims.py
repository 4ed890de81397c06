"""
Tests of L{natsbroker.auth.operator.operatorclaims}.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.operatorclaims import OperatorClaims, TrustedKeys, undecorated
from tests.auth.operator.chain import Account, KeyPair, Operator, claimsOf, credentialsFile, token
from tests.auth.operator.claimvalues import KNOWN


class TestOperatorClaims:
    """The JWT of an operator."""

    def test_known(self) -> None:
        """A JWT of the Go library is read with all that it says."""
        claims = OperatorClaims.decode(KNOWN["operator"])
        assert claims.accountServer == "https://example.com/jwt/v1"
        assert claims.serverVersion == (2, 9, 10)
        assert claims.isStrict
        assert len(claims.signingKeys) == 1
        assert claims.systemAccount.startswith("ADWUSKGG")

    @pytest.mark.parametrize(
        "nats",
        [
            {"signing_keys": ["x"]},
            {"signing_keys": [KeyPair("A").key]},
            {"system_account": "x"},
            {"system_account": KeyPair("O").key},
            {"assert_server_version": "2"},
            {"assert_server_version": "2.9"},
            {"assert_server_version": "2.9.x"},
            {"assert_server_version": "-2.9.1"},
            {"assert_server_version": 2},
        ],
    )
    def test_nonsense(self, nats: dict[str, Any]) -> None:
        """Claims that make no sense are refused."""
        with pytest.raises(FieldError):
            OperatorClaims.decode(Operator().jwt(nats))

    def test_subject(self) -> None:
        """The subject must be an operator's key."""
        operator = Operator()
        with pytest.raises(FieldError):
            body = claimsOf("operator", operator, Account(operator).key, {})
            OperatorClaims.decode(token(operator, body))


class TestTrust:
    """Who may sign accounts."""

    def test_everyKey(self) -> None:
        """An operator's own key and its signing keys count."""
        one, two = Operator(), Operator()
        trust = TrustedKeys.of(OperatorClaims.decode(each.jwt()) for each in (one, two))
        assert trust.keys == {one.key, one.signing.key, two.key, two.signing.key}
        assert not trust.strictKeys

    def test_strict(self) -> None:
        """The own key of a strict operator does not count."""
        operator = Operator()
        text = operator.jwt({"strict_signing_key_usage": True})
        trust = TrustedKeys.of([OperatorClaims.decode(text)])
        assert trust.keys == trust.strictKeys == {operator.signing.key}


class TestFiles:
    """JWTs in files."""

    def test_decorated(self) -> None:
        """The first JWT between lines of dashes is taken."""
        user = KeyPair("U")
        assert undecorated(credentialsFile("a.b-_.c", user)) == "a.b-_.c"
        text = credentialsFile("a.b.c", user).replace("\n", "\r\n")
        assert undecorated(text) == "a.b.c"

    def test_plain(self) -> None:
        """Without such lines, the whole is taken without blanks around it."""
        assert undecorated(" a.b.c \n") == "a.b.c"
