"""
Settings that do not prevent a start and are probably a mistake. A start logs them, C{natsbroker
check} lists them, and C{/healthz?strict=1} and the live page show them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from natsbroker.accounts.registry import accountNames
from natsbroker.auth.passwords import isHash
from natsbroker.config.addresses import RemoteURL, isLoopback, joined
from natsbroker.config.errors import REACHED_PAGES
from natsbroker.config.model import Settings
from natsbroker.config.settings.leafnodes import splitRemote
from natsbroker.config.settings.listeners import UNGUARDED, ListenerSettings
from natsbroker.config.settings.routes import splitRoute

_LARGE_PAYLOAD = 8 << 20
"""Payloads above this size in bytes get a warning, as with nats-server."""

CALLOUT = "authorization.auth_callout"

_OWN_STORES = ("lmdb", "memory")
"""Stores of one broker; members of a cluster can share the others."""

SEPARATE_STREAMS = (
    "JetStream of this broker is not shared with its cluster: if another member has JetStream of "
    "its own too, both store each message and both answer each request; leave it to one member, or "
    "share a store (jetstream.backend: postgres)"
)

TEMPORARY_STREAMS = "Temporary storage directory used, data could be lost on system reboot"

OPEN_TO_OTHERS = "Clients need no login on {}, which other machines may reach"

ONLY_SYSTEM_USERS = (
    'only the system account "{}" has users, so everybody else is a guest of the global account; '
    'add "authorization {{}}" to keep them out, or users of another account'
)

NO_LEAF_CERTIFICATE = (
    "no leafnode can connect here: its TLS handshake fails without 'cert_file' and 'key_file'"
)

NO_PROFILES = (
    "prof_port has no effect: nothing listens there, since nats-server's profiles are of its Go "
    "runtime; py-spy looks into a running broker"
)

NO_PLACEMENT = (
    "unique_tag has no effect: brokers do not place replicas of streams, and on a store that they "
    "share each stream has one broker at a time"
)

NOBODY_MAPPED = 'verify_and_map lets nobody in: "authorization" has no users for certificates'

NOBODY_KNOWN = "verify_cert_and_check_known_urls lets nobody in: there are no URLs of other servers"

NO_PASSWORDS = (
    "every client that names one of these users is let in, because they have no password: {}; "
    "give them passwords or nkeys, or let certificates name them (verify_and_map)"
)

HASH_UNSAID = (
    "peers that others announce cannot be dialled, because only the hash of the password is known;"
    " write "
    "the login into a URL"
)

Found = Iterator[tuple[str, str]]
"""Keys of settings, each with what is wrong."""


def risksIn(settings: Settings) -> Found:
    certificates = settings.tls is not None and settings.tls.verify_and_map
    passwords = [
        user.password
        for user in settings.users()
        if not user.isOutside and (user.password or not (user.nkey or certificates))
    ]
    if settings.authorization.user and not settings.authorization.isOutside:
        passwords.append(settings.authorization.password)
    if not all(map(isHash, passwords)):
        key = "accounts" if "authorization" not in settings.places else "authorization"
        yield key, "Plaintext passwords detected, use nkeys or bcrypt"
    yield from _passwordRisks(settings)
    if settings.isOpenBesideSystem:
        yield "accounts", ONLY_SYSTEM_USERS.format(settings.system_account)
    if settings.feature_flags:
        flags = ", ".join(sorted(settings.feature_flags))
        yield "feature_flags", f"feature_flags have no effect here: {flags}"
    if settings.prof_port:
        yield "prof_port", NO_PROFILES
    leafnodes = settings.leafnodes
    if leafnodes is not None and leafnodes.port and leafnodes.tls and not leafnodes.tls.certs:
        yield "leafnodes.tls", NO_LEAF_CERTIFICATE
    yield from _loginRisks(settings)
    yield from _calloutRisks(settings)
    yield from _reachedRisks(settings)
    yield from _portRisks(settings)
    if settings.jetstream.isTemporary:
        yield "jetstream", TEMPORARY_STREAMS
    if settings.jetstream.unique_tag:
        yield "jetstream.unique_tag", NO_PLACEMENT
    if hasSeparateStreams(settings):
        yield "jetstream", SEPARATE_STREAMS
    if settings.max_payload > _LARGE_PAYLOAD:
        yield (
            "max_payload",
            "Maximum payloads over 8.00 MB are generally discouraged and could lead to poor "
            "performance",
        )


def allRisks(settings: Settings, required: bool) -> Found:
    """
    @param required: whether clients must authenticate.
    """
    yield from risksIn(settings)
    yield from openListeners(settings, required)


def hasSeparateStreams(settings: Settings) -> bool:
    """
    Whether the broker is a member of a cluster and has JetStream that it does not share with it.
    """
    cluster, jetstream = settings.cluster, settings.jetstream
    isMember = cluster is not None and cluster.isOn
    return isMember and jetstream.enabled and jetstream.backend in _OWN_STORES


def _passwordRisks(settings: Settings) -> Found:
    authorization, websocket = settings.authorization, settings.websocket
    tls = (settings.tls, None if websocket is None else websocket.tls)
    isMapped = any(block is not None and block.verify_and_map for block in tls)
    if isMapped or authorization.plugin or authorization.auth_callout:
        return
    guests = {settings.no_auth_user, "" if websocket is None else websocket.no_auth_user}
    names = [
        user.user
        for user in settings.users()
        if not (user.password or user.nkey or user.user in guests)
    ]
    if names:
        key = "authorization" if "authorization" in settings.places else "accounts"
        yield key, NO_PASSWORDS.format(", ".join(names))


def _loginRisks(settings: Settings) -> Found:
    cluster, gateway = settings.cluster, settings.gateway
    blocks: list[tuple[str, ListenerSettings, Sequence[str]]] = []
    if cluster is not None:
        blocks.append(("cluster", cluster, cluster.routes))
    if gateway is not None:
        blocks.append(
            ("gateway", gateway, [url for remote in gateway.gateways for url in remote.urls])
        )
    for key, block, urls in blocks:
        isMapped, isKnownByURL = block.isMapped, block.isKnownByURL
        isNamed = (isMapped and block.user) or (isKnownByURL and urls)
        if (isMapped or isKnownByURL) and not isNamed:
            yield f"{key}.tls", NOBODY_MAPPED if isMapped else NOBODY_KNOWN
        isSaid = any(splitRoute(url).password for url in urls)
        if isHash(block.password) and not (isSaid or isMapped or isKnownByURL):
            yield f"{key}.authorization", HASH_UNSAID


def _calloutRisks(settings: Settings) -> Found:
    callout = settings.authorization.auth_callout
    if callout is None:
        return
    if callout.account not in accountNames(settings):
        yield f"{CALLOUT}.account", f'Authorization callout account "{callout.account}" not valid'
    known = {user.user for user in settings.users()}
    for user in callout.auth_users:
        if user not in known:
            yield f"{CALLOUT}.auth_users", f'Authorization callout user "{user}" not valid'


def _reachedRisks(settings: Settings) -> Found:
    for key, one in (("cluster", "member"), ("gateway", "gateway")):
        block = getattr(settings, key)
        if block is not None and block.insecure_listen is None and block.isUnguarded:
            yield f"{key}.listen", UNGUARDED.format(joined(block.host, block.port), one)
    pages = settings.monitoring
    if pages.insecure_monitor is None and pages.isReached:
        key = keyIn(settings, "http_port", "http", "https_port", "https")
        yield key, REACHED_PAGES.format(pages.http_host)


def _portRisks(settings: Settings) -> Found:
    cluster, gateway, leafnodes = settings.cluster, settings.gateway, settings.leafnodes
    routes = () if cluster is None else cluster.routes
    peers: list[tuple[str, Callable[[str], RemoteURL], Sequence[str]]]
    peers = [("cluster.routes", splitRoute, routes)]
    for peer in () if gateway is None else gateway.gateways:
        peers.append(("gateway.gateways", splitRoute, peer.urls))
    for remote in () if leafnodes is None else leafnodes.remotes:
        peers.append(("leafnodes.remotes", splitRemote, remote.urls))
    for key, split, urls in peers:
        for target in map(split, urls):
            if not target.port:
                yield key, f"the URL of {target.host} has no port that can be dialled"


def openListeners(settings: Settings, required: bool) -> Found:
    authorization = settings.authorization
    if authorization.plugin or authorization.auth_callout or settings.operator.isOn:
        return
    streaming = settings.streaming
    if (streaming is None or not streaming.nats_server) and isOpen(settings.host, required):
        key = keyIn(settings, "port", "listen")
        yield key, OPEN_TO_OTHERS.format(joined(settings.host, settings.port))
    for name in ("websocket", "mqtt"):
        block = getattr(settings, name)
        if block is None or not block.port:
            continue
        if isOpen(block.host, not block.no_auth_user if block.asksItself else required):
            key = keyIn(settings, f"{name}.port", f"{name}.listen")
            yield key, OPEN_TO_OTHERS.format(joined(block.host, block.port))


def keyIn(settings: Settings, *keys: str) -> str:
    return next((key for key in keys if key in settings.places), keys[0])


def isOpen(host: str, required: bool) -> bool:
    """
    @param host: where clients connect; empty for a socket that has none.
    @param required: whether clients must authenticate.
    """
    return bool(host) and not (required or isLoopback(host))
