"""
The limits of client connections. A reload makes a new value, which running connections use from
then on.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    return ClientLimits(
        max_connections=settings.max_connections,
        max_subscriptions=settings.max_subscriptions,
        max_sub_tokens=settings.max_sub_tokens,
        max_control_line=settings.max_control_line,
        max_payload=settings.max_payload,
        max_pending=settings.max_pending,
        write_deadline=settings.write_deadline,
        auth_timeout=settings.authorization.timeout,
        ping_interval=settings.ping_interval,
        ping_max=settings.ping_max,
        headers=not settings.no_header_support,
        stall=not settings.no_fast_producer_stall,
    )
