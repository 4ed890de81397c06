"""HTTP agents that check names and authorities of HTTPS certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.ssl import (
    Certificate,
    PrivateCertificate,
    TLSVersion,
    trustRootFromCertificates,
)
from twisted.web.client import Agent, HTTPConnectionPool
from twisted.web.iweb import IAgent, IPolicyForHTTPS
from zope.interface import implementer

from natsbroker.config.model import TLSSettings
from natsbroker.connections.peernames import clientTLS

_REFUSED = ("cipher_suites", "curve_preferences", "insecure", "pinned_certs", "handshake_first")
"""Keys of a C{tls} block that a client of HTTPS refuses rather than ignores."""

_VERSIONS = {"1.2": TLSVersion.TLSv1_2, "1.3": TLSVersion.TLSv1_3}


def agentFor(
    reactor: Any, tls: TLSSettings | None = None, name: str = "tls", isPersistent: bool = False
) -> IAgent:
    """
    @param tls: C{None} for the system's authorities and no own certificate.
    @raise ValueError: for a file that cannot be used, or a key that is not supported.
    """
    pool = HTTPConnectionPool(reactor, persistent=isPersistent)
    try:
        policy = _Policy(tls or TLSSettings(), name)
    except Exception as error:
        raise ValueError(f"{name}: {error}") from error
    return Agent(reactor, policy, pool=pool)


@implementer(IPolicyForHTTPS)
class _Policy:
    def __init__(self, tls: TLSSettings, name: str) -> None:
        for refused in _REFUSED:
            if getattr(tls, refused):
                raise ValueError(f"{refused} is not supported here")
        self._trusted = None
        self._ours = None
        self._lowest = _VERSIONS[tls.min_version]
        if tls.ca_file:
            self._trusted = trustRootFromCertificates(_certificatesIn(tls.ca_file))
        if tls.certs:
            certificate, key = tls.certs[0]
            text = Path(certificate).read_bytes() + b"\n" + Path(key).read_bytes()
            self._ours = PrivateCertificate.loadPEM(text)

    def creatorForNetloc(self, hostname: bytes, port: int) -> IOpenSSLClientConnectionCreator:
        return clientTLS(
            hostname.decode("ascii"),
            trustRoot=self._trusted,
            clientCertificate=self._ours,
            extraCertificateOptions={"raiseMinimumTo": self._lowest},
        )


def _certificatesIn(path: str) -> list[Certificate]:
    end = b"-----END CERTIFICATE-----"
    parts = Path(path).read_bytes().split(end)[:-1]
    if not parts:
        raise ValueError(f"{path} holds no certificate")
    return [Certificate.loadPEM(part + end) for part in parts]
