"""
The JWT of an operator, and all operators that a broker trusts.

Who may sign accounts is exactly what the operators' JWTs say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from natsbroker.auth.fields import FieldError
from natsbroker.auth.nkeys import Role, isKey
from natsbroker.auth.operator.tokens import SignedJWT, decodeToken

__all__ = ["OperatorClaims", "TrustedKeys", "undecorated"]

_DECORATED = re.compile(r"\s*-{3,}[^\n]*-{3,}\r?\n([\w\-.=]+)\r?\n-{3,}[^\n]*-{3,}(?:\r?\n|\Z)")


def undecorated(text: str) -> str:
    """
    The JWT in the text of a file, which may stand between lines that begin and end it.
    """
    found = _DECORATED.search(text)
    return found[1] if found else text.strip()


@dataclass(frozen=True, slots=True)
class OperatorClaims:
    """
    What an operator says about itself.

    @ivar token: the JWT.
    @ivar signingKeys: who may sign for it.
    @ivar systemAccount: the public key of the system account; empty if it names none.
    @ivar accountServer: the URL below which its accounts' JWTs can be had; empty for none.
    @ivar serverVersion: the oldest server that may serve it, as three numbers.
    @ivar isStrict: whether accounts must be signed by its signing keys, and not by its own.
    """

    token: SignedJWT
    signingKeys: tuple[str, ...]
    systemAccount: str
    accountServer: str
    serverVersion: tuple[int, int, int]
    isStrict: bool

    @classmethod
    def decode(cls, text: str) -> OperatorClaims:
        """
        Read a JWT.

        @raise FieldError: if it is not an operator's, or makes no sense.
        """
        token = decodeToken(text, "operator")
        nats = token.nats
        claims = cls(
            token,
            nats.texts("signing_keys"),
            nats.text("system_account"),
            nats.text("account_server_url"),
            _version(nats.text("assert_server_version")),
            nats.flag("strict_signing_key_usage"),
        )
        for key in (token.subject, *claims.signingKeys):
            if not isKey(key, Role.OPERATOR):
                raise FieldError("not an operator's public key")
        if claims.systemAccount and not isKey(claims.systemAccount, Role.ACCOUNT):
            raise FieldError("system_account is not an account's public key")
        return claims


def _version(text: str) -> tuple[int, int, int]:
    if not text:
        return 0, 0, 0
    found = re.fullmatch(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text, re.ASCII)
    if found is None:
        raise FieldError("assert_server_version is not three numbers")
    return int(found[1]), int(found[2]), int(found[3])


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """
    Whose signature on an account's JWT counts.

    @ivar keys: the public keys of operators and of their signing keys.
    @ivar strictKeys: those whose accounts may not sign users with their own keys.
    """

    keys: frozenset[str]
    strictKeys: frozenset[str] = frozenset()

    @classmethod
    def of(cls, operators: Iterable[OperatorClaims]) -> TrustedKeys:
        """
        What some operators' JWTs say.
        """
        keys: set[str] = set()
        strict: set[str] = set()
        for operator in operators:
            keys.update(operator.signingKeys)
            if operator.isStrict:
                strict.update(operator.signingKeys)
            else:
                keys.add(operator.token.subject)
        return cls(frozenset(keys), frozenset(strict))
