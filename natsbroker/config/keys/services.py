"""
The keys of JetStream, WebSocket, MQTT, operator mode, OCSP, proxies, NATS Streaming, and of what
accounts exchange. Those of C{streaming} are what nats-streaming-server 0.25 reads in
C{server/conf.go}, and our own: C{account}, C{store_options}, C{jetstream_accounts}, and store
names.
"""

from __future__ import annotations

from natsbroker.config.keys.types import (
    ALWAYS,
    ANY_MAP,
    BOOLEAN,
    DURATION,
    HEADERS,
    INTEGER,
    NATURAL_TIME,
    NATURAL_WAIT,
    NETWORK,
    PERCENTAGE,
    SECRET,
    SINGLE_LOGIN,
    SIZE,
    STRING,
    STRINGS,
    TIME,
    TLS_KEY,
    WAIT,
    BlockSchema,
    Key,
    MapType,
    StrictBlock,
    Unsupported,
    ValueType,
    arrayOf,
    filled,
    unsigned,
)


def _sampling(percentage: int) -> int:
    if not percentage:
        raise ValueError("Ttrace destination sampling value 0 is invalid, needs to be [1..100]")
    return percentage


def _cipher(name: str) -> str:
    cipher = _CIPHERS.get(name.lower())
    if cipher is None:
        raise ValueError(f'Unknown cipher type: "{name}"')
    return cipher


def _interval(given: str | float) -> float:
    return 0.0 if isinstance(given, str) else max(0.0, given)


_CIPHERS = {"chacha": "chacha", "chachapoly": "chacha", "aes": "aes"}


def _limit(name: str, *types: ValueType) -> Key:
    return Key(*types, field=f"jetstream.{name}")


BATCH_LIMITS = BlockSchema(
    "jetstream.limits.batch",
    max_inflight_per_stream=_limit("max_batch_inflight_per_stream", INTEGER),
    max_inflight_total=_limit("max_batch_inflight_total", INTEGER),
    max_msgs=_limit("max_batch_size", INTEGER),
    timeout=_limit("max_batch_timeout", DURATION),
)

JETSTREAM_LIMITS = BlockSchema(
    "jetstream.limits",
    max_ack_pending=_limit("max_ack_pending", INTEGER),
    max_ha_assets=Key(INTEGER),
    max_request_batch=_limit("max_request_batch", INTEGER),
    duplicate_window=_limit("duplicate_window", DURATION),
    default_max_consumers=_limit("default_max_consumers", INTEGER),
    batch=Key(BATCH_LIMITS),
)

JETSTREAM_TPM = BlockSchema(
    "jetstream.tpm",
    keys_file=Key(STRING),
    encryption_password=SECRET,
    srk_password=SECRET,
    pcr=Key(INTEGER),
    cipher=Key(STRING),
)

JETSTREAM = BlockSchema(
    "jetstream",
    enabled=Key(BOOLEAN, aliases="enable", restart="JetStream"),
    store_dir=Key(STRING, aliases="store storedir", restart="jetstream storage directory"),
    backend=Key(STRING, restart="JetStreamBackend"),
    backend_options=Key(ANY_MAP, restart="JetStreamBackend"),
    max_memory_store=Key(SIZE, aliases="max_mem_store max_mem"),
    max_file_store=Key(SIZE, aliases="max_file"),
    domain=Key(STRING, restart="JetStreamDomain"),
    encryption_key=Key(STRING, aliases="key ek", isSecret=True, restart="JetStreamKey"),
    prev_encryption_key=Key(
        STRING, aliases="prev_key prev_ek", isSecret=True, restart="JetStreamOldKey"
    ),
    cipher=Key(STRING, check=_cipher, restart="JetStreamCipher"),
    sync_interval=Key(ALWAYS, *TIME.types, aliases="sync", check=_interval, restart="SyncInterval"),
    limits=Key(JETSTREAM_LIMITS),
    tpm=Key(JETSTREAM_TPM, unsupported=Unsupported("keys in a TPM")),
    unique_tag=Key(STRING),
    strict=Key(BOOLEAN, restart="NoJetStreamStrict"),
    extension_hint=Key(
        STRING,
        field="jetstream.will_extend",
        check=lambda text: text.lower() == "will_extend",
    ),
    max_outstanding_catchup=Key(SIZE),
    max_buffered_size=Key(SIZE),
    max_buffered_msgs=Key(INTEGER),
    request_queue_limit=Key(INTEGER),
    info_queue_limit=Key(INTEGER),
    meta_compact=Key(INTEGER),
    meta_compact_size=Key(SIZE),
    meta_compact_sync=Key(BOOLEAN),
    max_concurrent_io=Key(INTEGER),
)

