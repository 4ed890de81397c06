"""
The keys of the C{streaming} block.

This module promises a table; it decides nothing.  It must never know what the keys do.

The names and spellings are those that nats-streaming-server 0.25 reads in
C{server/conf.go}, and three of our own: C{account}, C{store_options}, and store names that
it does not have.
"""

from __future__ import annotations

from natsbroker.config.keys.shared import FLAG, TEXT
from natsbroker.config.keys.types import (
    ANY_MAP,
    BOOLEAN,
    DURATION,
    INTEGER,
    STRING,
    BlockType,
    Key,
    MapType,
    Section,
)

__all__ = ["CHANNEL_LIMITS", "STORE_LIMITS", "STREAMING"]

_LIMITS = {
    "max_subs": Key(INTEGER, aliases="msu max_subscriptions maxsubscriptions"),
    "max_msgs": Key(INTEGER, aliases="mm maxmsgs max_count maxcount"),
    "max_bytes": Key(INTEGER, aliases="mb maxbytes"),
    "max_age": Key(DURATION, aliases="ma maxage"),
    "max_inactivity": Key(DURATION, aliases="mi maxinactivity"),
}

CHANNEL_LIMITS = Section("streaming.store_limits.channels.*", dict(_LIMITS))

STORE_LIMITS = Section(
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

SQL_OPTIONS = Section(
    "streaming.sql_options",
    {
        "driver": TEXT,
        "source": TEXT,
        "no_caching": FLAG,
        "max_open_conns": Key(INTEGER, aliases="max_conns"),
        "bulk_insert_limit": Key(INTEGER),
    },
)

STREAMING = Section(
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
        "ft_group": Key(STRING, aliases="ft_group_name"),
        "partitioning": FLAG,
        "cluster": Key(ANY_MAP),
        "encrypt": FLAG,
        "encryption_cipher": TEXT,
        "encryption_key": TEXT,
        "nats_server": Key(STRING, aliases="ns nats_server_url"),
        "credentials": TEXT,
        "username": Key(STRING, aliases="user"),
        "password": Key(STRING, aliases="pass"),
        "token": TEXT,
        "nkey_seed_file": TEXT,
        "secure": FLAG,
        "tls": Key(ANY_MAP),
        "syslog_name": TEXT,
    },
)
