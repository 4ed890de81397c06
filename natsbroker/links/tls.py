"""TLS on links: both ends present a certificate, and the dialling end checks the name."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from OpenSSL import SSL
from service_identity import CertificateError, VerificationError
from service_identity.cryptography import (
    verify_certificate_hostname,
    verify_certificate_ip_address,
)
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from zope.interface import implementer

from natsbroker.config.tls import TLSSettings
from natsbroker.connections.tls import NOT_PINNED, ConnectionCreator, expiryOf, isPinned
from natsbroker.connections.tlsrecords import SealedConnection


@dataclass(frozen=True, slots=True)
class LinkTLS:
    """TLS of links. C{isRequired} makes a dialled leafnode use TLS even if the peer does not."""

    context: SSL.Context
    dialling: SSL.Context
    settings: TLSSettings = field(default_factory=TLSSettings)
    isRequired: bool = True

    @property
    def expiry(self) -> str:
        return expiryOf(self.context)

    def creator(self, name: str | None, owner: Any = None) -> Any:
        """
        @param name: the peer's name; C{None} for accepted connections.
        @param owner: gets the dialling OpenSSL connection as C{connection}.
        """
        if name is None:
            return ConnectionCreator(self.context)
        ocsp = self.settings.ocsp
        return DialledConnections(
            self.dialling, name, owner, ocsp is not None and ocsp.wantsStaples
        )

    def problem(self, certificate: Any, name: str | None) -> str:
        """The fault of a peer's certificate, which may be C{None}; empty if it is right."""
        if not isPinned(certificate, self.settings.pinned_certs):
            return NOT_PINNED
        if name is None or self.settings.insecure:
            return ""
        return nameProblem(certificate, name)


@implementer(IOpenSSLClientConnectionCreator)
@dataclass(frozen=True)
class DialledConnections:
    context: SSL.Context
    name: str
    owner: Any = None
    wantsStaple: bool = False

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        connection = SealedConnection(self.context, None)
        if self.wantsStaple:
            connection.request_ocsp()
        if self.owner is not None:
            self.owner.connection = connection
        if not isAddress(self.name):
            connection.set_tlsext_host_name(self.name.encode("idna"))
        return connection


def isAddress(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def nameProblem(certificate: Any, name: str) -> str:
    """
    The fault of an X.509 certificate, or of C{None}, for a dialled name or address; empty for no
    fault.
    """
    if certificate is None:
        return "the peer has no certificate"
    try:
        if isAddress(name):
            verify_certificate_ip_address(certificate, name)
        else:
            verify_certificate_hostname(certificate, name)
    except (VerificationError, CertificateError) as error:
        what = "an address" if isAddress(name) else "a name"
        detail = "" if isinstance(error, VerificationError) else f" ({error})"
        return f"certificate is not valid for {name}, {what} that was dialled{detail}"
    return ""
