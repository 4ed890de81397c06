"""
The terms of leafnode connections, made from the settings.

Credentials are read from their file each time that they are needed.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from natsbroker.auth.configured import Logins, SettingsAuthorizer, UserEntry, grantFrom
from natsbroker.auth.nkeys import Signer
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.clients.listener import joined
from natsbroker.config.model import GLOBAL_ACCOUNT, Settings, TLSSettings, User
from natsbroker.connections.tlscontext import contextFrom, diallingContextFrom
from natsbroker.interfaces import IAuthorizer
from natsbroker.leafnodes.reading import seedOf
from natsbroker.leafnodes.settings import Leafnodes, RemoteLeaf, RemoteURL, splitRemote
from natsbroker.leafnodes.terms import Credentials, LeafRemoteTerms, LeafTerms, LeafTLS, LeafURL
from natsbroker.links.context import LinkLimits
from natsbroker.links.settings import advertised
from natsbroker.links.settingsmapper import (
    handshakeOf,
    identityAt,
    limitsOf,
    secured,
)
from natsbroker.routes.terms import LinkIdentity
from natsbroker.server.hostaddresses import addressesOf
from natsbroker.wire.nkeys import Role

_PART = re.compile(r"-{3,}[^-\n]*-{3,}\r?\n([\w.=-]+)\r?\n-{3,}[^-\n]*-{3,}")


def termsFrom(settings: Settings, leafnodes: Leafnodes) -> LeafTerms:
    tls = leafnodes.tls
    version = leafnodes.min_version.removeprefix("v")
    numbers = [int(each) for each in version.split(".")] if version else []
    return LeafTerms(
        headers=not settings.no_header_support,
        maxPayload=settings.max_payload,
        hasTLS=tls is not None,
        verifiesTLS=tls is not None and tls.verify,
        minVersion=(numbers[0], numbers[1], numbers[2]) if numbers else None,
        isIsolated=leafnodes.isolate,
        handshake=handshakeOf(leafnodes),
        domain=settings.jetstream.domain,
        system="" if settings.no_system_account else settings.system_account,
        extends=settings.jetstream.will_extend,
        defaultDomains=settings.jetstream.default_domains,
        compression=leafnodes.compression,
    )


def limitsFrom(settings: Settings, leafnodes: Leafnodes) -> LinkLimits:
    return replace(limitsOf(settings, leafnodes), max_payload=settings.max_payload)


def identityFrom(
    settings: Settings, leafnodes: Leafnodes, serverId: str, port: int
) -> LinkIdentity:
    """
    Our identity to leafnodes.

    @param port: of our listener; 0 for none.
    """
    host = leafnodes.host
    if leafnodes.advertise:
        host, port = advertised(leafnodes.advertise, port)
    elif port:
        host = addressesOf(host)[0]
    ip = joined(host, port) if port else ""
    return identityAt(settings, serverId, host, port, ip)


# Logins.


def authorizerFrom(
    settings: Settings, leafnodes: Leafnodes, checks: PasswordChecks
) -> IAuthorizer | None:
    """
    The authorizer of leafnodes.

    @return: C{None} for the authorizer of clients.
    @raise ValueError: if the settings are not valid.
    """

    def somebody(name: str, password: str, account: str) -> UserEntry:
        user = User(name, password, account or GLOBAL_ACCOUNT)
        return UserEntry(password, grantFrom(user, settings))

    account = leafnodes.account
    if leafnodes.user:
        single = somebody(leafnodes.user, leafnodes.password, account)
        return SettingsAuthorizer(checks, Logins(single=single))
    if leafnodes.nkey:
        keys = {leafnodes.nkey: somebody("", "", account)}
        return SettingsAuthorizer(checks, Logins(keys=keys))
    if leafnodes.users:
        users = {
            each.user: somebody(each.user, each.password, each.account) for each in leafnodes.users
        }
        isMapped = leafnodes.tls is not None and leafnodes.tls.verify_and_map
        return SettingsAuthorizer(checks, Logins(users, mapsCertificates=isMapped))
    if account and _isOpen(settings):
        guest = somebody("guest", "", account)
        return SettingsAuthorizer(checks, Logins({"guest": guest}, noAuthUser="guest"))
    return None


def _isOpen(settings: Settings) -> bool:
    """
    Whether clients need no login.
    """
    authorization = settings.authorization
    asks = authorization.user or authorization.token or authorization.plugin
    return not (asks or settings.operator.isOn or any(True for _ in settings.users()))


# Remotes.


def remoteFrom(remote: RemoteLeaf, leafnodes: Leafnodes) -> LeafRemoteTerms:
    """
    @raise natsbroker.connections.tlscontext.TLSSettingsError: if a certificate is no good.
    """
    places = [splitRemote(url) for url in remote.urls]
    isRequired = remote.tls is not None or any(each.isTLS for each in places)
    return LeafRemoteTerms(
        urls=tuple(map(_url, places)),
        account=remote.account or GLOBAL_ACCOUNT,
        isHub=remote.hub,
        denyImports=_patterns(remote.deny_imports),
        denyExports=_patterns(remote.deny_exports),
        credentials=_credentials(remote),
        isIsolated=remote.isolate,
        wantsIsolation=remote.request_isolation,
        isShuffled=not remote.no_randomize,
        learns=not remote.ignore_discovered_servers,
        firstInfo=remote.first_info_timeout,
        dialling=remote.dial_timeout or leafnodes.dial_timeout,
        isDisabled=remote.disabled,
        tls=_diallingTLS(remote.tls or TLSSettings(), isRequired),
        compression=remote.compression,
    )


def _url(place: RemoteURL) -> LeafURL:
    return LeafURL(place.host, place.port, place.user, place.password)


def _patterns(texts: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(each.encode("utf-8", "surrogateescape") for each in texts)


def _credentials(remote: RemoteLeaf) -> Credentials:
    path, seed = remote.credentials, remote.nkey

    def prove(nonce: str) -> Mapping[str, Any]:
        if path:
            jwt, secret = _read(path)
            return {"jwt": jwt, "sig": _signature(Signer(Role.USER, secret), nonce)}
        if seed:
            signer = Signer(Role.USER, seedOf(seed))
            return {"nkey": signer.publicKey, "sig": _signature(signer, nonce)}
        return {}

    return prove


def _read(path: str) -> tuple[str, bytes]:
    """
    The JWT and the secret in a file of credentials. Errors contain neither.
    """
    try:
        parts = _PART.findall(Path(path).expanduser().read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text"
        raise ValueError(f"credentials file {path}: {why}") from None
    if len(parts) < 2:
        raise ValueError(f"Credentials file {path} malformed")
    secret = seedOf(parts[1])
    if secret is None:
        raise ValueError(f"Credentials file {path} has malformed seed")
    return parts[0], secret


def _signature(signer: Signer, nonce: str) -> str:
    signed = signer.sign(nonce.encode("utf-8", "surrogatepass"))
    return base64.urlsafe_b64encode(signed).rstrip(b"=").decode("ascii")


# TLS.


def acceptingTLSFrom(leafnodes: Leafnodes) -> LeafTLS | None:
    """
    TLS of accepted connections.

    @raise natsbroker.connections.tlscontext.TLSSettingsError: if the files or names are not right.
    """
    tls = leafnodes.tls
    if tls is None or not leafnodes.port:
        return None
    context = contextFrom(tls)
    return LeafTLS(
        secured(tls, context, context), tls.handshake_first, tls.handshake_first_fallback
    )


def _diallingTLS(tls: TLSSettings, isRequired: bool) -> LeafTLS:
    context = diallingContextFrom(tls)
    return LeafTLS(secured(tls, context, context), tls.handshake_first, isRequired=isRequired)
