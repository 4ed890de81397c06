"""
The requests of a server to an auth callout service, as such services read them, and the answers.

No code of the product reads or makes them: JWTs are parsed and signed with other libraries, and
encryption is that of NaCl.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from nacl.public import Box, PrivateKey, PublicKey

from tests.auth.operator.chain import KeyPair, claimsOf, token

__all__ = ["Curve", "Question", "claimsIn"]

_CURVE = bytes([23 << 3])


def claimsIn(text: str) -> dict[str, Any]:
    """
    The claims of a JWT, unverified.
    """
    payload = text.split(".")[1]
    document: dict[str, Any] = json.loads(
        base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    )
    return document


class Curve:
    """
    A key pair for sealing.

    @ivar key: the public key, as text.
    """

    def __init__(self) -> None:
        self._secret = PrivateKey.generate()
        body = _CURVE + bytes(self._secret.public_key)
        checksum = _crc16(body).to_bytes(2, "little")
        self.key = base64.b32encode(body + checksum).decode()

    def open(self, data: bytes, sender: str) -> bytes:
        """Open a sealed text of a sender."""
        assert data[:4] == b"xkv1"
        return bytes(self._box(sender).decrypt(data[28:], data[4:28]))

    def seal(self, data: bytes, recipient: str) -> bytes:
        """Seal a text for a recipient."""
        nonce = os.urandom(24)
        return b"xkv1" + bytes(self._box(recipient).encrypt(data, nonce))

    def _box(self, other: str) -> Box:
        return Box(self._secret, PublicKey(base64.b32decode(other)[1:33]))


def _crc16(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


class Question:
    """
    A request of a server.

    @ivar claims: the claims of its JWT.
    @ivar headers: the headers of its message.
    @ivar sender: the public key of the sender.
    @ivar sealed: whether the request was sealed.
    """

    def __init__(self, data: bytes, headers: Mapping[str, str], curve: Curve | None) -> None:
        self.headers = headers
        self.sender = headers.get("Nats-Server-Xkey", "")
        self.sealed = not data.startswith(b"eyJ")
        if self.sealed and curve is not None:
            data = curve.open(data, self.sender)
        self.text = data.decode()
        self.claims = claimsIn(self.text)
        self.nats: dict[str, Any] = self.claims["nats"]

    @property
    def options(self) -> dict[str, Any]:
        """The options of the client's CONNECT."""
        options: dict[str, Any] = self.nats["connect_opts"]
        return options

    def user(self, issuer: KeyPair, nats: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """The JWT of an accepted user."""
        limits = {"subs": -1, "data": -1, "payload": -1}
        body = {"pub": {}, "sub": {}, **limits, **(nats or {})}
        given = {"iat": int(time.time()), "name": "", **claims}
        return token(issuer, claimsOf("user", issuer, self.nats["user_nkey"], body, **given))

    def response(self, issuer: KeyPair, nats: Mapping[str, Any], **claims: Any) -> bytes:
        """
        An answer.

        @param nats: C{jwt} or C{error}.
        """
        given = {"aud": self.nats["server_id"]["id"], "iat": int(time.time()), **claims}
        subject = given.pop("sub", self.nats["user_nkey"])
        body = claimsOf("authorization_response", issuer, subject, nats, **given)
        return token(issuer, body).encode()
