"""
The JWTs of NATS, each signed by the key that it names as issuer.

Ed25519 is the only algorithm (C{ed25519-nkey}; C{ed25519} in version 1); nothing in the header
selects a key or an algorithm. The issuer's role must allow this kind of claims. Whether an issuer
is trusted is decided elsewhere. Any text raises at most L{FieldError}.

Version 1 has kind, tags and issuing account beside C{nats}, and its signature does not cover the
header. It is read as nats-server 2.15 does: as version 2 with the claims that version 1 had.
Stricter than nats-server 2.15, on purpose: texts that are not canonical base64 are refused.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from natsbroker.auth.fields import FieldError, Fields
from natsbroker.auth.nkeys import Signer, decodeRaw, encodeRaw, isSignature
from natsbroker.wire.nkeys import Role, decodeKey, isKey

#: The longest token that is read, in bytes (nats-server's limit).
LONGEST = 1 << 20

_ALGORITHM = "ed25519-nkey"
_OLD_ALGORITHM = "ed25519"
_VERSION = 2

#: The claims particular to NATS that version 1 had, by kind.
_OLD_CLAIMS = {
    "operator": frozenset({"signing_keys", "account_server_url", "system_account"}),
    "account": frozenset({"imports", "exports", "signing_keys", "revocations"}),
    "user": frozenset(
        {
            *("pub", "sub", "resp", "src", "times", "times_location"),
            *("subs", "data", "payload", "bearer_token"),
        }
    ),
    "activation": frozenset({"subject"}),
}

#: The limits of accounts that version 1 had: none of JetStream.
_OLD_LIMITS = frozenset(
    {
        *("subs", "data", "payload", "imports", "exports"),
        *("wildcards", "conn", "leaf", "disallow_bearer"),
    }
)

#: Limits of activation tokens that version 1 had and no server applies any more.
_OBSOLETE_LIMITS = ("max", "payload", "src", "times")

#: The roles that may issue a kind of JWT.
_ISSUERS = {
    "operator": (Role.OPERATOR,),
    "account": (Role.OPERATOR, Role.ACCOUNT),
    "user": (Role.ACCOUNT,),
    "activation": (Role.ACCOUNT, Role.OPERATOR),
    "authorization_request": (Role.SERVER,),
    "authorization_response": (Role.ACCOUNT,),
}


@dataclass(frozen=True, slots=True)
class SignedJWT:
    """
    A JWT with a valid signature. Times are seconds since the epoch, 0 for none.

    @ivar isOld: whether it is of version 1.
    """

    text: str = field(repr=False)
    issuer: str
    subject: str
    audience: str
    name: str
    identifier: str
    issuedAt: int
    expires: int
    notBefore: int
    nats: Fields = field(repr=False)
    isOld: bool = False

    def isTimely(self, now: float) -> bool:
        """
        Whether it is valid now. As in nats-server, it is still valid in the second in which it
        expires.
        """
        second = int(now)
        isOver = self.expires != 0 and self.expires < second
        return not isOver and self.notBefore <= second


def decodeToken(text: str, kind: str) -> SignedJWT:
    """Read a JWT of a kind such as C{account} or C{user}; L{FieldError} if it is invalid."""
    token = decodeAny(text)
    if token.nats.text("type") != kind:
        raise FieldError(f"not a JWT of the kind {kind}")
    if not any(isKey(token.issuer, role) for role in _ISSUERS[kind]):
        raise FieldError(f"its issuer may not issue JWTs of the kind {kind}")
    return token


def decodeAny(text: str) -> SignedJWT:
    """Read a JWT of any kind and issuer; L{FieldError} if it is invalid."""
    if len(text) > LONGEST:
        raise FieldError("too long")
    parts = text.split(".")
    if len(parts) != 3:
        raise FieldError("not three parts between dots")
    try:
        header, payload, signature = map(decodeRaw, parts)
    except ValueError as error:
        raise FieldError("not base64") from error
    _checkHeader(Fields.parse(header))
    claims = Fields.parse(payload)
    isOld = bool(claims.text("type"))
    nats = _migrated(claims) if isOld else claims.block("nats")
    if nats is None or not (isOld or nats.integer("version") == _VERSION):
        raise FieldError("not of version 1 or 2")
    issuer = claims.text("iss")
    signed = parts[1] if isOld else text.rpartition(".")[0]
    if not isSignature(signature, signed.encode("ascii"), _keyOf(issuer)):
        raise FieldError("wrong signature")
    return SignedJWT(
        text,
        issuer,
        claims.text("sub"),
        claims.text("aud"),
        claims.text("name"),
        claims.text("jti"),
        claims.integer("iat"),
        claims.integer("exp"),
        claims.integer("nbf"),
        nats,
        isOld,
    )


def _migrated(claims: Fields) -> Fields:
    kind = claims.text("type")
    names = _OLD_CLAIMS.get(kind)
    if names is None:
        raise FieldError("not a kind of JWT that version 1 had")
    old = claims.block("nats") or Fields([])
    more: dict[str, Any] = {"type": kind, "tags": list(claims.texts("tags"))}
    if kind in ("user", "activation"):
        more["issuer_account"] = claims.text("issuer_account")
    if kind == "account":
        more["limits"] = (old.block("limits") or Fields([])).part(_OLD_LIMITS)
        more["signing_keys"] = list(old.texts("signing_keys"))
    if kind == "activation":
        if any(name in old for name in _OBSOLETE_LIMITS):
            raise FieldError("with limits that only version 1 had")
        more["kind"] = old.text("type")
    return old.part(names, **more)


def expiryIn(text: str) -> int:
    """The expiry in an unverified JWT; L{FieldError} if the text is not a JWT."""
    try:
        return Fields.parse(decodeRaw(text.split(".")[1])).integer("exp")
    except (IndexError, ValueError) as error:
        raise FieldError("not three parts between dots") from error


def _checkHeader(header: Fields) -> None:
    if header.text("typ").upper() != "JWT":
        raise FieldError("not a JWT")
    if header.text("alg").lower() not in (_ALGORITHM, _OLD_ALGORITHM):
        raise FieldError(f"not signed with {_ALGORITHM}")


def _keyOf(issuer: str) -> bytes:
    for role in Role:
        if role is not Role.CURVE and isKey(issuer, role):
            return decodeKey(issuer, role)
    raise FieldError("its issuer is not a public key")


def encodeToken(
    kind: str, subject: str, nats: Mapping[str, Any], signer: Signer, now: float, **claims: Any
) -> str:
    body: dict[str, Any] = {**claims, "iat": int(now), "iss": signer.publicKey, "sub": subject}
    body["jti"] = b32encode(hashlib.sha256(_json(body)).digest()).rstrip(b"=").decode("ascii")
    body["nats"] = {**nats, "type": kind, "version": _VERSION}
    header = {"typ": "JWT", "alg": _ALGORITHM}
    signed = f"{encodeRaw(_json(header))}.{encodeRaw(_json(body))}"
    return f"{signed}.{encodeRaw(signer.sign(signed.encode('ascii')))}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("utf-8")
