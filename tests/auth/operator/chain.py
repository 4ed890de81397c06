"""
Operators, accounts and users with their JWTs, made as C{nsc} makes them, with the nkeys library.

A test may also ask for JWTs that no tool would make.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from typing import Any

import nkeys  # type: ignore[import-untyped]

__all__ = [
    "ANY",
    "UNLIMITED",
    "Account",
    "KeyPair",
    "Operator",
    "credentialsFile",
    "oldToken",
    "raw",
    "token",
]

#: Limits that limit nothing.
UNLIMITED = {"subs": -1, "data": -1, "payload": -1}

#: Limits of an account that limit nothing.
ANY = {**UNLIMITED, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}

_ROLES = {
    "O": nkeys.PREFIX_BYTE_OPERATOR,
    "A": nkeys.PREFIX_BYTE_ACCOUNT,
    "U": nkeys.PREFIX_BYTE_USER,
    "N": nkeys.PREFIX_BYTE_SERVER,
}


def raw(data: bytes) -> str:
    """
    Base64 as JWTs have it.
    """
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class KeyPair:
    """
    A key pair.

    @ivar seed: the seed, as text.
    @ivar key: the public key, as text.
    """

    def __init__(self, letter: str) -> None:
        """
        @param letter: the first letter of the public key.
        """
        self.seed: bytes = nkeys.encode_seed(os.urandom(32), _ROLES[letter])
        self._pair = nkeys.from_seed(self.seed)
        self.key: str = self._pair.public_key.decode()

    def sign(self, data: bytes) -> bytes:
        """
        The signature of some bytes.
        """
        signature: bytes = self._pair.sign(data)
        return signature


def token(
    signer: KeyPair,
    claims: Mapping[str, Any] | bytes,
    header: Mapping[str, Any] | bytes | None = None,
) -> str:
    """
    A signed JWT with exactly these claims, or this text of them.
    """
    if header is None:
        header = {"typ": "JWT", "alg": "ed25519-nkey"}
    parts = [
        raw(part if isinstance(part, bytes) else json.dumps(part).encode())
        for part in (header, claims)
    ]
    signed = ".".join(parts)
    return f"{signed}.{raw(signer.sign(signed.encode()))}"


def claimsOf(
    kind: str, issuer: KeyPair, subject: str, nats: Mapping[str, Any], **claims: Any
) -> dict[str, Any]:
    """The claims of a JWT, version 2."""
    body = {"jti": "X", "iat": 1_600_000_000, "iss": issuer.key, "sub": subject, "name": "someone"}
    return {**body, **claims, "nats": {**nats, "type": kind, "version": 2}}


def oldToken(
    kind: str, issuer: KeyPair, subject: str, nats: Mapping[str, Any], **claims: Any
) -> str:
    """A JWT of version 1: its kind is beside C{nats}, and the signature leaves out the header."""
    body = {"jti": "X", "iat": 1_600_000_000, "iss": issuer.key, "sub": subject, "type": kind}
    header = raw(json.dumps({"typ": "jwt", "alg": "ed25519"}).encode())
    payload = raw(json.dumps({**body, **claims, "nats": nats}).encode())
    return f"{header}.{payload}.{raw(issuer.sign(payload.encode()))}"


class Operator(KeyPair):
    """
    An operator.

    @ivar signing: one of its signing keys.
    """

    def __init__(self) -> None:
        super().__init__("O")
        self.signing = KeyPair("O")

    def jwt(self, nats: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """The JWT of the operator, which it signs itself."""
        given = {"signing_keys": [self.signing.key], **(nats or {})}
        return token(self, claimsOf("operator", self, self.key, given, **claims))


class Account(KeyPair):
    """
    An account.

    @ivar operator: the operator of the account.
    @ivar signing: one of its signing keys.
    """

    def __init__(self, operator: Operator) -> None:
        super().__init__("A")
        self.operator = operator
        self.signing = KeyPair("A")

    def jwt(
        self,
        nats: Mapping[str, Any] | None = None,
        signer: KeyPair | None = None,
        limits: Mapping[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """
        The JWT of the account.

        @param signer: the operator by default.
        @param limits: limits that replace the unlimited ones.
        """
        issuer = signer or self.operator
        given = {
            "limits": {**ANY, **(limits or {})},
            "signing_keys": [self.signing.key],
            "default_permissions": {"pub": {}, "sub": {}},
            **(nats or {}),
        }
        return token(issuer, claimsOf("account", issuer, self.key, given, **claims))

    def user(
        self,
        user: KeyPair,
        nats: Mapping[str, Any] | None = None,
        signer: KeyPair | None = None,
        **claims: Any,
    ) -> str:
        """
        The JWT of a user of the account.

        @param signer: the account by default. With a signing key, the JWT names the account.
        """
        issuer = signer or self
        given: dict[str, Any] = {"pub": {}, "sub": {}, **UNLIMITED}
        if signer is not None:
            given["issuer_account"] = self.key
        body = {
            name: value for name, value in {**given, **(nats or {})}.items() if value is not None
        }
        return token(issuer, claimsOf("user", issuer, user.key, body, **claims))

    def scopedUser(
        self, user: KeyPair, signer: KeyPair, nats: Mapping[str, Any] | None = None, **claims: Any
    ) -> str:
        """The JWT of a user who has the permissions of the scoped signing key."""
        body = {"issuer_account": self.key, **(nats or {})}
        return token(signer, claimsOf("user", signer, user.key, body, **claims))


def credentialsFile(jwt: str, user: KeyPair) -> str:
    """
    The text of a credentials file.
    """
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n"
        "NKEY Seed printed below can be used to sign and prove identity.\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )
