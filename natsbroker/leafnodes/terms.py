"""
How a broker takes part in leafnode connections, and what it says of that.

Frozen values, which a reload replaces as a whole; the members of INFO and CONNECT have
the real server's names and order, and one of our own, C{natsbroker}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from natsbroker.links.compression import NO_COMPRESSION, UNSUPPORTED, Compression
from natsbroker.links.tls import LinkTLS
from natsbroker.routes.terms import LinkIdentity

__all__ = [
    "Credentials",
    "LeafRemoteTerms",
    "LeafTLS",
    "LeafTerms",
    "LeafURL",
    "connectOptions",
    "infoDocument",
]

#: What we claim to understand; the tracing of messages is not among it.
_PROTO = 2

#: Gives the members of CONNECT that prove who we are, for the nonce of the peer's INFO. It raises
#: C{ValueError} if it cannot.
Credentials = Callable[[str], Mapping[str, Any]]


def _nothing(nonce: str) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class LeafTLS:
    """
    How TLS is done.

    @ivar tls: with which certificates.
    @ivar isFirst: the handshake comes before INFO.
    @ivar fallback: for those who answer: seconds for the peer to begin it; after that INFO comes
        first after all. 0 for never.
    @ivar isRequired: for those who dial: it is done whether the peer asks for it or not.
    """

    tls: LinkTLS
    isFirst: bool = False
    fallback: float = 0.0
    isRequired: bool = True


@dataclass(frozen=True, slots=True)
class LeafURL:
    """
    Somewhere to dial.

    @ivar user: as whom; empty for nobody.
    @ivar password: of that user; C{None} for a user whose name is a token.
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
    One of those whom we dial.

    @ivar urls: where; each is the same peer, or another member of its cluster.
    @ivar account: ours.
    @ivar isHub: whether we are the hub although we dial.
    @ivar denyImports: the patterns that we want no messages of.
    @ivar denyExports: those that we give none of.
    @ivar credentials: proves who we are.
    @ivar isIsolated: the peer hears nothing of our other leafnodes.
    @ivar wantsIsolation: we want to hear nothing of its other leafnodes.
    @ivar isShuffled: whether the order of the URLs does not matter.
    @ivar learns: whether we use what the peer says of other members of its cluster.
    @ivar firstInfo: how many seconds the peer may take to send its INFO.
    @ivar dialling: how many seconds an attempt to connect may take.
    @ivar isDisabled: it is not dialled.
    @ivar tls: how TLS is done; where it is not required, only if the peer asks for it.
    @ivar compression: how the connection is compressed.
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
    How we take part. A reload replaces the whole.

    @ivar headers: whether we understand headers.
    @ivar maxPayload: what our clients may send.
    @ivar hasTLS: whether those who dial us must encrypt.
    @ivar verifiesTLS: whether they must show a certificate.
    @ivar minVersion: of those who dial us, as numbers.
    @ivar isIsolated: leafnodes hear nothing of each other.
    @ivar handshake: how long somebody who dials us may take to say who it is, in seconds.
    @ivar domain: our JetStream domain; empty for none.
    @ivar system: the name of our system account; empty for none.
    @ivar extends: see L{natsbroker.leafnodes.rules.domainDenials}.
    @ivar defaultDomains: likewise.
    @ivar compression: how connections of those who dial us are compressed.
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
        """
        The least version, as text.
        """
        return ".".join(map(str, self.minVersion or ()))


def infoDocument(
    identity: LinkIdentity, terms: LeafTerms, cluster: str, **connection: Any
) -> dict[str, Any]:
    """
    What an INFO says to those who dialled us.

    @param connection: what belongs to the connection and the moment.
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
    What a CONNECT says to whom we dialled, without what proves who we are.

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
