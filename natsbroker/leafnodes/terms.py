"""
The terms of leafnode connections, and what INFO and CONNECT contain.

Frozen values, which a reload replaces as a whole. The members of INFO and CONNECT have the names
and order of nats-server; one is ours, C{natsbroker}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from natsbroker.links.compression import NO_COMPRESSION, UNSUPPORTED, Compression
from natsbroker.links.tls import LinkTLS
from natsbroker.routes.terms import LinkIdentity

#: Our protocol level: without message tracing.
_PROTO = 2

#: Gives the credentials in CONNECT for the nonce of the peer's INFO. It may raise C{ValueError}.
Credentials = Callable[[str], Mapping[str, Any]]


def _nothing(nonce: str) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class LeafTLS:
    """
    TLS of leafnode connections.

    @ivar isFirst: the handshake comes before INFO.
    @ivar fallback: for accepted connections: seconds for the peer to start the handshake, before
        INFO is sent first after all; 0 for never.
    @ivar isRequired: for dialled connections: TLS is used even if the peer does not require it.
    """

    tls: LinkTLS
    isFirst: bool = False
    fallback: float = 0.0
    isRequired: bool = True


@dataclass(frozen=True, slots=True)
class LeafURL:
    """
    An address to dial.

    @ivar user: for the login; empty for none.
    @ivar password: C{None} if the user is a token.
    """

    host: str
    port: int
    user: str = ""
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class LeafRemoteTerms:
    """
    A remote that we dial.

    @ivar urls: of the peer, or of members of its cluster.
    @ivar account: ours.
    @ivar isHub: we are the hub although we dial.
    @ivar denyImports: the patterns of messages that we do not take.
    @ivar denyExports: the patterns of messages that we do not send.
    @ivar isIsolated: the peer gets no interest of our other leafnodes.
    @ivar wantsIsolation: we want no interest of its other leafnodes.
    @ivar isShuffled: the URLs are dialled in random order.
    @ivar learns: the URLs that the peer announces are used.
    @ivar firstInfo: seconds for the peer to send its INFO.
    @ivar dialling: seconds for an attempt to connect.
    """

    urls: tuple[LeafURL, ...]
    account: str
    isHub: bool = False
    denyImports: tuple[bytes, ...] = ()
    denyExports: tuple[bytes, ...] = ()
    credentials: Credentials = field(default=_nothing, repr=False, compare=False)
    isIsolated: bool = False
    wantsIsolation: bool = False
    isShuffled: bool = True
    learns: bool = True
    firstInfo: float = 1.0
    dialling: float = 1.0
    isDisabled: bool = False
    tls: LeafTLS | None = field(default=None, compare=False)
    compression: Compression = NO_COMPRESSION


@dataclass(frozen=True, slots=True)
class LeafTerms:
    """
    The settings that leafnode connections use.

    @ivar headers: we understand headers.
    @ivar maxPayload: of our clients.
    @ivar hasTLS: accepted connections need TLS.
    @ivar verifiesTLS: accepted connections need a certificate.
    @ivar minVersion: of peers that dial us.
    @ivar isIsolated: leafnodes get no interest of each other.
    @ivar handshake: seconds for the login.
    @ivar domain: our JetStream domain; empty for none.
    @ivar system: the name of our system account; empty for none.
    @ivar extends: see L{natsbroker.leafnodes.rules.domainDenials}.
    @ivar defaultDomains: likewise.
    @ivar compression: of accepted connections.
    """

    headers: bool = True
    maxPayload: int = 1 << 20
    hasTLS: bool = False
    verifiesTLS: bool = False
    minVersion: tuple[int, int, int] | None = None
    isIsolated: bool = False
    handshake: float = 2.0
    domain: str = ""
    system: str = ""
    extends: bool = False
    defaultDomains: Mapping[str, str] = field(default_factory=dict)
    compression: Compression = NO_COMPRESSION

    @property
    def minVersionText(self) -> str:
        return ".".join(map(str, self.minVersion or ()))


def infoDocument(
    identity: LinkIdentity, terms: LeafTerms, cluster: str, **connection: Any
) -> dict[str, Any]:
    """
    Our INFO for accepted connections.

    @param connection: the members for one connection at one moment.
    """
    return {
        **identity.head(_PROTO),
        "headers": terms.headers,
        "auth_required": True,
        "tls_required": terms.hasTLS,
        "tls_verify": terms.verifiesTLS,
        "max_payload": terms.maxPayload,
        "ip": identity.ip,
        "cluster": cluster,
        "info_on_connect": True,
        "domain": terms.domain,
        **connection,
        "natsbroker": identity.natsbroker,
    }


def connectOptions(
    identity: LinkIdentity,
    terms: LeafTerms,
    cluster: str,
    remote: LeafRemoteTerms,
    url: LeafURL,
    compression: str = UNSUPPORTED,
) -> dict[str, Any]:
    """
    Our CONNECT without credentials.

    @param compression: the level that we send at.
    """
    return {
        "version": identity.version,
        "user": url.user,
        "pass": url.password or "",
        "auth_token": url.user if url.password is None else "",
        "server_id": identity.server_id,
        "name": identity.server_name,
        "is_hub": remote.isHub,
        "cluster": cluster,
        "headers": terms.headers,
        "domain": terms.domain,
        "deny_pub": [each.decode("utf-8", "surrogateescape") for each in remote.denyImports],
        "isolate": remote.wantsIsolation,
        "compress_mode": compression,
        "remote_account": remote.account,
        "protocol": _PROTO,
    }
