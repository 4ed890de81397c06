"""
From what was read to the settings of NATS Streaming.

This module promises values that make sense, or an error at the place of each that does
not, in nats-streaming-server's words.  It must never know channels or stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from natsbroker.auth.settings import GLOBAL_ACCOUNT
from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.streaming.settings import ChannelLimits, Streaming, splitServers
from natsbroker.subjects.grammar import hasWildcard, isValidSubject

__all__ = ["STORES", "checkStreaming", "storeNamed", "streamingFrom"]

STORES = {
    "memory": "memory",
    "file": "lmdb",
    "lmdb": "lmdb",
    "sql": "postgres",
    "postgres": "postgres",
    "postgresql": "postgres",
}
"""The names that nats-streaming-server gives to stores and ours, and which of ours is meant."""

_NAMES = {
    "max_channels": "max channels",
    "max_subs": "max subscriptions",
    "max_msgs": "max messages",
    "max_bytes": "max bytes",
    "max_age": "max age",
    "max_inactivity": "max inactivity",
}


def storeNamed(name: str) -> str:
    """
    Find out which store is meant.
    """
    return STORES.get(name.lower(), name)


def streamingFrom(root: ParsedBlock) -> Streaming | None:
    """
    Make the settings of NATS Streaming.

    @return: L{None} when the file has no such block.
    """
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
        **({} if limits is None else _given(limits, Streaming)),
        channels={} if limits is None else _channels(limits),
    )
    return replace(streaming, store=storeNamed(streaming.store))


def checkStreaming(streaming: Streaming, root: ParsedBlock, findings: Diagnostics) -> None:
    """
    Report what makes no sense, where the file says it if it does.
    """
    block = root.blockOrEmpty("streaming")
    limits = block.block("store_limits")
    for name, message in _problems(streaming):
        at = limits if limits is not None and name in limits else block
        findings.errorAt(at, name, message)


def _given(reading: ParsedBlock, kind: type) -> dict[str, Any]:
    """
    The values of a block that are attributes of the same name.
    """
    plain = {each.name for each in fields(kind)} - {"channels", "store_options"}
    return {name: value for name, value in reading.values.items() if name in plain}


def _channels(limits: ParsedBlock) -> dict[str, ChannelLimits]:
    """
    A negative limit of some channels is none at all, as it is 0.
    """
    found = limits.mapping("channels", ParsedBlock)
    return {
        name: ChannelLimits(
            **{key: max(value, 0) for key, value in _given(each, ChannelLimits).items()}
        )
        for name, each in found.items()
    }


def _problems(streaming: Streaming) -> list[tuple[str, str]]:
    """
    The name of each key that makes no sense, with what is wrong with it.
    """
    problems = []
    for name, words in _NAMES.items():
        value = getattr(streaming, name)
        if value < 0:
            shown = value if isinstance(value, int) else f"{value:g}s"
            problems.append((name, f"{words} limit cannot be negative ({shown})"))
    for name in ("hb_interval", "hb_timeout"):
        if getattr(streaming, name) <= 0:
            problems.append((name, "must be more than 0"))
    if streaming.hb_fail_count < 0:
        problems.append(("hb_fail_count", "value can not be negative"))
    if not _isName(streaming.cluster_id) or len(streaming.cluster_id) > 64:
        problems.append(("cluster_id", f'invalid cluster id "{streaming.cluster_id}"'))
    if not _isName(streaming.discover_prefix):
        problems.append(("discover_prefix", f'invalid prefix "{streaming.discover_prefix}"'))
    if streaming.store == "lmdb" and not streaming.dir:
        problems.append(("dir", "for FILE stores, root directory must be specified"))
    if streaming.store == "postgres" and not streaming.store_options.get("source"):
        problems.append(("store", "for SQL stores, the source must be specified"))
    if streaming.nats_server:
        problems += [("nats_server", each) for each in _serverProblems(streaming)]
    return problems + _channelProblems(streaming)


def _serverProblems(streaming: Streaming) -> Iterator[str]:
    try:
        splitServers(streaming.nats_server)
    except ValueError as error:
        yield str(error)
    if streaming.account != GLOBAL_ACCOUNT:
        yield "the account on another NATS server is that of its user: leave out account"


def _channelProblems(streaming: Streaming) -> list[tuple[str, str]]:
    literals = 0
    for name in streaming.channels:
        pattern = name.encode("utf-8", "surrogateescape")
        literal = not hasWildcard(pattern)
        if not isValidSubject(pattern) or b"/" in pattern or (literal and not _isName(name)):
            return [("channels", f'invalid channel name "{name}"')]
        literals += literal
    maximum = streaming.max_channels
    if 0 < maximum < literals:
        message = (
            f"too many channels defined ({literals}). The max channels limit is set to {maximum}"
        )
        return [("channels", message)]
    return []


def _isName(text: str) -> bool:
    encoded = text.encode("utf-8", "surrogateescape")
    return isValidSubject(encoded) and not set(text) & set("*>/")
