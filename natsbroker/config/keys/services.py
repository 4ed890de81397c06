"""
The keys of JetStream, WebSocket, MQTT, operator mode, OCSP, proxies, and of what accounts exchange.
"""

from __future__ import annotations

from natsbroker.config.keys.shared import (
    COUNT,
    FLAG,
    LIST,
    LOGIN,
    NETWORK,
    SECRET,
    STRINGS,
    TEXT,
    TIME,
    TLS_KEY,
    WAIT,
)
from natsbroker.config.keys.types import (
    ALWAYS,
    BOOLEAN,
    DURATION,
    HEADERS,
    INTEGER,
    PERCENTAGE,
    SIZE,
    STRING,
    BlockSchema,
    BlockType,
    Key,
    ListType,
    MapType,
)

_STORAGE = Key(SIZE)

BATCH_LIMITS = BlockSchema(
    "jetstream.limits.batch",
    {
        "max_inflight_per_stream": COUNT,
        "max_inflight_total": COUNT,
        "max_msgs": COUNT,
        "timeout": Key(DURATION),
    },
)

JETSTREAM_LIMITS = BlockSchema(
    "jetstream.limits",
    {
        "max_ack_pending": COUNT,
        "max_ha_assets": COUNT,
        "max_request_batch": COUNT,
        "duplicate_window": Key(DURATION),
        "batch": Key(BlockType(BATCH_LIMITS)),
    },
)

JETSTREAM_TPM = BlockSchema(
    "jetstream.tpm",
    {
        "keys_file": TEXT,
        "encryption_password": SECRET,
        "srk_password": SECRET,
        "pcr": COUNT,
        "cipher": TEXT,
    },
)

JETSTREAM = BlockSchema(
    "jetstream",
    {
        "enabled": Key(BOOLEAN, aliases="enable"),
        "store_dir": Key(STRING, aliases="store storedir", restart="jetstream storage directory"),
        "max_memory_store": Key(SIZE, aliases="max_mem_store max_mem"),
        "max_file_store": Key(SIZE, aliases="max_file"),
        "domain": TEXT,
        "encryption_key": Key(STRING, aliases="key ek", isSecret=True),
        "prev_encryption_key": Key(STRING, aliases="prev_key prev_ek", isSecret=True),
        "cipher": TEXT,
        "sync_interval": Key(ALWAYS, *TIME.types, aliases="sync"),
        "limits": Key(BlockType(JETSTREAM_LIMITS)),
        "tpm": Key(BlockType(JETSTREAM_TPM)),
        "unique_tag": TEXT,
        "strict": FLAG,
        "extension_hint": TEXT,
        "max_outstanding_catchup": _STORAGE,
        "max_buffered_size": _STORAGE,
        "max_buffered_msgs": COUNT,
        "request_queue_limit": COUNT,
        "info_queue_limit": COUNT,
        "meta_compact": COUNT,
        "meta_compact_size": _STORAGE,
        "meta_compact_sync": FLAG,
        "max_concurrent_io": COUNT,
    },
)

ACCOUNT_JETSTREAM = BlockSchema(
    "accounts.*.jetstream",
    {
        "max_memory": Key(INTEGER, aliases="max_mem mem memory"),
        "max_store": Key(INTEGER, aliases="max_file max_disk store disk"),
        "max_streams": Key(INTEGER, aliases="streams"),
        "max_consumers": Key(INTEGER, aliases="consumers"),
        "max_bytes_required": Key(BOOLEAN, aliases="max_stream_bytes max_bytes"),
        "memory_max_stream_bytes": Key(INTEGER, aliases="mem_max_stream_bytes"),
        "disk_max_stream_bytes": Key(INTEGER, aliases="store_max_stream_bytes"),
        "max_ack_pending": COUNT,
        "cluster_traffic": TEXT,
    },
)

WEBSOCKET_LOGIN = BlockSchema(
    "websocket.authorization", {**LOGIN, "token": SECRET, "timeout": WAIT}
)

WEBSOCKET = BlockSchema(
    "websocket",
    {
        **NETWORK,
        "advertise": TEXT,
        "no_tls": FLAG,
        "tls": TLS_KEY,
        "same_origin": FLAG,
        "allowed_origins": Key(
            STRING,
            STRINGS,
            aliases="allowed_origin allow_origins allow_origin origins origin",
        ),
        "handshake_timeout": WAIT,
        "compression": Key(BOOLEAN, aliases="compress"),
        "authorization": Key(BlockType(WEBSOCKET_LOGIN), aliases="authentication"),
        "jwt_cookie": TEXT,
        "user_cookie": TEXT,
        "pass_cookie": TEXT,
        "token_cookie": TEXT,
        "no_auth_user": TEXT,
        "headers": Key(MapType(TEXT)),
        "ping_interval": TIME,
    },
)

