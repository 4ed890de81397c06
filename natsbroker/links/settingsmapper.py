"""
What the settings say of every kind of link, as the network layer wants it.

What holds for routes, gateways and leafnodes alike is the same for all of them. Pure
functions, save for L{linkTLSFrom}, which reads certificates.
"""

from __future__ import annotations

from typing import Any, Protocol

from natsbroker import NATS_VERSION, __version__
from natsbroker.config.model import Settings, TLSSettings
from natsbroker.connections.tlscontext import bothContextsFrom
from natsbroker.links.context import LinkLimits
from natsbroker.links.dialling import DialTerms
from natsbroker.links.tls import LinkTLS
from natsbroker.routes.terms import LinkIdentity

__all__ = [
    "backoffTerms",
    "handshakeOf",
    "identityAt",
    "limitsOf",
    "linkTLSFrom",
    "secured",
]

#: How long a peer may take to say who it is, in seconds, unless the settings say.
_HANDSHAKE = 2.0

#: The longest pause between two attempts to dial, in seconds.
_LONGEST_PAUSE = 30.0


class LinkBlock(Protocol):
    """
    What is said of the links of a kind.
    """

    @property
    def timeout(self) -> float: ...

    @property
    def write_deadline(self) -> float: ...

    @property
    def tls(self) -> TLSSettings | None: ...


class DialBlock(Protocol):
    """
    What is said of dialling.
    """

    @property
    def connect_retries(self) -> int: ...

    @property
    def connect_backoff(self) -> bool: ...


def handshakeOf(block: LinkBlock) -> float:
    """
    How long a peer may take to say who it is, in seconds.
    """
    if block.timeout:
        return block.timeout
    return _HANDSHAKE if block.tls is None else block.tls.timeout + 1.0


def limitsOf(settings: Settings, block: LinkBlock) -> LinkLimits:
    """
    The limits of links, as far as their kind makes no difference.
    """
    default = LinkLimits()
    return LinkLimits(
        handshake=handshakeOf(block),
        ping_interval=settings.ping_interval,
        ping_max=settings.ping_max,
        max_control_line=settings.max_control_line * 16,
        max_payload=max(default.max_payload, settings.max_payload),
        max_pending=settings.max_pending,
        write_deadline=block.write_deadline or settings.write_deadline,
        stall=not settings.no_fast_producer_stall,
    )


def backoffTerms(settings: Settings, block: DialBlock, isConfigured: bool) -> DialTerms:
    """
    How somebody is dialled.

    @param isConfigured: whether the settings name it: then it is dialled until it answers.
    """
    default = DialTerms()
    return DialTerms(
        longest=_LONGEST_PAUSE if block.connect_backoff else default.pause,
        retries=-1 if isConfigured else block.connect_retries,
        reports=settings.connect_error_reports,
    )


def identityAt(
    settings: Settings, serverId: str, host: str, port: int, ip: str = "", gateway: str = ""
) -> LinkIdentity:
    """
    Who we are, and where links of a kind are listened for.

    @param ip: where that can be dialled, as what is said there has it.
    @param gateway: likewise of gateways.
    """
    return LinkIdentity(
        server_id=serverId,
        server_name=settings.server_name or serverId,
        version=NATS_VERSION,
        natsbroker=__version__,
        host=host,
        port=port,
        ip=ip,
        gateway_url=gateway,
    )


def linkTLSFrom(tls: TLSSettings | None) -> LinkTLS | None:
    """
    How TLS is done between those who show each other their certificates.

    @raise natsbroker.connections.tlscontext.TLSSettingsError: if the files or names are not right.
    """
    return None if tls is None else secured(tls, *bothContextsFrom(tls))


def secured(tls: TLSSettings, answering: Any, dialling: Any) -> LinkTLS:
    """
    How TLS is done with contexts that there are.
    """
    return LinkTLS(answering, dialling, tls.timeout, tls.insecure, tls.pinned_certs)
