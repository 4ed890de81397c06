"""Reads and checks the settings of NATS Streaming in the configuration."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.settings.streaming import ChannelLimits, Streaming

STORES = {
    "memory": "memory",
    "file": "lmdb",
    "lmdb": "lmdb",
    "sql": "postgres",
    "postgres": "postgres",
    "postgresql": "postgres",
}
"""The names that nats-streaming-server gives to stores and ours, and which of ours is meant."""


def storeNamed(name: str) -> str:
    return STORES.get(name.lower(), name)


def streamingFrom(root: ParsedBlock) -> Streaming | None:
    """Return C{None} when the file has no such block."""
    block = root.block("streaming")
    if block is None:
        return None
    limits = block.block("store_limits")
    sql = block.block("sql_options")
    options: dict[str, object] = {} if sql is None else dict(sql.values)
    options.update(block.take("store_options", dict) or {})
    streaming = Streaming(
        **_given(block, Streaming),
        store_options=options,
        jetstream_accounts=block.mapping("jetstream_accounts", str),
        **({} if limits is None else _given(limits, Streaming)),
        channels={} if limits is None else _channels(limits),
    )
    return replace(streaming, store=storeNamed(streaming.store))


def checkStreaming(streaming: Streaming, root: ParsedBlock, findings: Diagnostics) -> None:
    block = root.blockOrEmpty("streaming")
    limits = block.block("store_limits")
    for name, message in streaming.problems():
        at = limits if limits is not None and name in limits else block
        findings.errorAt(at, name, message)


def _given(reading: ParsedBlock, kind: type) -> dict[str, Any]:
    plain = {each.name for each in fields(kind)} - {
        "channels",
        "store_options",
        "jetstream_accounts",
    }
    return {name: value for name, value in reading.values.items() if name in plain}


def _channels(limits: ParsedBlock) -> dict[str, dict[str, float]]:
    """The limits that differ for some channels. A negative one is unlimited, as 0 is."""
    found = limits.mapping("channels", ParsedBlock)
    return {
        name: {key: max(value, 0) for key, value in _given(each, ChannelLimits).items()}
        for name, each in found.items()
    }