ACCOUNT_JETSTREAM = BlockSchema(
    "accounts.*.jetstream",
    max_memory=Key(INTEGER, aliases="max_mem mem memory"),
    max_store=Key(INTEGER, aliases="max_file max_disk store disk"),
    max_streams=Key(INTEGER, aliases="streams"),
    max_consumers=Key(INTEGER, aliases="consumers"),
    max_bytes_required=Key(BOOLEAN, aliases="max_stream_bytes max_bytes"),
    memory_max_stream_bytes=Key(INTEGER, aliases="mem_max_stream_bytes"),
    disk_max_stream_bytes=Key(INTEGER, aliases="store_max_stream_bytes"),
    max_ack_pending=Key(INTEGER),
    cluster_traffic=Key(STRING),
)

WEBSOCKET_LOGIN = BlockSchema(
    "websocket.authorization",
    **SINGLE_LOGIN,
    token=Key(STRING, check=filled, isSecret=True),
    timeout=NATURAL_WAIT,
)

WEBSOCKET = BlockSchema(
    "websocket",
    **NETWORK,
    advertise=Key(STRING),
    no_tls=Key(BOOLEAN),
    tls=TLS_KEY,
    same_origin=Key(BOOLEAN),
    allowed_origins=Key(
        STRING, STRINGS, aliases="allowed_origin allow_origins allow_origin origins origin"
    ),
    handshake_timeout=NATURAL_WAIT,
    compression=Key(BOOLEAN, aliases="compress"),
    authorization=Key(WEBSOCKET_LOGIN, aliases="authentication"),
    jwt_cookie=Key(STRING),
    user_cookie=Key(STRING),
    pass_cookie=Key(STRING),
    token_cookie=Key(STRING),
    no_auth_user=Key(STRING),
    headers=Key(MapType(Key(STRING))),
    ping_interval=NATURAL_TIME,
)

MQTT = BlockSchema(
    "mqtt",
    **NETWORK,
    tls=TLS_KEY,
    authorization=Key(WEBSOCKET_LOGIN, aliases="authentication"),
    no_auth_user=Key(STRING),
    ack_wait=Key(*TIME.types, aliases="ackwait"),
    js_api_timeout=Key(*TIME.types, aliases="api_timeout"),
    max_ack_pending=Key(INTEGER, aliases="max_pending max_inflight"),
    js_domain=Key(STRING),
    stream_replicas=Key(INTEGER),
    consumer_replicas=Key(INTEGER),
    consumer_memory_storage=Key(BOOLEAN),
    consumer_inactive_threshold=Key(*TIME.types, aliases="consumer_auto_cleanup"),
    reject_qos2_publish=Key(BOOLEAN),
    downgrade_qos2_subscribe=Key(BOOLEAN),
)

RESOLVER = BlockSchema(
    "resolver",
    dir=Key(STRING),
    type=Key(STRING),
    allow_delete=Key(BOOLEAN),
    hard_delete=Key(BOOLEAN),
    limit=Key(INTEGER, check=unsigned),
    ttl=Key(DURATION, check=unsigned),
    interval=Key(DURATION, check=unsigned),
    timeout=Key(DURATION, check=unsigned),
)

OCSP = BlockSchema("ocsp", mode=Key(STRING), url=Key(STRING), urls=Key(STRINGS))

OCSP_CACHE = BlockSchema(
    "ocsp_cache",
    type=Key(STRING),
    local_store=Key(STRING),
    preserve_revoked=Key(BOOLEAN),
    save_interval=WAIT,
)

PROXY = BlockSchema("proxies.trusted[]", key=Key(STRING, aliases="public_key", isSecret=True))

PROXIES = BlockSchema("proxies", trusted=Key(arrayOf(PROXY)))

AUTH_CALLOUT = BlockSchema(
    "authorization.auth_callout",
    issuer=Key(STRING),
    account=Key(STRING, aliases="acc"),
    auth_users=Key(STRINGS, aliases="users"),
    xkey=Key(STRING, aliases="key"),
    allowed_accounts=Key(STRINGS),
)

DESTINATION = StrictBlock(
    "mappings.*",
    dest=Key(STRING, aliases="destination"),
    weight=Key(PERCENTAGE),
    cluster=Key(STRING),
)
MAPPINGS = Key(MapType(Key(STRING, arrayOf(DESTINATION), DESTINATION)), aliases="maps")

LATENCY = BlockSchema(
    "accounts.*.exports[].latency", sampling=Key(HEADERS, PERCENTAGE), subject=Key(STRING)
)

