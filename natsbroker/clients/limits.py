"""
The limits of client connections, as the network layer needs them.

Plain frozen values; a reload hands over a new object, which running connections use from
then on.
"""

from __future__ import annotations

from dataclasses import dataclass

from natsbroker.config.model import Settings

__all__ = ["ClientLimits", "limitsFrom"]


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """
    Sizes in bytes, times in seconds; the defaults are nats-server's.

    @ivar max_connections: connections at a time; 0 for no limit.
    @ivar max_subscriptions: subscriptions of one connection; 0 for no limit.
    @ivar max_sub_tokens: tokens in the subject of a subscription; 0 for no limit.
    @ivar max_control_line: bytes after the operation on a line.
    @ivar max_payload: bytes of headers and payload.
    @ivar max_pending: bytes that may wait for one connection.
    @ivar write_deadline: how long a connection may take for what waits when its transport is full.
    @ivar auth_timeout: how long a connection may take to say who it is.
    @ivar ping_interval: between PINGs.
    @ivar ping_max: unanswered PINGs.
    @ivar headers: whether headers are supported.
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
