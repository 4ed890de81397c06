"""
Log lines of a start, and errors of one that fails, in nats-server's words where programs wait for
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from twisted.internet.error import BindError, CannotListenError, ConnectError
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from natsbroker import NATS_VERSION, __version__, hot
from natsbroker.accounts.registry import accountNames
from natsbroker.auth.passwords import isHash
from natsbroker.clients.listener import PortListener, describe
from natsbroker.config.addresses import isLoopback, joined
from natsbroker.config.model import Settings
from natsbroker.errors import BrokerError
from natsbroker.interfaces import StoreError
from natsbroker.server.logs import raisedAt

_log = Logger(namespace="natsbroker")

_LARGE_PAYLOAD = 8 << 20
"""Payloads above this size in bytes get a warning, as with nats-server."""

_CALLOUT = "authorization.auth_callout"

_OWN_STORES = ("lmdb", "memory")
"""Stores of one broker; members of a cluster can share the others."""

SEPARATE_STREAMS = (
    "JetStream of this broker is not shared with its cluster: if another member has JetStream of "
    "its own too, both store each message and both answer each request; leave it to one member, or "
    "share a store (jetstream.backend: postgres)"
)

TEMPORARY_STREAMS = "Temporary storage directory used, data could be lost on system reboot"

_FORESEEN = (BrokerError, StoreError, ValueError, OSError, ConnectError, BindError)


class StartError(BrokerError):
    """
    The broker cannot start; the text is what is logged.
    """


def failureReason(failure: Failure) -> str:
    """
    Say why a start failed. The text of an unforeseen error may quote a secret of the settings: it
    is logged for debugging only.
    """
    if failure.check(*_FORESEEN):
        text: str = failure.getErrorMessage()
        return text
    _log.failure("The start failed", failure, LogLevel.debug)
    return f"Cannot start: {raisedAt(failure)}"


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
        level = LogLevel.error if key.startswith(_CALLOUT) else LogLevel.warn
        _log.emit(level, "{text}", text=text)


def risksIn(settings: Settings) -> Iterator[tuple[str, str]]:
    """
    @return: keys of settings that do not prevent a start, and what is wrong with each.
    """
    certificates = settings.tls is not None and settings.tls.verify_and_map
    passwords = [
        user.password
        for user in settings.users()
        if user.password or not (user.nkey or certificates)
    ]
    if settings.authorization.user:
        passwords.append(settings.authorization.password)
    if not all(map(isHash, passwords)):
        key = "accounts" if "authorization" not in settings.places else "authorization"
        yield key, "Plaintext passwords detected, use nkeys or bcrypt"
    yield from _calloutRisks(settings)
    if settings.jetstream.isTemporary:
        yield "jetstream", TEMPORARY_STREAMS
    if hasSeparateStreams(settings):
        yield "jetstream", SEPARATE_STREAMS
    if settings.max_payload > _LARGE_PAYLOAD:
        yield (
            "max_payload",
            "Maximum payloads over 8.00 MB are generally discouraged and could lead to poor "
            "performance",
        )


def hasSeparateStreams(settings: Settings) -> bool:
    """
    Whether the broker is a member of a cluster and has JetStream that it does not share with it.
    """
    cluster, jetstream = settings.cluster, settings.jetstream
    isMember = cluster is not None and cluster.isOn
    return isMember and jetstream.enabled and jetstream.backend in _OWN_STORES


def _calloutRisks(settings: Settings) -> Iterator[tuple[str, str]]:
    callout = settings.authorization.auth_callout
    if callout is None:
        return
    if callout.account not in accountNames(settings):
        yield f"{_CALLOUT}.account", f'Authorization callout account "{callout.account}" not valid'
    known = {user.user for user in settings.users()}
    for user in callout.auth_users:
        if user not in known:
            yield f"{_CALLOUT}.auth_users", f'Authorization callout user "{user}" not valid'


OPEN_TO_OTHERS = "Clients need no login on {}, which other machines may reach"


def isOpen(host: str, required: bool) -> bool:
    """
    @param host: where clients connect; empty for a socket that has none.
    @param required: whether clients must authenticate.
    """
    return bool(host) and not (required or isLoopback(host))


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


def cannotListen(error: CannotListenError) -> StartError:
    return StartError(f'Error listening on port: {_place(error)}, "{listenDetail(error)}"')


def listenDetail(error: CannotListenError) -> str:
    reason = getattr(error.socketError, "strerror", None) or str(error.socketError)
    return f"listen tcp {_place(error)}: bind: {reason.lower()}"


def _place(error: CannotListenError) -> str:
    return joined(str(error.interface or "0.0.0.0"), int(error.port))
