"""
The C{streaming} block as frozen values.

This module promises the defaults of nats-streaming-server 0.25.6, in the spelling of the
file: durations are floats in seconds, sizes are ints in bytes, and C{0} is without limit.
It must never know what a channel is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from natsbroker.auth.settings import GLOBAL_ACCOUNT
from natsbroker.config.addresses import RemoteURL, splitURL

__all__ = ["DEFAULT_PORT", "ChannelLimits", "Streaming", "splitServers"]

DEFAULT_PORT = 4222
"""Of a URL of a NATS server that names none."""


def splitServers(urls: str) -> list[RemoteURL]:
    """
    Read the URLs of C{nats_server}.

    @raise ValueError: if one of them is none.
    """
    found = [each.strip() for each in urls.split(",")]
    return [splitURL(each, "NATS server", ("nats",), DEFAULT_PORT) for each in found]


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """
    What is said of some channels; L{None} for what is taken from a wider pattern, or from
    the limits of all channels.
    """

    max_subs: int | None = None
    max_msgs: int | None = None
    max_bytes: int | None = None
    max_age: float | None = None
    max_inactivity: float | None = None


@dataclass(frozen=True, slots=True)
class Streaming:
    """
    A C{streaming} block.

    @ivar account: name of the account whose clients are served.
    @ivar store: name of the store: C{memory}, C{lmdb}, C{postgres}, or a plugin's.
    @ivar dir: where a store on disk is.
    @ivar store_options: what else the store is told.
    @ivar max_subs: subscriptions of a channel.
    @ivar max_msgs: messages of a channel.
    @ivar max_bytes: bytes of a channel.
    @ivar max_age: seconds that a message is kept.
    @ivar max_inactivity: seconds until a channel that nobody uses is deleted; 0 for never.
    @ivar channels: by channel or pattern.
    @ivar nats_server: URLs of the NATS server whose clients are served, separated by commas; empty
        for those of this broker.
    @ivar username: whom the service logs in as there, unless a URL says so; with C{password}.
    @ivar token: or with a token instead.
    @ivar secure: the connection there uses TLS.
    @ivar hb_interval: seconds between heartbeats.
    @ivar hb_timeout: seconds to answer one.
    @ivar hb_fail_count: how many a client may leave unanswered in a row.
    """

    cluster_id: str = "test-cluster"
    discover_prefix: str = "_STAN.discover"
    account: str = GLOBAL_ACCOUNT
    store: str = "memory"
    dir: str = ""
    store_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    max_channels: int = 100
    max_subs: int = 1000
    max_msgs: int = 1_000_000
    max_bytes: int = 1_024_000_000
    max_age: float = 0.0
    max_inactivity: float = 0.0
    channels: Mapping[str, ChannelLimits] = field(default_factory=dict)
    hb_interval: float = 30.0
    hb_timeout: float = 10.0
    hb_fail_count: int = 10
    replace_durable: bool = False
    nats_server: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    secure: bool = False
