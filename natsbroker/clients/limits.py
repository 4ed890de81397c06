"""
The limits of client connections. A reload makes a new value, which running connections use from
then on.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from natsbroker.config.model import Settings


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """
    Sizes in bytes, times in seconds; the defaults are nats-server's.

    @ivar max_connections: 0 for no limit, as C{max_subscriptions} (of one connection) and
        C{max_sub_tokens} (of a subscription's subject).
    @ivar max_control_line: bytes after the operation on a line.
    @ivar max_pending: bytes that may wait for one connection.
    @ivar write_deadline: the time that bytes may wait when a transport is full.
    @ivar stall: whether publishers are slowed down for receivers that lag.
    """

    max_connections: int = 65536
    max_subscriptions: int = 0
    max_sub_tokens: int = 0
    max_control_line: int = 4096
    max_payload: int = 1 << 20
    max_pending: int = 64 << 20
    write_deadline: float = 10.0
    auth_timeout: float = 2.0
    ping_interval: float = 120.0
    ping_max: int = 2
    headers: bool = True
    stall: bool = True


def limitsFrom(settings: Settings) -> ClientLimits:
    own: dict[str, Any] = {
        "auth_timeout": settings.authorization.timeout,
        "headers": not settings.no_header_support,
        "stall": not settings.no_fast_producer_stall,
    }
    names = {each.name for each in fields(ClientLimits)} - own.keys()
    return ClientLimits(**{name: getattr(settings, name) for name in names}, **own)
