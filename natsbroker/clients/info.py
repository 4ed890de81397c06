"""
The INFO line for clients: nats-server's keys in its order, C{natsbroker}, with the version of this
broker, and C{nb_export}, with the newest version of columnar frames for jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from natsbroker import API_LEVEL
from natsbroker.wire.connect import infoLine

#: What nats-server lets an operator switch in its JetStream, under its names. None of it is here.
FEATURE_FLAGS: Mapping[str, bool] = {
    "js_ack_fc_v2": False,
    "js_api_reply_v2": False,
    "js_raft_delete_range": False,
    "js_snapshot_sources": False,
}


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """
    The part of INFO about the server; L{line} adds the part about a connection.

    @ivar version: the nats-server release whose behaviour we match: clients switch features off for
        less.
    @ivar nb_export: 0 where nothing is stored that could be exported.
    @ivar connect_urls: where else clients can connect, as C{host:port}.
    @ivar ws_connect_urls: the same for clients over WebSocket, which get them as C{connect_urls}.
    """

    server_id: str
    server_name: str
    version: str
    natsbroker: str
    host: str = "0.0.0.0"
    port: int = 4222
    git_commit: str = ""
    headers: bool = True
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    max_payload: int = 1 << 20
    jetstream: bool = False
    cluster: str = ""
    cluster_dynamic: bool = False
    connect_urls: tuple[str, ...] = ()
    ws_connect_urls: tuple[str, ...] = ()
    ldm: bool = False
    xkey: str = ""
    nb_export: int = 0

    def changed(self, **fields: Any) -> ServerInfo:
        return replace(self, **fields)

    def line(
        self,
        cid: int,
        client_ip: str,
        max_payload: int | None = None,
        nonce: str = "",
        account: str = "",
        isSystem: bool = False,
        connect_info: bool = False,
    ) -> bytes:
        """
        @param max_payload: its own limit, if any.
        @param connect_info: whether this INFO answers its CONNECT.
        """
        ours = {field.name: getattr(self, field.name) for field in fields(self)}
        ours |= {
            "proto": 1,
            "go": "",
            "max_payload": self.max_payload if max_payload is None else max_payload,
            "client_id": cid,
            "client_ip": client_ip,
            "nonce": nonce,
            "connect_info": connect_info,
            "remote_account": account,
            "acc_is_sys": isSystem,
            "api_lvl": API_LEVEL,
        }
        return infoLine({name: ours[name] for name in _ORDER})


_ORDER = (
    *("server_id", "server_name", "version", "proto", "git_commit", "go", "host", "port"),
    *("headers", "auth_required", "tls_required", "tls_verify", "tls_available", "max_payload"),
    *("jetstream", "client_id", "client_ip", "nonce", "cluster", "cluster_dynamic"),
    *("connect_urls", "ldm", "connect_info", "remote_account", "acc_is_sys"),
    *("api_lvl", "xkey"),
    *("natsbroker", "nb_export"),
)
