"""
Operators, accounts and users for the rows about JWT logins.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

#: The first byte of a public nkey, by role: what base32 shows as O, A and U.
ROLES = {"operator": 14 << 3, "account": 0, "user": 20 << 3}


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@dataclass
class Identity:
    """A key pair with a role."""

    role: str
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def name(self) -> str:
        """The public key as an nkey."""
        raw = bytes([ROLES[self.role]]) + self.key.public_key().public_bytes_raw()
        check = binascii.crc_hqx(raw, 0).to_bytes(2, "little")
        return base64.b32encode(raw + check).decode().rstrip("=")

    def sign(self, subject: Identity, claims: dict[str, Any], lifetime: float = 0) -> str:
        """
        @param subject: the subject of the token.
        @param lifetime: in seconds from now; 0 for ever.
        @return: a token.
        """
        now = int(time.time())
        body: dict[str, Any] = {
            "jti": subject.name,
            "iat": now,
            "iss": self.name,
            "sub": subject.name,
            "name": subject.role,
            "nats": {"type": subject.role, "version": 2, **claims},
        }
        if lifetime:
            body["exp"] = now + int(lifetime)
        header = {"typ": "JWT", "alg": "ed25519-nkey"}
        text = ".".join(_base64(json.dumps(part).encode()) for part in (header, body))
        return f"{text}.{_base64(self.key.sign(text.encode()))}"
