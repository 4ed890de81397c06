"""
TLS of dialled connections: the certificate must be for the name that was dialled.

A certificate for another name, for none, or with names that cannot be read ends the handshake
before anything is said. (Twisted 26.10's C{optionsForClientTLS} takes a certificate without any
C{subjectAltName}, or with a malformed one: service-identity then raises something else than
C{VerificationError}, which is only logged.)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from OpenSSL import SSL
from service_identity.cryptography import extract_patterns
from service_identity.hazmat import DNS_ID, IPAddress_ID, verify_service_identity
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.ssl import optionsForClientTLS
from twisted.python.failure import Failure
from zope.interface import implementer

_DEMANDED = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT


class NamelessCertificate(ValueError):
    """A certificate has no names that could be compared with anything."""


def checkNames(certificate: Any) -> None:
    """Raise L{NamelessCertificate} for a certificate whose names cannot be compared."""
    try:
        names = extract_patterns(certificate) if certificate is not None else ()
    except Exception as error:
        raise NamelessCertificate(
            f"the names in the certificate cannot be read: {error}"
        ) from error
    if not names:
        raise NamelessCertificate("the certificate contains no name")


def clientTLS(
    hostname: str,
    trustRoot: Any = None,
    clientCertificate: Any = None,
    extraCertificateOptions: dict[str, Any] | None = None,
) -> IOpenSSLClientConnectionCreator:
    options = optionsForClientTLS(
        hostname, trustRoot, clientCertificate, extraCertificateOptions=extraCertificateOptions
    )
    return _Verifying(options, hostname)


@implementer(IOpenSSLClientConnectionCreator)
class _Verifying:
    def __init__(self, creator: Any, hostname: str) -> None:
        self._creator = creator
        if isIPAddress(hostname) or isIPv6Address(hostname):
            self._wanted: Any = IPAddress_ID(hostname)
        else:
            self._wanted = DNS_ID(hostname.encode("idna").decode("ascii"))

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        connection: SSL.Connection = self._creator.clientConnectionForTLS(tlsProtocol)
        connection.set_verify(_DEMANDED, _judge(weakref.ref(tlsProtocol), self._wanted))
        return connection


def _judge(
    protocol: Callable[[], Any], wanted: Any
) -> Callable[[SSL.Connection, Any, int, int, int], bool]:
    def verify(
        connection: SSL.Connection, certificate: Any, error: int, depth: int, isGood: int
    ) -> bool:
        if depth or not isGood:
            return bool(isGood)
        try:
            verify_service_identity(extract_patterns(certificate.to_cryptography()), [wanted], [])
        except Exception:
            waiting = protocol()
            if waiting is not None:
                waiting.failVerification(Failure())
            return False
        return True

    return verify
