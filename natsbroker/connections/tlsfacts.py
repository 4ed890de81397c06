"""
The TLS of a connection as values.

Versions and cipher suites have the names of the standard, as nats-server says them; only
certificates that were verified are in it.
"""

from __future__ import annotations

import re
from typing import Any

from OpenSSL import SSL

from natsbroker.wire.grants import Security

#: OpenSSL's names of cipher suites before TLS 1.3, as far as we offer them.
_OLDER = re.compile(r"(ECDHE-(?:RSA|ECDSA))-(.*)")


def standardName(cipher: str) -> str:
    """
    The standard's name of a cipher suite, for OpenSSL's.
    """
    found = _OLDER.fullmatch(cipher)
    if found is None:
        return cipher
    rest = re.sub(r"AES(\d)", r"AES_\1", found[2]).replace("-", "_")
    if rest.endswith("POLY1305"):
        rest += "_SHA256"
    return f"TLS_{found[1].replace('-', '_')}_WITH_{rest}"


def securityOf(
    connection: SSL.Connection | None, certificate: Any, isFirst: bool = False
) -> Security:
    """
    @param connection: after the handshake; C{None} where the transport keeps it to itself.
    @param certificate: the peer's, which was verified; C{None} without.
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
    shown = (certificate, *[each for each in sent if each != certificate])
    return Security(version, cipher, chain, shown, isFirst)
