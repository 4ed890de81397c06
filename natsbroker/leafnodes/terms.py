"""
The fields of INFO and CONNECT on leafnode connections, with the names and the order of nats-server;
C{natsbroker} is added.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from natsbroker import NATS_VERSION, __version__
from natsbroker.accounts.tracing import TRACING_PROTOCOL
from natsbroker.auth.defaultauthorizer import Logins, SettingsAuthorizer, UserEntry, grantFrom
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.config.addresses import RemoteURL, joined
from natsbroker.config.model import GLOBAL_ACCOUNT, Settings, TLSSettings, User
from natsbroker.config.settings.leafnodes import Leafnodes, RemoteLeaf, splitRemote
from natsbroker.config.settings.listeners import advertised
from natsbroker.connections.hostaddresses import addressesOf
from natsbroker.connections.tlscontext import contextFrom, contextWithout, diallingContextFrom
from natsbroker.interfaces import IAuthorizer
from natsbroker.links.identity import LinkIdentity, identityAt
from natsbroker.links.settingsmapper import linkSettings
from natsbroker.links.tls import LinkTLS

#: Our protocol level: with message tracing.
_PROTO = TRACING_PROTOCOL


def infoDocument(
    identity: LinkIdentity, settings: Settings, cluster: str, **connection: Any
) -> dict[str, Any]:
    tls = (settings.leafnodes or Leafnodes()).tls
    return {
        **identity.head(_PROTO),
        "headers": not settings.no_header_support,
        "auth_required": True,
        "tls_required": tls is not None,
        "tls_verify": tls is not None and tls.verify,
        "max_payload": settings.max_payload,
        "ip": identity.ip,
        "cluster": cluster,
        "info_on_connect": True,
        "domain": settings.jetstream.domain,
        **connection,
        "natsbroker": __version__,
    }


def connectOptions(
    identity: LinkIdentity,
    settings: Settings,
    cluster: str,
    remote: RemoteLeaf,
    url: RemoteURL,
    compression: str,
) -> dict[str, Any]:
    return {
        "version": NATS_VERSION,
        "user": url.user,
        "pass": url.password or "",
        "auth_token": url.user if url.password is None else "",
        "server_id": identity.server_id,
        "name": identity.server_name,
        "is_hub": remote.hub,
        "cluster": cluster,
        "headers": not settings.no_header_support,
        "domain": settings.jetstream.domain,
        "deny_pub": list(remote.deny_imports),
        "isolate": remote.request_isolation,
        "compress_mode": compression,
        "remote_account": remote.localAccount,
        "protocol": _PROTO,
    }


def leafSettings(settings: Settings, leafnodes: Leafnodes) -> Settings:
    return replace(linkSettings(settings, leafnodes), max_payload=settings.max_payload)


def identityFrom(
    settings: Settings, leafnodes: Leafnodes, serverId: str, port: int
) -> LinkIdentity:
    """
    @param port: of our listener; 0 for none.
    """
    host = leafnodes.host
    if leafnodes.advertise:
        host, port = advertised(leafnodes.advertise, port)
    elif port:
        host = addressesOf(host)[0]
    ip = joined(host, port) if port else ""
    return identityAt(settings, serverId, host, port, ip)


def authorizerFrom(
    settings: Settings, leafnodes: Leafnodes, checks: PasswordChecks
) -> IAuthorizer | None:
    """
    @return: C{None} for the authorizer of clients.
    """

    def somebody(name: str, password: str, account: str, needsProxy: bool = False) -> UserEntry:
        user = User(name, password, account or GLOBAL_ACCOUNT)
        needsProxy = needsProxy or leafnodes.proxy_required
        return UserEntry(password, grantFrom(user, settings), needsProxy=needsProxy)

    account = leafnodes.account
    if leafnodes.user:
        single = somebody(leafnodes.user, leafnodes.password, account)
        return SettingsAuthorizer(checks, Logins(single=single))
    if leafnodes.nkey:
        keys = {leafnodes.nkey: somebody("", "", account)}
        return SettingsAuthorizer(checks, Logins(keys=keys))
    if leafnodes.users:
        users = {
            user.user: somebody(user.user, user.password, user.account, user.proxy_required)
            for user in leafnodes.users
        }
        isMapped = leafnodes.tls is not None and leafnodes.tls.verify_and_map
        return SettingsAuthorizer(checks, Logins(users, mapsCertificates=isMapped))
    if account and _isOpen(settings):
        guest = somebody("guest", "", account)
        return SettingsAuthorizer(checks, Logins({"guest": guest}, noAuthUser="guest"))
    return None


def _isOpen(settings: Settings) -> bool:
    authorization = settings.authorization
    asks = authorization.user or authorization.token or authorization.plugin
    return not (asks or settings.operator.isOn or any(True for _ in settings.users()))


def acceptingTLSFrom(leafnodes: Leafnodes) -> LinkTLS | None:
    tls = leafnodes.tls
    if tls is None or not leafnodes.port:
        return None
    context = contextFrom(tls) if tls.certs else contextWithout(tls)
    return LinkTLS(context, context, tls)


def diallingTLSFrom(remote: RemoteLeaf) -> LinkTLS:
    tls = remote.tls or TLSSettings()
    isRequired = remote.tls is not None or any(splitRemote(url).isTLS for url in remote.urls)
    context = diallingContextFrom(tls)
    return LinkTLS(context, context, tls, isRequired)
