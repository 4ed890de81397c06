"""
The keys of the blocks that connect servers: C{cluster}, C{gateway}, C{leafnodes}.
"""

from __future__ import annotations

from natsbroker.config.keys.types import (
    ADDRESS,
    BOOLEAN,
    COMPRESSION,
    INTEGER,
    LIST,
    LOGIN,
    NATURAL,
    NATURAL_TIME,
    NATURAL_WAIT,
    NETWORK,
    PERMISSIONS,
    PROXY_REQUIRED,
    SECRET,
    SINGLE_LOGIN,
    STRING,
    STRINGS,
    TIME,
    TLS_KEY,
    WRITING,
    BlockSchema,
    Key,
    Unsupported,
    arrayOf,
    filled,
    natural,
)


def _proxyTimeout(seconds: float) -> float:
    if seconds < 0:
        raise ValueError("proxy timeout must be >= 0")
    return seconds


LINK_LOGIN = BlockSchema(
    "cluster.authorization",
    **SINGLE_LOGIN,
    timeout=NATURAL_WAIT,
    permissions=Key(PERMISSIONS, aliases="default_permission default_permissions"),
    proxy_required=Key(BOOLEAN, unsupported=Unsupported("trusted proxies of links", False)),
)

CLUSTER = BlockSchema(
    "cluster",
    listen=Key(ADDRESS),
    host=Key(STRING, aliases="net", restart="cluster host"),
    port=Key(INTEGER, restart="cluster port"),
    name=Key(STRING, restart="cluster name"),
    authorization=Key(LINK_LOGIN),
    routes=Key(STRINGS),
    tls=TLS_KEY,
    cluster_advertise=Key(STRING, aliases="advertise", field="cluster.advertise"),
    no_advertise=Key(BOOLEAN),
    connect_retries=NATURAL,
    connect_backoff=Key(BOOLEAN),
    permissions=Key(PERMISSIONS),
    pool_size=Key(INTEGER),
    accounts=LIST,
    compression=COMPRESSION,
    ping_interval=NATURAL_TIME,
    ping_max=NATURAL,
    **WRITING,
    dialect=Key(STRING),
    insecure_listen=Key(BOOLEAN),
)

REMOTE_GATEWAY = BlockSchema(
    "gateway.gateways[]", name=Key(STRING), tls=TLS_KEY, url=Key(STRING), urls=Key(STRINGS)
)

GATEWAY_INTEREST = BlockSchema(
    "gateway.interest", "plugin", plugin=Key(STRING), switch_after=Key(INTEGER)
)

GATEWAY = BlockSchema(
    "gateway",
    **NETWORK,
    name=Key(STRING),
    authorization=Key(LINK_LOGIN),
    tls=TLS_KEY,
    advertise=Key(STRING),
    connect_retries=NATURAL,
    connect_backoff=Key(BOOLEAN),
    gateways=Key(arrayOf(REMOTE_GATEWAY)),
    reject_unknown_cluster=Key(BOOLEAN, aliases="reject_unknown"),
    insecure_listen=Key(BOOLEAN),
    interest=Key(GATEWAY_INTEREST),
    **WRITING,
)

LEAF_USER = BlockSchema(
    "leafnodes.authorization.users[]",
    **{**LOGIN, "user": SINGLE_LOGIN["user"]},
    account=Key(STRING),
    proxy_required=PROXY_REQUIRED,
)

LEAF_LOGIN = BlockSchema(
    "leafnodes.authorization",
    **SINGLE_LOGIN,
    nkey=Key(STRING, check=filled, isSecret=True),
    timeout=NATURAL_WAIT,
    users=Key(arrayOf(LEAF_USER)),
    account=Key(STRING),
    proxy_required=PROXY_REQUIRED,
)

LEAF_PROXY = BlockSchema(
    "leafnodes.remotes[].proxy",
    url=Key(STRING),
    username=Key(STRING),
    password=SECRET,
    timeout=Key(*TIME.types, check=_proxyTimeout),
)

MIGRATION = BlockSchema("leafnodes.remotes[].jetstream_cluster_migrate", leader_migrate_delay=TIME)

REMOTE_LEAF = BlockSchema(
    "leafnodes.remotes[]",
    urls=Key(STRING, STRINGS, aliases="url"),
    no_randomize=Key(BOOLEAN, aliases="dont_randomize"),
    account=Key(STRING, aliases="local"),
    credentials=Key(STRING, aliases="creds", isSecret=True),
    nkey=Key(STRING, aliases="seed", isSecret=True),
    tls=TLS_KEY,
    hub=Key(BOOLEAN),
    deny_imports=Key(STRING, STRINGS, aliases="deny_import"),
    deny_exports=Key(STRING, STRINGS, aliases="deny_export"),
    ws_compression=Key(BOOLEAN, aliases="ws_compress websocket_compress websocket_compression"),
    ws_no_masking=Key(BOOLEAN, aliases="websocket_no_masking"),
    jetstream_cluster_migrate=Key(BOOLEAN, MIGRATION, aliases="js_cluster_migrate"),
    isolate_leafnode_interest=Key(BOOLEAN, aliases="isolate", field="isolate"),
    request_isolation=Key(BOOLEAN),
    compression=COMPRESSION,
    first_info_timeout=NATURAL_TIME,
    dial_timeout=NATURAL_TIME,
    disabled=Key(BOOLEAN),
    proxy=Key(LEAF_PROXY),
    ignore_discovered_servers=Key(BOOLEAN),
)

LEAFNODES = BlockSchema(
    "leafnodes",
    **NETWORK,
    authorization=Key(LEAF_LOGIN),
    remotes=Key(arrayOf(REMOTE_LEAF)),
    reconnect=Key(*TIME.types, aliases="reconnect_delay reconnect_interval", check=natural),
    dial_timeout=NATURAL_TIME,
    tls=TLS_KEY,
    advertise=Key(STRING, aliases="leafnode_advertise"),
    no_advertise=Key(BOOLEAN),
    min_version=Key(STRING, aliases="minimum_version"),
    compression=COMPRESSION,
    isolate_leafnode_interest=Key(BOOLEAN, aliases="isolate", field="leafnodes.isolate"),
    **WRITING,
)
