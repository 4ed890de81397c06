"""
The keys of the blocks that connect servers: C{cluster}, C{gateway}, C{leafnodes}.
"""

from __future__ import annotations

from natsbroker.config.keys.shared import (
    COMPRESSION,
    COUNT,
    FLAG,
    LIST,
    LOGIN,
    NETWORK,
    PERMISSIONS,
    PROXY_REQUIRED,
    SECRET,
    STRINGS,
    TEXT,
    TIME,
    TLS_KEY,
    TLS_SECTION,
    WAIT,
    WRITING,
)
from natsbroker.config.keys.types import (
    ADDRESS,
    BOOLEAN,
    INTEGER,
    STRING,
    BlockSchema,
    BlockType,
    Key,
    ListType,
    Unsupported,
)


def _tls(links: str) -> Key:
    """
    @param links: what the error of an unsupported key calls them.
    """
    mapped = Unsupported(f"users of {links} by certificate", False)
    return Key(BlockType(TLS_SECTION, unsupported={"verify_and_map": mapped}))


LINK_LOGIN = BlockSchema(
    "cluster.authorization",
    {
        **LOGIN,
        "timeout": WAIT,
        "permissions": Key(
            BlockType(PERMISSIONS),
            aliases="default_permission default_permissions",
        ),
        "proxy_required": PROXY_REQUIRED,
    },
)

CLUSTER = BlockSchema(
    "cluster",
    {
        "listen": Key(ADDRESS),
        "host": Key(STRING, aliases="net", restart="cluster host"),
        "port": Key(INTEGER, restart="cluster port"),
        "name": Key(STRING, restart="cluster name"),
        "authorization": Key(BlockType(LINK_LOGIN)),
        "routes": Key(STRINGS),
        "tls": _tls("routes"),
        "cluster_advertise": Key(STRING, aliases="advertise"),
        "no_advertise": FLAG,
        "connect_retries": COUNT,
        "connect_backoff": FLAG,
        "permissions": Key(BlockType(PERMISSIONS)),
        "pool_size": COUNT,
        "accounts": LIST,
        "compression": COMPRESSION,
        "ping_interval": TIME,
        "ping_max": COUNT,
        **WRITING,
        "dialect": TEXT,
        "insecure_listen": FLAG,
    },
)

REMOTE_GATEWAY = BlockSchema(
    "gateway.gateways[]",
    {"name": TEXT, "tls": _tls("gateways"), "url": TEXT, "urls": Key(STRINGS)},
)

GATEWAY_INTEREST = BlockSchema(
    "gateway.interest", {"plugin": TEXT, "switch_after": COUNT}, opener="plugin"
)

GATEWAY = BlockSchema(
    "gateway",
    {
        **NETWORK,
        "name": TEXT,
        "authorization": Key(BlockType(LINK_LOGIN)),
        "tls": _tls("gateways"),
        "advertise": TEXT,
        "connect_retries": COUNT,
        "connect_backoff": FLAG,
        "gateways": Key(ListType(Key(BlockType(REMOTE_GATEWAY)), "an array of maps")),
        "reject_unknown_cluster": Key(BOOLEAN, aliases="reject_unknown"),
        "insecure_listen": FLAG,
        "interest": Key(BlockType(GATEWAY_INTEREST)),
        **WRITING,
    },
)

LEAF_USER = BlockSchema(
    "leafnodes.authorization.users[]",
    {**LOGIN, "account": TEXT, "proxy_required": PROXY_REQUIRED},
)

LEAF_LOGIN = BlockSchema(
    "leafnodes.authorization",
    {
        **LOGIN,
        "nkey": SECRET,
        "timeout": WAIT,
        "users": Key(ListType(Key(BlockType(LEAF_USER)), "an array of maps")),
        "account": TEXT,
        "proxy_required": PROXY_REQUIRED,
    },
)

LEAF_PROXY = BlockSchema(
    "leafnodes.remotes[].proxy",
    {"url": TEXT, "username": TEXT, "password": SECRET, "timeout": TIME},
)

MIGRATION = BlockSchema(
    "leafnodes.remotes[].jetstream_cluster_migrate",
    {"leader_migrate_delay": TIME},
)

_WEBSOCKET = Unsupported("leafnodes over WebSocket", False)

REMOTE_LEAF = BlockSchema(
    "leafnodes.remotes[]",
    {
        "urls": Key(STRING, STRINGS, aliases="url"),
        "no_randomize": Key(BOOLEAN, aliases="dont_randomize"),
        "account": Key(STRING, aliases="local"),
        "credentials": Key(STRING, aliases="creds", isSecret=True),
        "nkey": Key(STRING, aliases="seed", isSecret=True),
        "tls": TLS_KEY,
        "hub": FLAG,
        "deny_imports": Key(STRING, STRINGS, aliases="deny_import"),
        "deny_exports": Key(STRING, STRINGS, aliases="deny_export"),
        "ws_compression": Key(
            BOOLEAN,
            aliases="ws_compress websocket_compress websocket_compression",
            unsupported=_WEBSOCKET,
        ),
        "ws_no_masking": Key(BOOLEAN, aliases="websocket_no_masking", unsupported=_WEBSOCKET),
        "jetstream_cluster_migrate": Key(
            BOOLEAN,
            STRING,
            BlockType(MIGRATION),
            aliases="js_cluster_migrate",
            unsupported=Unsupported("JetStream", False),
        ),
        "isolate_leafnode_interest": Key(BOOLEAN, aliases="isolate"),
        "request_isolation": FLAG,
        "compression": COMPRESSION,
        "first_info_timeout": TIME,
        "dial_timeout": TIME,
        "disabled": FLAG,
        "proxy": Key(BlockType(LEAF_PROXY), unsupported=Unsupported("leafnodes through a proxy")),
        "ignore_discovered_servers": FLAG,
    },
)

LEAFNODES = BlockSchema(
    "leafnodes",
    {
        **NETWORK,
        "authorization": Key(BlockType(LEAF_LOGIN)),
        "remotes": Key(ListType(Key(BlockType(REMOTE_LEAF)), "an array of maps")),
        "reconnect": Key(*TIME.types, aliases="reconnect_delay reconnect_interval"),
        "dial_timeout": TIME,
        "tls": TLS_KEY,
        "advertise": Key(STRING, aliases="leafnode_advertise"),
        "no_advertise": FLAG,
        "min_version": Key(STRING, aliases="minimum_version"),
        "compression": COMPRESSION,
        "isolate_leafnode_interest": Key(BOOLEAN, aliases="isolate"),
        **WRITING,
    },
)
