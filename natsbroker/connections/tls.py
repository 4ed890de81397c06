"""The terms of TLS on a listener, and a connection's version, cipher and certificates."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from zope.interface import implementer

from natsbroker.config.tls import TLSSettings
from natsbroker.connections.tlsrecords import SealedConnection
from natsbroker.wire.grants import Security

NOT_PINNED = "certificate not pinned"


def isPinned(certificate: Any, pins: frozenset[str]) -> bool:
    """
    Whether C{pins}, the lower-case hexadecimal SHA-256 of public keys, contain that of a
    certificate. Without pins, every certificate is pinned.
    """
    if certificate is None or not pins:
        return not pins
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(key).hexdigest() in pins


class Begin(Enum):
    """
    @cvar AFTER_INFO: after INFO, which is sent in the clear.
    @cvar FIRST: at once; INFO comes after it.
    @cvar FIRST_OR_INFO: at once if the client begins it; else, soon, as with C{AFTER_INFO}.
    @cvar BY_CLIENT: after INFO, which is sent in the clear, and only if the client's first byte
        begins TLS.
    @cvar BEFORE_US: the transport does it by itself, whatever the terms say.
    """

    AFTER_INFO = "after INFO"
    FIRST = "first"
    FIRST_OR_INFO = "first or after INFO"
    BY_CLIENT = "by the client"
    BEFORE_US = "before us"


@implementer(IOpenSSLServerConnectionCreator)
class ConnectionCreator:
    def __init__(self, context: SSL.Context) -> None:
        self._context = context

    @property
    def expiry(self) -> str:
        return expiryOf(self._context)

    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        connection = SealedConnection(self._context, None)
        client = getattr(tlsProtocol, "wrappedProtocol", None)
        if client is not None and hasattr(client, "connection"):
            client.connection = connection
        return connection


@dataclass(frozen=True, slots=True)
class TLSTerms:
    """
    TLS on a listener; C{optional} with C{Begin.FIRST_OR_INFO}. A reload replaces these terms as a
    whole.
    """

    creator: ConnectionCreator | None
    begin: Begin = Begin.AFTER_INFO
    settings: TLSSettings = field(default_factory=TLSSettings)
    optional: bool = False


#: OpenSSL's names of cipher suites before TLS 1.3, as far as we offer them.
_OLDER = re.compile(r"(ECDHE-(?:RSA|ECDSA))-(.*)")


def expiryOf(context: SSL.Context) -> str:
    """The time at which the shown certificate expires, as C{/varz} writes it; empty without one."""
    certificate = SSL.Connection(context, None).get_certificate()
    if certificate is None:
        return ""
    end = certificate.to_cryptography().not_valid_after_utc
    return f"{end:%Y-%m-%dT%H:%M:%SZ}"


def standardName(cipher: str) -> str:
    match = _OLDER.fullmatch(cipher)
    if match is None:
        return cipher
    rest = re.sub(r"AES(\d)", r"AES_\1", match[2]).replace("-", "_")
    if rest.endswith("POLY1305"):
        rest += "_SHA256"
    return f"TLS_{match[1].replace('-', '_')}_WITH_{rest}"


def securityOf(
    connection: SSL.Connection | None, certificate: Any, isFirst: bool = False
) -> Security:
    """
    The version, the cipher suite and the verified certificates of a connection. Names are those of
    the standard, as in nats-server.

    @param connection: the connection after the handshake; C{None} if the transport does not give
        it.
    @param isFirst: whether the handshake came before anything else.
    """
    if connection is None:
        known = () if certificate is None else (certificate,)
        return Security(chain=known, shown=known, isFirst=isFirst)
    version = connection.get_protocol_version_name().removeprefix("TLSv")
    cipher = standardName(connection.get_cipher_name() or "")
    if certificate is None:
        return Security(version, cipher, isFirst=isFirst)
    chain = tuple(connection.get_verified_chain(as_cryptography=True) or [certificate])
    sent = connection.get_peer_cert_chain(as_cryptography=True) or []
    shown = (certificate, *[other for other in sent if other != certificate])
    return Security(version, cipher, chain, shown, isFirst)
