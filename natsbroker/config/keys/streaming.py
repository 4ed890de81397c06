"""
The keys of the C{streaming} block.

The names and spellings are those that nats-streaming-server 0.25 reads in
C{server/conf.go}, and three of our own: C{account}, C{store_options}, and store names that
it does not have.
"""

from __future__ import annotations

from natsbroker.config.keys.shared import FLAG, SECRET, TEXT
from natsbroker.config.keys.types import (
    ANY_MAP,
    BOOLEAN,
    DURATION,
    INTEGER,
    STRING,
    BlockSchema,
    BlockType,
    Key,
    MapType,
    Unsupported,
)

_LIMITS = {
    "max_subs": Key(INTEGER, aliases="msu max_subscriptions maxsubscriptions"),
    "max_msgs": Key(INTEGER, aliases="mm maxmsgs max_count maxcount"),
    "max_bytes": Key(INTEGER, aliases="mb maxbytes"),
    "max_age": Key(DURATION, aliases="ma maxage"),
    "max_inactivity": Key(DURATION, aliases="mi maxinactivity"),
}

CHANNEL_LIMITS = BlockSchema("streaming.store_limits.channels.*", dict(_LIMITS))

STORE_LIMITS = BlockSchema(
    "streaming.store_limits",
    {
        "max_channels": Key(INTEGER, aliases="mc maxchannels"),
        **_LIMITS,
        "channels": Key(
            MapType(Key(BlockType(CHANNEL_LIMITS))),
            aliases="channels_limits channelslimits per_channel per_channel_limits",
        ),
    },
)

SQL_OPTIONS = BlockSchema(
    "streaming.sql_options",
    {
        "driver": TEXT,
        "source": TEXT,
        "no_caching": FLAG,
        "max_open_conns": Key(INTEGER, aliases="max_conns"),
        "bulk_insert_limit": Key(INTEGER),
    },
)

_ENCRYPTION = Unsupported("encryption at rest", "")
_OUTSIDE = Unsupported("keys and certificates for an external NATS server", "")

STREAMING = BlockSchema(
    "streaming",
    {
        "cluster_id": Key(STRING, aliases="id cid"),
        "discover_prefix": TEXT,
        "account": TEXT,
        "store": Key(STRING, aliases="st store_type storetype"),
        "dir": Key(STRING, aliases="datastore"),
        "store_options": Key(ANY_MAP),
        "store_limits": Key(BlockType(STORE_LIMITS), aliases="limits storelimits"),
        "hb_interval": Key(DURATION, aliases="hbi server_to_client_hb_interval"),
        "hb_timeout": Key(DURATION, aliases="hbt server_to_client_hb_timeout"),
        "hb_fail_count": Key(INTEGER, aliases="hbf server_to_client_hb_fail_count"),
        "replace_durable": Key(
            BOOLEAN,
            aliases="replace_durables replace_duplicate_durable replace_duplicate_durables",
        ),
        "stan_debug": Key(BOOLEAN, aliases="sd"),
        "stan_trace": Key(BOOLEAN, aliases="sv"),
        "file_options": Key(ANY_MAP, aliases="file"),
        "sql_options": Key(BlockType(SQL_OPTIONS), aliases="sql"),
        "ft_group": Key(
            STRING, aliases="ft_group_name", unsupported=Unsupported("fault tolerance groups", "")
        ),
        "partitioning": Key(BOOLEAN, unsupported=Unsupported("partitioning", False)),
        "cluster": Key(ANY_MAP, unsupported=Unsupported("clusters of NATS Streaming servers")),
        "encrypt": Key(BOOLEAN, unsupported=Unsupported("encryption at rest", False)),
        "encryption_cipher": Key(STRING, unsupported=_ENCRYPTION),
        "encryption_key": Key(STRING, unsupported=_ENCRYPTION, isSecret=True),
        "nats_server": Key(STRING, aliases="ns nats_server_url"),
        "credentials": Key(STRING, unsupported=_OUTSIDE, isSecret=True),
        "username": Key(STRING, aliases="user"),
        "password": Key(STRING, aliases="pass", isSecret=True),
        "token": SECRET,
        "nkey_seed_file": Key(STRING, unsupported=_OUTSIDE),
        "secure": FLAG,
        "tls": Key(ANY_MAP, unsupported=_OUTSIDE),
        "syslog_name": TEXT,
    },
)
