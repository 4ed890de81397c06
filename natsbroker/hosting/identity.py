"""
Who a broker is: its id and the versions that it announces.

Promises: an id looks like a real server's, the public half of an nkey of kind server, and is
another one at each start.
Must never know: settings, connections, or what the id is shown in.
"""

from __future__ import annotations

import base64
import binascii

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

__all__ = ["NATS_VERSION", "newServerId", "serverIdFor"]

#: The release of nats-server whose behaviour we match, as INFO and C{/varz} show it in C{version}:
#: clients switch features off for less. Our own version stands in a field of its own.
NATS_VERSION = "2.15.1"

#: The first byte of an nkey of kind server; it makes the text begin with N.
_SERVER = bytes([13 << 3])


def newServerId() -> str:
    """
    An id for a broker that starts: the public half of a new key pair, of which nobody keeps the
    other half.
    """
    key = Ed25519PrivateKey.generate().public_key()
    return serverIdFor(key.public_bytes(Encoding.Raw, PublicFormat.Raw))


def serverIdFor(publicKey: bytes) -> str:
    """
    The nkey text of a server's public key: base 32 of the kind, the key, and both's CRC-16
    (CCITT, low byte first).

    @param publicKey: the 32 bytes of an Ed25519 public key.
    @return: C{N} and 55 more characters.
    """
    body = _SERVER + publicKey
    checksum = binascii.crc_hqx(body, 0).to_bytes(2, "little")
    return base64.b32encode(body + checksum).rstrip(b"=").decode("ascii")
