"""The settings, pauses and TLS that all kinds of links have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from natsbroker.config.model import Settings, TLSSettings
from natsbroker.config.settings.listeners import ListenerSettings, timeToLogin
from natsbroker.connections.tlscontext import bothContextsFrom
from natsbroker.links.dialling import DialTerms
from natsbroker.links.tls import LinkTLS

if TYPE_CHECKING:
    from natsbroker.config.settings.leafnodes import Leafnodes

#: The largest payload on links, in bytes, unless the limit of clients is larger.
_LARGEST = 64 << 20

#: The longest pause between two attempts to dial, in seconds.
_LONGEST_PAUSE = 30.0


def linkSettings(settings: Settings, block: ListenerSettings | Leafnodes) -> Settings:
    """
    The settings of a kind of link: those of clients, with the values of the kind's block. The
    payload limit of clients does not hold between servers. The larger limit here bounds memory.
    """
    timeout = timeToLogin(block.timeout, block.tls)
    return replace(
        settings,
        authorization=replace(settings.authorization, timeout=timeout),
        max_control_line=settings.max_control_line * 16,
        max_payload=max(_LARGEST, settings.max_payload),
        write_deadline=block.write_deadline or settings.write_deadline,
    )


def backoffTerms(settings: Settings, block: ListenerSettings, isConfigured: bool) -> DialTerms:
    """The terms of dialling a peer. One that the settings name is dialled until it answers."""
    default = DialTerms()
    return DialTerms(
        longest=_LONGEST_PAUSE if block.connect_backoff else default.pause,
        retries=-1 if isConfigured else block.connect_retries,
        reports=settings.connect_error_reports,
    )


def linkTLSFrom(tls: TLSSettings | None) -> LinkTLS | None:
    return None if tls is None else LinkTLS(*bothContextsFrom(tls), tls)
