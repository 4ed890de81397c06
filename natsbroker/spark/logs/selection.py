"""
What is read, whether JetStream streams or channels of NATS Streaming.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from natsbroker.spark.errors import ApiError, OptionError
from natsbroker.spark.logs.channels import NO_CHANNEL, ChannelApi, checkedChannel
from natsbroker.spark.logs.streams import NO_STREAM, StreamApi, checkedName
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.subjects.grammar import matches

Logs = StreamApi | ChannelApi


def namesGiven(options: Mapping[str, Any]) -> tuple[str, ...]:
    found: tuple[str, ...] = options["channel"] or options["stream"]
    return found


def checkedNames(options: Mapping[str, Any]) -> tuple[str, ...]:
    if options["channel"] and options["stream"]:
        raise OptionError("stream and channel exclude each other")
    if options["channel"] and options["subject"]:
        raise OptionError("subject does not go with channel: all messages of a channel have one")
    if options.get("streamPattern"):
        if namesGiven(options):
            raise OptionError("streamPattern excludes stream and channel")
        return ()
    if not namesGiven(options):
        raise OptionError("name at least one stream or channel: the option 'stream' or 'channel'")
    for name in options["stream"]:
        checkedName(name)
    for name in options["channel"]:
        checkedChannel(name)
    return namesGiven(options)


def oneName(options: Mapping[str, Any], purpose: str = "", isWhole: bool = False) -> str:
    """
    @param purpose: what it is wanted for, after a space.
    """
    names = checkedNames(options)
    if len(names) != 1 or isPattern(names[0]) or (isWhole and options["subject"]):
        raise OptionError(f"name the one stream or channel{purpose}, whole")
    return names[0]


def hasPatterns(options: Mapping[str, Any]) -> bool:
    return bool(options["streamPattern"]) or any(map(isPattern, namesGiven(options)))


def selects(options: Mapping[str, Any], name: str) -> bool:
    if options["streamPattern"]:
        return re.fullmatch(options["streamPattern"], name) is not None
    encoded = name.encode("utf-8")
    return any(matches(each.encode("utf-8"), encoded) for each in namesGiven(options))


def isPattern(name: str) -> bool:
    """
    Whether a name stands for others; no log can have such a name.
    """
    return "*" in name or ">" in name


def logsOf(connection: BlockingConnection, options: Mapping[str, Any]) -> Logs:
    if options["channel"]:
        return ChannelApi(connection, options["clusterId"])
    return StreamApi(connection, options["domain"], options.get("streamPattern", ""))


def isMissing(error: ApiError) -> bool:
    return error.code in (NO_STREAM, NO_CHANNEL)
