"""
What the network layer needs, out of the settings.

Promises: pure functions from settings to the frozen values of the rooms of connections.
Must never know: connections, files, or the reactor.
"""

from __future__ import annotations

from natsbroker import NATS_VERSION, __version__
from natsbroker.clients.context import Tracing
from natsbroker.clients.info import ServerInfo
from natsbroker.clients.limits import Limits
from natsbroker.config.model import Settings
from natsbroker.wire.columnar import VERSION as FRAMES

__all__ = ["infoFrom", "limitsFrom", "tracingFrom"]


def limitsFrom(settings: Settings) -> Limits:
    """
    The limits of client connections.
    """
    return Limits(
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


def tracingFrom(settings: Settings) -> Tracing:
    """
    How much of the protocol is logged.
    """
    logging = settings.logging
    return Tracing(
        protocol=logging.trace or logging.trace_verbose,
        system=logging.trace_verbose,
        maxLength=logging.max_traced_msg_len,
        headersOnly=logging.trace_headers,
    )


def infoFrom(
    settings: Settings, serverId: str, host: str, port: int, authRequired: bool, xkey: str = ""
) -> ServerInfo:
    """
    What INFO says.

    @param serverId: the broker's id, which is also its name unless the settings name it.
    @param host: where clients connect, unless the settings advertise another place.
    @param port: the port that is listened on.
    @param authRequired: whether a client must say who it is.
    @param xkey: the public key that others may seal for.
    """
    tls = settings.tls
    advertised, advertisedPort = _advertised(settings.client_advertise)
    return ServerInfo(
        server_id=serverId,
        server_name=settings.server_name or serverId,
        version=NATS_VERSION,
        natsbroker=__version__,
        host=advertised or host,
        port=advertisedPort or port,
        headers=not settings.no_header_support,
        auth_required=authRequired,
        tls_required=tls is not None and not settings.allow_non_tls,
        tls_verify=tls is not None and tls.verify,
        tls_available=tls is not None and settings.allow_non_tls,
        max_payload=settings.max_payload,
        xkey=xkey,
        nb_export=0 if settings.streaming is None else FRAMES,
    )


def _advertised(text: str) -> tuple[str, int]:
    """
    C{host}, C{host:port} or C{[address]:port}; a port of 0 is the one that is listened on.
    """
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]") or not port.isdigit():
        return text.strip("[]"), 0
    return host.strip("[]"), int(port)
