"""
The limits and TLS of links, as their settings determine them for every kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from natsbroker.config.model import Settings, TLSSettings
from natsbroker.config.settings.listeners import ListenerSettings
from natsbroker.connections.tlscontext import bothContextsFrom
from natsbroker.links.context import LinkLimits
from natsbroker.links.dialling import DialTerms
from natsbroker.links.tls import LinkTLS

if TYPE_CHECKING:
    from natsbroker.config.settings.leafnodes import Leafnodes

#: Seconds until a peer must have introduced itself, unless the settings have a limit.
_HANDSHAKE = 2.0

#: The longest pause between two attempts to dial, in seconds.
_LONGEST_PAUSE = 30.0


def handshakeOf(block: ListenerSettings | Leafnodes) -> float:
    if block.timeout:
        return block.timeout
    return _HANDSHAKE if block.tls is None else block.tls.timeout + 1.0


def limitsOf(settings: Settings, block: ListenerSettings | Leafnodes) -> LinkLimits:
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


def backoffTerms(settings: Settings, block: ListenerSettings, isConfigured: bool) -> DialTerms:
    """
    @param isConfigured: whether the settings name the peer: then it is dialled until it answers.
    """
    default = DialTerms()
    return DialTerms(
        longest=_LONGEST_PAUSE if block.connect_backoff else default.pause,
        retries=-1 if isConfigured else block.connect_retries,
        reports=settings.connect_error_reports,
    )


def linkTLSFrom(tls: TLSSettings | None) -> LinkTLS | None:
    return None if tls is None else LinkTLS(*bothContextsFrom(tls), tls)
