"""
The INFO line for clients: nats-server's keys in its order, C{natsbroker}, with the version of this
broker, and C{nb_export}, with the newest version of columnar frames for jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from natsbroker import API_LEVEL
from natsbroker.wire.connect import infoLine, writeText

#: The feature flags of nats-server's JetStream. This broker has none of the features.
FEATURE_FLAGS: Mapping[str, bool] = {
    "js_ack_fc_v2": False,
    "js_api_reply_v2": False,
    "js_raft_delete_range": False,
    "js_snapshot_sources": False,
}

#: The part of a line that differs between accounts rather than connections: the limit of payloads,
#: the account, whether it is the system account, and whether the line answers a CONNECT.
_Shape = tuple[int | None, str, bool, bool]

#: The most shapes of lines that are remembered.
MOST_SHAPES = 64

#: A number that marks the place of the connection's number in a line.
_MARK = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """
    The part of INFO about the server; L{line} adds the part about a connection.

    @ivar version: the nats-server release whose behaviour we match. With an older one, clients
        switch features off.
    @ivar nb_export: 0 where nothing is stored that could be exported.
    @ivar connect_urls: further addresses at which clients can connect, as C{host:port}.
    @ivar ws_connect_urls: the addresses for clients over WebSocket, which receive them as
        C{connect_urls}.
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
    _pieces: dict[_Shape, tuple[bytes, bytes]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

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
        @param max_payload: the client's own limit, if any.
        @param connect_info: whether this INFO answers its CONNECT.
        """
        shape = (max_payload, account, isSystem, connect_info)
        pieces = self._pieces.get(shape)
        if pieces is None:
            if len(self._pieces) == MOST_SHAPES:
                self._pieces.clear()
            pieces = self._pieces[shape] = self._cut(*shape)
        before, after = pieces
        address = b',"client_ip":%b' % writeText(client_ip) if client_ip else b""
        login = b',"nonce":%b' % writeText(nonce) if nonce else b""
        return b"%b%d%b%b%b" % (before, cid, address, login, after)

    def _cut(
        self, max_payload: int | None, account: str, isSystem: bool, connect_info: bool
    ) -> tuple[bytes, bytes]:
        """The line before the number of a connection, and after its nonce."""
        ours = {field.name: getattr(self, field.name) for field in fields(self)}
        ours |= {
            "proto": 1,
            "go": "",
            "max_payload": self.max_payload if max_payload is None else max_payload,
            "client_id": _MARK,
            "connect_info": connect_info,
            "remote_account": account,
            "acc_is_sys": isSystem,
            "api_lvl": API_LEVEL,
        }
        line = infoLine({name: ours[name] for name in _ORDER})
        before, _, after = line.rpartition(b'"client_id":%d' % _MARK)
        return before + b'"client_id":', after


_ORDER = (
    *("server_id", "server_name", "version", "proto", "git_commit", "go", "host", "port"),
    *("headers", "auth_required", "tls_required", "tls_verify", "tls_available", "max_payload"),
    *("jetstream", "client_id", "cluster", "cluster_dynamic"),
    *("connect_urls", "ldm", "connect_info", "remote_account", "acc_is_sys"),
    *("api_lvl", "xkey"),
    *("natsbroker", "nb_export"),
)
