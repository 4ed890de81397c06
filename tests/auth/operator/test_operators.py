"""
Tests of L{natsbroker.auth.operator.operators}.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.operators import OperatorClaims, TrustedKeys, operatorsIn, undecorated
from natsbroker.config.model import OperatorMode, Resolver, Settings
from natsbroker.server.composition import withOperators
from tests.auth.operator.chain import Account, KeyPair, Operator, claimsOf, credentialsFile, token
from tests.auth.operator.claimvalues import KNOWN
from tests.server.support import settingsOf


class TestOperatorClaims:
    """The JWT of an operator."""

    def test_goLibrary(self) -> None:
        """A JWT of the Go library is read with all its fields."""
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
    def test_invalidClaims(self, nats: dict[str, Any]) -> None:
        """A JWT of an operator with invalid claims is refused."""
        with pytest.raises(FieldError):
            OperatorClaims.decode(Operator().jwt(nats))

    def test_subject(self) -> None:
        """The subject of an operator's JWT must be the key of an operator."""
        operator = Operator()
        with pytest.raises(FieldError):
            body = claimsOf("operator", operator, Account(operator).key, {})
            OperatorClaims.decode(token(operator, body))


class TestTrust:
    """Keys that may sign accounts."""

    def test_everyKey(self) -> None:
        """An operator's own key and its signing keys may sign accounts."""
        one, two = Operator(), Operator()
        trust = TrustedKeys.of(OperatorClaims.decode(operator.jwt()) for operator in (one, two))
        assert trust.keys == {one.key, one.signing.key, two.key, two.signing.key}
        assert not trust.strictKeys

    def test_strictOperator(self) -> None:
        """The own key of a strict operator may not sign accounts."""
        operator = Operator()
        text = operator.jwt({"strict_signing_key_usage": True})
        trust = TrustedKeys.of([OperatorClaims.decode(text)])
        assert trust.keys == trust.strictKeys == {operator.signing.key}


class TestFiles:
    """JWTs in files."""

    def test_decorated(self) -> None:
        """The first JWT between marker lines is taken."""
        user = KeyPair("U")
        assert undecorated(credentialsFile("a.b-_.c", user)) == "a.b-_.c"
        text = credentialsFile("a.b.c", user).replace("\n", "\r\n")
        assert undecorated(text) == "a.b.c"

    def test_bareToken(self) -> None:
        """A text without marker lines is the JWT, except for surrounding blanks."""
        assert undecorated(" a.b.c \n") == "a.b.c"


OPERATOR, OTHER = Operator(), Operator()
ONE, TWO = Account(OPERATOR), Account(OPERATOR)
USER = KeyPair("U")
MEMORY = "resolver: MEM\n"


class TestOperators:
    """Requirements of operators."""

    def test_trust(self) -> None:
        """The keys and signing keys of operators are trusted."""
        text = f"operators: [{OPERATOR.jwt()}, {OTHER.jwt()}]\n{MEMORY}"
        expected = {OPERATOR.key, OPERATOR.signing.key, OTHER.key, OTHER.signing.key}
        assert operatorsIn(settingsOf(text)).trust.keys == expected

    def test_trustedKeys(self) -> None:
        """Operators may be configured by their keys, without JWTs."""
        operators = operatorsIn(settingsOf(f"trusted_keys: [{OPERATOR.key}]\n{MEMORY}"))
        assert operators.trust.keys == {OPERATOR.key}
        assert operators.systemAccount == "$SYS"

    def test_decorated(self) -> None:
        """The JWT in a file may be between marker lines."""
        begin, end = "-----BEGIN NATS OPERATOR JWT-----", "------END NATS OPERATOR JWT------"
        mode = OperatorMode((f"{begin}\n{OPERATOR.jwt()}\n{end}\n",), resolver=Resolver("memory"))
        assert OPERATOR.key in operatorsIn(Settings(operator=mode)).trust.keys

    def test_accountServer(self) -> None:
        """
        The operator's JWT may give the address of its account server, and the configuration
        overrides it.
        """
        text = f"operator: {OPERATOR.jwt({'account_server_url': 'http://a:1/jwt/v1'})}\n"
        resolver = operatorsIn(settingsOf(text)).resolver
        assert resolver == Resolver("url", "http://a:1/jwt/v1/accounts/")
        assert operatorsIn(settingsOf(text + MEMORY)).resolver == Resolver("memory")

    def test_systemAccount(self) -> None:
        """The system account may be named by the operator's JWT or by the configuration."""
        named = OPERATOR.jwt({"system_account": ONE.key})
        preload = f"resolver_preload {{ {ONE.key}: {ONE.jwt()} }}\n"
        for text in (
            f"operator: {named}\n",
            f"operator: {OPERATOR.jwt()}\nsystem_account: {ONE.key}\n",
            f"operator: {named}\nsystem_account: {ONE.key}\n",
        ):
            assert withOperators(settingsOf(text + MEMORY + preload)).system_account == ONE.key

    def test_withoutOperators(self) -> None:
        """Settings without operators are left unchanged."""
        settings = settingsOf("port: 4222")
        assert withOperators(settings) is settings


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("operator: eyJ", "error parsing operator JWT"),
        (f"operator: {ONE.jwt()}\nresolver: MEM", "error parsing operator JWT"),
        (f"operator: {OPERATOR.jwt()}", "operators require an account resolver to be configured"),
        (
            f"operator: {OPERATOR.jwt({'assert_server_version': '3.0.0'})}\nresolver: MEM",
            "expected major version 3 > server major version 2",
        ),
        (
            f"operator: {OPERATOR.jwt({'assert_server_version': '2.99.0'})}\nresolver: MEM",
            "expected minor version 99 > server minor version 15",
        ),
        (
            f"operator: {OPERATOR.jwt({'assert_server_version': '2.15.9'})}\nresolver: MEM",
            "expected update version 9 > server update version 1",
        ),
        (
            f"operator: {OPERATOR.jwt({'system_account': ONE.key})}\nresolver: MEM\n"
            f"system_account: {TWO.key}",
            "system_account in config and operator JWT must be identical",
        ),
        (
            f"operator: {OPERATOR.jwt({'system_account': ONE.key})}\nresolver: MEM",
            "error resolving system account: account missing",
        ),
        (
            f"operator: {OPERATOR.jwt()}\nresolver {{ type: full, dir: /nowhere }}",
            "the system account needs to be specified",
        ),
        (
            f"operator: {OPERATOR.jwt()}\nresolver: MEM\nresolver_preload {{ {ONE.key}: x }}",
            "preload account error",
        ),
        (
            f"operator: {OPERATOR.jwt()}\nresolver: MEM\n"
            f"resolver_preload {{ {ONE.key}: {TWO.jwt()} }}",
            "about another account",
        ),
        (
            f"operator: {OPERATOR.jwt()}\nresolver: MEM\ndefault_sentinel: x",
            "default sentinel JWT not valid",
        ),
        (
            f"operator: {OPERATOR.jwt()}\nresolver: MEM\ndefault_sentinel: {ONE.user(USER)}",
            "default sentinel must be a bearer token",
        ),
    ],
)
def test_mistakes(text: str, complaint: str) -> None:
    """Settings that do not fit the operators are refused with nats-server's errors."""
    with pytest.raises(ValueError, match=complaint):
        operatorsIn(settingsOf(text))
