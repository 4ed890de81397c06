"""Reads and checks the settings of NATS Streaming in the configuration."""

from __future__ import annotations

from dataclasses import replace

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
    limits = block.blockOrEmpty("store_limits")
    given = {**block.fieldsOf(Streaming, zeros=True), **limits.fieldsOf(Streaming, zeros=True)}
    options = {**block.blockOrEmpty("sql_options").values, **given.get("store_options", {})}
    own = {"store_options": options, "channels": _channels(limits)}
    streaming = Streaming(**{**given, **own})
    return replace(streaming, store=storeNamed(streaming.store))


def checkStreaming(streaming: Streaming, root: ParsedBlock, findings: Diagnostics) -> None:
    block = root.blockOrEmpty("streaming")
    limits = block.blockOrEmpty("store_limits")
    for name, message in streaming.problems():
        findings.errorAt(limits if name in limits else block, name, message)


def _channels(limits: ParsedBlock) -> dict[str, dict[str, float]]:
    """The limits of single channels. A negative limit is unlimited, like 0."""
    return {
        channel: {name: max(value, 0) for name, value in said.fieldsOf(ChannelLimits, True).items()}
        for channel, said in limits.named("channels")
    }
