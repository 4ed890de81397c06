"""
What INFO and CONNECT contain on leafnode connections, with the names and the order of nats-server;
C{natsbroker} is added.
"""

from __future__ import annotations

from typing import Any

from natsbroker import NATS_VERSION, __version__
from natsbroker.config.addresses import RemoteURL
from natsbroker.config.model import Settings
from natsbroker.leafnodes.settings import Leafnodes, RemoteLeaf
from natsbroker.routes.terms import LinkIdentity

#: Our protocol level: without message tracing.
_PROTO = 2


def infoDocument(
    identity: LinkIdentity, settings: Settings, cluster: str, **connection: Any
) -> dict[str, Any]:
    """
    @param connection: the members for one connection at one moment.
    """
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
    """
    Our CONNECT without credentials.

    @param compression: the level that we send at.
    """
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
