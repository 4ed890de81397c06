"""Log lines of a start, in nats-server's words where programs wait for them."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from natsbroker import NATS_VERSION, __version__, hot
from natsbroker.config.model import Settings
from natsbroker.connections.listener import PortListener, describe
from natsbroker.runtime.failures import failureReason
from natsbroker.runtime.reload import LIFE
from natsbroker.server.risks import CALLOUT, OPEN_TO_OTHERS, isOpen, risksIn

_log = Logger(namespace=LIFE)
_failures = Logger(namespace="natsbroker")


def announceStart(settings: Settings, serverId: str, parts: Mapping[str, str]) -> None:
    _log.info("Starting natsbroker")
    _log.info("  Version:  {ours} (nats-server {theirs})", ours=__version__, theirs=NATS_VERSION)
    _log.info("  Name:     {name}", name=settings.server_name or serverId)
    _log.info("  ID:       {id}", id=serverId)
    isCompiled = hot.COMPILED and settings.fast_lane
    lane = "compiled" if isCompiled else f"off ({hot.REASON or 'fast_lane: false'})"
    chosen = " ".join(f"{name}={choice}" for name, choice in parts.items())
    _log.info("  On:       {chosen} lane={lane}", chosen=chosen, lane=lane)
    _announceRisks(settings)
    if settings.config_file:
        _log.info(
            "Using configuration file: {path} ({digest})",
            path=settings.config_file,
            digest=settings.config_digest,
        )


def _announceRisks(settings: Settings) -> None:
    for key, text in risksIn(settings):
        level = LogLevel.error if key.startswith(CALLOUT) else LogLevel.warn
        _log.emit(level, "{text}", text=text)


def announceListener(listener: PortListener, settings: Settings, required: bool) -> None:
    """
    @param required: whether clients must authenticate.
    """
    where = describe(listener.address)
    host = getattr(listener.address, "host", "")
    if isOpen(host, required):
        _log.warn("{text}", text=OPEN_TO_OTHERS.format(where))
    _log.info("Listening for client connections on {where}", where=where)
    if settings.tls is None:
        return
    first = settings.tls.handshake_first and not settings.tls.handshake_first_fallback
    need = "available" if settings.allow_non_tls and not first else "required"
    _log.info("TLS {need} for client connections", need=need)
    if first:
        _log.warn('Clients that are not using "TLS Handshake First" option will fail to connect')


def announceStreaming(isServing: bool) -> None:
    """Log the state of NATS Streaming, after the line that the server is ready."""
    state = "ready" if isServing else "on standby"
    _log.info("Streaming Server is {state}", state=state)


def giveReason(failure: Failure) -> None:
    """Log why a broker cannot start."""
    _failures.critical("{reason}", reason=failureReason(failure))