MQTT = BlockSchema(
    "mqtt",
    {
        **NETWORK,
        "tls": TLS_KEY,
        "authorization": Key(BlockType(WEBSOCKET_LOGIN), aliases="authentication"),
        "no_auth_user": TEXT,
        "ack_wait": Key(*TIME.types, aliases="ackwait"),
        "js_api_timeout": Key(*TIME.types, aliases="api_timeout"),
        "max_ack_pending": Key(INTEGER, aliases="max_pending max_inflight"),
        "js_domain": TEXT,
        "stream_replicas": COUNT,
        "consumer_replicas": COUNT,
        "consumer_memory_storage": FLAG,
        "consumer_inactive_threshold": Key(*TIME.types, aliases="consumer_auto_cleanup"),
        "reject_qos2_publish": FLAG,
        "downgrade_qos2_subscribe": FLAG,
    },
)

RESOLVER = BlockSchema(
    "resolver",
    {
        "dir": TEXT,
        "type": TEXT,
        "allow_delete": FLAG,
        "hard_delete": FLAG,
        "limit": COUNT,
        "ttl": Key(DURATION),
        "interval": Key(DURATION),
        "timeout": Key(DURATION),
    },
)

OCSP = BlockSchema("ocsp", {"mode": TEXT, "url": TEXT, "urls": Key(STRINGS)})

OCSP_CACHE = BlockSchema(
    "ocsp_cache",
    {"type": TEXT, "local_store": TEXT, "preserve_revoked": FLAG, "save_interval": WAIT},
)

PROXY = BlockSchema("proxies.trusted[]", {"key": Key(STRING, aliases="public_key", isSecret=True)})

PROXIES = BlockSchema(
    "proxies",
    {"trusted": Key(ListType(Key(BlockType(PROXY)), "an array of maps"))},
)

AUTH_CALLOUT = BlockSchema(
    "authorization.auth_callout",
    {
        "issuer": TEXT,
        "account": Key(STRING, aliases="acc"),
        "auth_users": Key(STRINGS, aliases="users"),
        "xkey": Key(STRING, aliases="key"),
        "allowed_accounts": Key(STRINGS),
    },
)

DESTINATION = BlockSchema(
    "mappings.*",
    {"dest": Key(STRING, aliases="destination"), "weight": Key(PERCENTAGE), "cluster": TEXT},
    variables=False,
)
MAPPINGS = Key(
    MapType(
        Key(
            STRING,
            ListType(Key(BlockType(DESTINATION)), "an array of maps"),
            BlockType(DESTINATION),
        )
    ),
    aliases="maps",
)

LATENCY = BlockSchema(
    "accounts.*.exports[].latency", {"sampling": Key(HEADERS, PERCENTAGE), "subject": TEXT}
)

EXPORT = BlockSchema(
    "accounts.*.exports[]",
    {
        "stream": TEXT,
        "service": TEXT,
        "response_type": Key(STRING, aliases="response"),
        "response_threshold": Key(DURATION, aliases="threshold response_max_time response_time"),
        "accounts": Key(STRINGS),
        "latency": Key(STRING, BlockType(LATENCY)),
        "account_token_position": COUNT,
        "allow_trace": FLAG,
    },
)

IMPORTED = BlockSchema("accounts.*.imports[].stream", {"account": TEXT, "subject": TEXT})

IMPORT = BlockSchema(
    "accounts.*.imports[]",
    {
        "stream": Key(BlockType(IMPORTED)),
        "service": Key(BlockType(IMPORTED)),
        "prefix": TEXT,
        "to": TEXT,
        "share": FLAG,
        "allow_trace": FLAG,
    },
)

TRACE = BlockSchema("accounts.*.msg_trace", {"dest": TEXT, "sampling": Key(PERCENTAGE)})

EXPORTS = Key(ListType(Key(BlockType(EXPORT)), "an array of maps"))
IMPORTS = Key(ListType(Key(BlockType(IMPORT)), "an array of maps"))
OPERATORS = Key(
    STRING,
    STRINGS,
    aliases="operators roots root root_operators root_operator",
    restart="TrustedOperators",
    field="operator.operators",
)
TRUSTED_KEYS = Key(
    *LIST.types, aliases="trusted", restart="TrustedKeys", field="operator.trusted_keys"
)
