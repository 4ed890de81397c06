"""
What nats-streaming-server's flags do to settings.

This module promises new settings in which NATS Streaming is on if any of its flags was given, and
every flag has won over the file.  It must never know how flags are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from natsbroker.config.flags import STREAMING_FLAGS
from natsbroker.config.goflags import FlagValue
from natsbroker.config.model import Settings

__all__ = ["withStreaming"]

_FIELDS = {
    "cid": "cluster_id",
    "st": "store",
    "dir": "dir",
    "mc": "max_channels",
    "msu": "max_subs",
    "mm": "max_msgs",
    "mb": "max_bytes",
    "ma": "max_age",
    "mi": "max_inactivity",
    "hbi": "hb_interval",
    "hbt": "hb_timeout",
    "hbf": "hb_fail_count",
    "replace_durable": "replace_durable",
    "ns": "nats_server",
    "secure": "secure",
}
"""First spelling of a flag -> the setting that it is."""

_OPTIONS = {
    "sql_driver": "driver",
    "sql_source": "source",
    "sql_no_caching": "no_caching",
    "sql_max_open_conns": "max_open_conns",
    "sql_bulk_insert_limit": "bulk_insert_limit",
}
"""First spelling of a flag -> the store's option that it is."""

_DEBUG = ("SD", "SV", "SDV")

_ASKING = {flag.names[0] for flag in STREAMING_FLAGS}


def withStreaming(settings: Settings, given: Mapping[str, FlagValue]) -> Settings:
    """
    Put the flags on top.

    @param given: values by the first spelling of their flag.
    """
    if given.get("streaming") is False:
        return replace(settings, streaming=None)
    if any(given.get(name) for name in _DEBUG):
        settings = replace(settings, logging=replace(settings.logging, debug=True))
    if not _ASKING & set(given):
        return settings
    from natsbroker.streaming.reading import storeNamed
    from natsbroker.streaming.settings import Streaming

    streaming = settings.streaming or Streaming()
    changes: dict[str, Any] = {_FIELDS[name]: given[name] for name in given if name in _FIELDS}
    options = {_OPTIONS[name]: given[name] for name in given if name in _OPTIONS}
    if "store" in changes:
        changes["store"] = storeNamed(changes["store"])
    streaming = replace(streaming, store_options={**streaming.store_options, **options}, **changes)
    return replace(settings, streaming=streaming)