EXPORT = BlockSchema(
    "accounts.*.exports[]",
    stream=Key(STRING),
    service=Key(STRING),
    response_type=Key(STRING, aliases="response"),
    response_threshold=Key(
        DURATION, aliases="threshold response_max_time response_time", check=unsigned
    ),
    accounts=Key(STRINGS),
    latency=Key(STRING, LATENCY),
    account_token_position=Key(INTEGER, check=unsigned),
    allow_trace=Key(BOOLEAN),
)

IMPORTED = BlockSchema("accounts.*.imports[].stream", account=Key(STRING), subject=Key(STRING))

IMPORT = BlockSchema(
    "accounts.*.imports[]",
    stream=Key(IMPORTED),
    service=Key(IMPORTED),
    prefix=Key(STRING),
    to=Key(STRING),
    share=Key(BOOLEAN),
    allow_trace=Key(BOOLEAN),
)

TRACE = BlockSchema(
    "accounts.*.msg_trace", dest=Key(STRING), sampling=Key(PERCENTAGE, check=_sampling)
)

EXPORTS = Key(arrayOf(EXPORT))
IMPORTS = Key(arrayOf(IMPORT))

_LIMITS = {
    "max_subs": Key(INTEGER, aliases="msu max_subscriptions maxsubscriptions"),
    "max_msgs": Key(INTEGER, aliases="mm maxmsgs max_count maxcount"),
    "max_bytes": Key(INTEGER, aliases="mb maxbytes"),
    "max_age": Key(DURATION, aliases="ma maxage"),
    "max_inactivity": Key(DURATION, aliases="mi maxinactivity"),
}

CHANNEL_LIMITS = BlockSchema("streaming.store_limits.channels.*", **_LIMITS)

STORE_LIMITS = BlockSchema(
    "streaming.store_limits",
    max_channels=Key(INTEGER, aliases="mc maxchannels"),
    **_LIMITS,
    channels=Key(
        MapType(Key(CHANNEL_LIMITS)),
        aliases="channels_limits channelslimits per_channel per_channel_limits",
    ),
)

SQL_OPTIONS = BlockSchema(
    "streaming.sql_options",
    driver=Key(STRING),
    source=Key(STRING),
    no_caching=Key(BOOLEAN),
    max_open_conns=Key(INTEGER, aliases="max_conns"),
    bulk_insert_limit=Key(INTEGER),
)

_ENCRYPTION = Unsupported("encryption at rest", "")
_OUTSIDE = Unsupported("keys and certificates for an external NATS server", "")

STREAMING = BlockSchema(
    "streaming",
    cluster_id=Key(STRING, aliases="id cid"),
    discover_prefix=Key(STRING),
    account=Key(STRING),
    store=Key(STRING, aliases="st store_type storetype"),
    dir=Key(STRING, aliases="datastore"),
    store_options=Key(ANY_MAP),
    store_limits=Key(STORE_LIMITS, aliases="limits storelimits"),
    hb_interval=Key(DURATION, aliases="hbi server_to_client_hb_interval"),
    hb_timeout=Key(DURATION, aliases="hbt server_to_client_hb_timeout"),
    hb_fail_count=Key(INTEGER, aliases="hbf server_to_client_hb_fail_count"),
    replace_durable=Key(
        BOOLEAN, aliases="replace_durables replace_duplicate_durable replace_duplicate_durables"
    ),
    jetstream_accounts=Key(MapType(Key(STRING), name="a map of strings")),
    stan_debug=Key(BOOLEAN, aliases="sd"),
    stan_trace=Key(BOOLEAN, aliases="sv"),
    file_options=Key(ANY_MAP, aliases="file"),
    sql_options=Key(SQL_OPTIONS, aliases="sql"),
    ft_group=Key(
        STRING, aliases="ft_group_name", unsupported=Unsupported("fault tolerance groups", "")
    ),
    partitioning=Key(BOOLEAN, unsupported=Unsupported("partitioning", False)),
    cluster=Key(ANY_MAP, unsupported=Unsupported("clusters of NATS Streaming servers")),
    encrypt=Key(BOOLEAN, unsupported=Unsupported("encryption at rest", False)),
    encryption_cipher=Key(STRING, unsupported=_ENCRYPTION),
    encryption_key=Key(STRING, unsupported=_ENCRYPTION, isSecret=True),
    nats_server=Key(STRING, aliases="ns nats_server_url"),
    credentials=Key(STRING, unsupported=_OUTSIDE, isSecret=True),
    username=Key(STRING, aliases="user"),
    password=Key(STRING, aliases="pass", isSecret=True),
    token=SECRET,
    nkey_seed_file=Key(STRING, unsupported=_OUTSIDE),
    secure=Key(BOOLEAN),
    tls=Key(ANY_MAP, unsupported=_OUTSIDE),
    syslog_name=Key(STRING),
)
