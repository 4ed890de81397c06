"""From options to a plan: the streams or channels, their ranges, and the number of tasks."""

from __future__ import annotations

import datetime
import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from natsbroker.spark.errors import ApiError, OptionError, TimedOut
from natsbroker.spark.logs.apis import (
    EPOCH,
    NO_CHANNEL,
    NO_STREAM,
    ChannelApi,
    StreamApi,
    StreamExports,
    StreamState,
    checkedChannel,
    checkedName,
    nanoseconds,
)
from natsbroker.spark.logs.wholeranges import SequenceRange, isDeletion, logLoss, lose, planned
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.subjects.grammar import isSubset, isValidSubject, matches

#: Fewer sequences than this are not worth a task of their own, unless somebody asks for it.
_SMALLEST = 10_000

_MILLISECONDS = re.compile(r"-?\d+")

#: The least and, ten times as much, the most milliseconds that are taken for seconds: of 2001 to
#: 2286, which are in the first four months of 1970 as milliseconds.
_SECONDS = 10**9

#: A sequence from here on is taken for a time: milliseconds since 2001.
_TIMES = 10**12

#: The beginning of a time, which no sequence and no word has.
_DATE = re.compile(r"\d{4}-")

Logs = StreamApi | ChannelApi


def namesGiven(options: Mapping[str, Any]) -> tuple[str, ...]:
    names: tuple[str, ...] = options["channel"] or options["stream"]
    return names


def checkedNames(options: Mapping[str, Any]) -> tuple[str, ...]:
    if options["channel"] and options["stream"]:
        raise OptionError("stream and channel exclude each other")
    if options["channel"] and options["subject"]:
        raise OptionError(
            "subject and channel exclude each other: all messages of a channel have one subject"
        )
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
    names = checkedNames(options)
    if len(names) != 1 or isPattern(names[0]) or (isWhole and options["subject"]):
        raise OptionError(
            f"name exactly one stream or channel{purpose}, without wildcards or subject"
        )
    return names[0]


def hasPatterns(options: Mapping[str, Any]) -> bool:
    return bool(options["streamPattern"]) or any(map(isPattern, namesGiven(options)))


def selects(options: Mapping[str, Any], name: str) -> bool:
    if options["streamPattern"]:
        return re.fullmatch(options["streamPattern"], name) is not None
    encoded = name.encode("utf-8")
    return any(matches(given.encode("utf-8"), encoded) for given in namesGiven(options))


def isPattern(name: str) -> bool:
    return "*" in name or ">" in name


def logsOf(connection: BlockingConnection, options: Mapping[str, Any]) -> Logs:
    if options["channel"]:
        return ChannelApi(connection, options["clusterId"])
    return StreamApi(connection, options["domain"], options.get("streamPattern", ""))


def stateNamed(logs: Logs, name: str) -> StreamState:
    """
    The state of a log that a user has named.

    @raise ApiError: if there is none: with similar names, where the user may see names.
    """
    try:
        return logs.state(name)
    except ApiError as error:
        if not isMissing(error):
            raise
        try:
            near = difflib.get_close_matches(name, logs.allNames(), 3, 0.6)
        except (ApiError, TimedOut):
            near = []
        hint = f"; there is {' and '.join(near)}" if near else ""
        raise ApiError(f"there is no {logs.word} {name}{hint}", error.code) from None


def isMissing(error: ApiError) -> bool:
    return error.code in (NO_STREAM, NO_CHANNEL)


def checkedPatterns(patterns: Sequence[str]) -> tuple[str, ...]:
    encoded = [pattern.encode("utf-8") for pattern in patterns]
    kept = []
    for pattern in encoded:
        if not isValidSubject(pattern):
            raise OptionError(f"subject: not a valid subject: {pattern.decode()!r}")
        if not any(isSubset(pattern, other) and pattern != other for other in encoded):
            kept.append(pattern.decode())
    return () if ">" in kept else tuple(kept)


def rfc3339(text: str, option: str) -> str:
    """A time in the form that servers read, from one in that form or milliseconds since 1970."""
    isNumber = _MILLISECONDS.fullmatch(text) is not None
    if isNumber and _SECONDS <= int(text) < _SECONDS * 10:
        raise OptionError(
            f"{option}: {text} milliseconds are in 1970; for seconds, write {text}000"
        )
    try:
        if isNumber:
            return (EPOCH + datetime.timedelta(milliseconds=int(text))).isoformat()
        nanoseconds(text)
    except (ValueError, OverflowError):
        raise OptionError(f"{option}: not a time: {text!r}") from None
    if text[-1] != "Z" and text[-6] not in "+-":
        raise OptionError(
            f"{option}: {text!r} has no offset from UTC: write {text}Z or {text}+01:00"
        )
    return text


def planRanges(logs: Logs, options: Mapping[str, Any]) -> list[SequenceRange]:
    if options["endingTimestamp"] and options["endingOffsets"] != "latest":
        raise OptionError("endingTimestamp and endingOffsets exclude each other")
    begun = _begin(logs, options, False)
    names = [state.name for state, _ in begun]
    stops = _perStream("endingOffsets", options["endingOffsets"], names, ("latest",))
    ranges = []
    for state, start in begun:
        stop = _place(logs, state, stops[state.name], options, "ending")
        if start > stop:
            raise OptionError(
                f"{logs.word} {state.name}: the read would begin at {start} and stop at {stop}"
            )
        ranges.append(planned(state, start, stop))
    return ranges


def planStarts(logs: Logs, options: Mapping[str, Any]) -> list[SequenceRange]:
    begun = _begin(logs, options, True)
    return [SequenceRange(state.name, state.created, start, start) for state, start in begun]


def _begin(
    logs: Logs, options: Mapping[str, Any], isStreaming: bool
) -> list[tuple[StreamState, int]]:
    """
    The streams or channels, and the place to begin in each.

    @param isStreaming: whether patterns may match nothing yet, and reading begins at the end
        without an option.
    """
    words = ("earliest", "latest") if isStreaming else ("earliest",)
    if options["startingTimestamp"] and options["startingOffsets"]:
        raise OptionError("startingTimestamp and startingOffsets exclude each other")
    names = logs.names(namesGiven(options))
    if not names and not isStreaming:
        wanted = options["streamPattern"] or ", ".join(namesGiven(options))
        raise ApiError(f"no {logs.word} matches {wanted}")
    text = options["startingOffsets"] or words[-1]
    starts = _perStream("startingOffsets", text, names, words)
    begun = []
    for name in names:
        state = stateNamed(logs, name)
        checkReadable(logs, state, options)
        start = _place(logs, state, starts[name], options, "starting")
        if start < state.first and not isDeletion(state, start, state.first):
            gone = f"sequences {start} to {state.first - 1} are not stored any more"
            onLoss = None if options["failOnDataLoss"] else logLoss
            lose(f"{logs.word} {name}: {gone}", onLoss, (start, state.first))
        begun.append((state, max(start, state.first)))
    return begun


def checkReadable(logs: Logs, state: StreamState, options: Mapping[str, Any]) -> None:
    """Raise L{ApiError} if messages can be had neither by direct get nor as frames."""
    if state.isDirect:
        return
    name = state.name
    if StreamExports(logs.connection, options["domain"]).identity(name) is None:
        raise ApiError(
            f"stream {name} does not answer direct gets: set allow_direct in its configuration"
            f" (nats stream edit {name} --allow-direct)"
        )


def _perStream(
    option: str, text: str, names: Sequence[str], words: tuple[str, ...]
) -> dict[str, int | str]:
    """
    The value of an option for each stream: one of the words, a sequence, or in JSON a time. Streams
    that JSON does not name get the last word.
    """
    if not text.lstrip().startswith("{"):
        return dict.fromkeys(names, _offset(option, words, text, len(names)))
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise OptionError(f"{option}: not JSON: {text!r}") from None
    unknown = [name for name in given if name not in names]
    if unknown:
        raise OptionError(f"{option} names {unknown[0]!r}, which is not one of the streams")
    offsets: dict[str, int | str] = {}
    for name in names:
        value, what = given.get(name, words[-1]), f"{option}: {name}"
        isTime = isinstance(value, str) and _DATE.match(value)
        offsets[name] = (
            rfc3339(value, what) if isTime else _offset(what, (*words, "a time"), value, 1)
        )
    return offsets


def _offset(option: str, words: tuple[str, ...], value: object, count: int) -> int | str:
    if isinstance(value, str) and value in words and value != "a time":
        return value
    if isinstance(value, str) and value in ("earliest", "latest"):
        raise OptionError(f"{option} cannot be {value!r} in a batch: nothing would be read")
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.isdigit() or int(text) < 1:
        expected = ", ".join(word if " " in word else repr(word) for word in words)
        raise OptionError(f"{option}: {expected} or a sequence from 1 expected, not {value!r}")
    if count > 1:
        raise OptionError(f'{option}: with several of them, say which: {{"NAME": {text}}}')
    return int(text)


def _place(
    logs: Logs, state: StreamState, wanted: int | str, options: Mapping[str, Any], end: str
) -> int:
    """A place as a sequence; C{end} is C{starting} or C{ending}, as the options' names begin."""
    time = wanted if isinstance(wanted, str) and _DATE.match(wanted) else ""
    if options[f"{end}Timestamp"]:
        time = rfc3339(options[f"{end}Timestamp"], f"{end}Timestamp")
    if time:
        first = logs.firstSince(state.name, time)
        mayFail = end == "starting" and options["startingOffsetsByTimestampStrategy"] == "error"
        if first is None and mayFail:
            raise OptionError(f"{logs.word} {state.name} has no message from {time} on")
        return state.stop if first is None else min(first, state.stop)
    if isinstance(wanted, str):
        return state.first if wanted == "earliest" else state.stop
    if wanted > state.stop and wanted >= _TIMES:
        raise OptionError(
            f"{end}Offsets: {logs.word} {state.name} ends before {state.stop}, and {wanted} looks"
            f" like a time: {end}Timestamp takes milliseconds since 1970"
        )
    if wanted > state.stop:
        raise OptionError(f"{end}Offsets: {logs.word} {state.name} ends before {state.stop}")
    return wanted


def split(
    ranges: Sequence[SequenceRange], minPartitions: int, maxRows: int, parallelism: int
) -> list[SequenceRange]:
    """C{minPartitions} is the least number of pieces; 0: as many as run at a time, if worth it."""
    total = sum(piece.stop - piece.start for piece in ranges)
    if minPartitions:
        size = total // minPartitions
    else:
        size = max(-(-total // max(parallelism, 1)), _SMALLEST)
    size = max(min(size, maxRows), 1)
    pieces = []
    for bounds in ranges:
        count = -(-(bounds.stop - bounds.start) // size)
        for place in range(count):
            start = bounds.start + (bounds.stop - bounds.start) * place // count
            stop = bounds.start + (bounds.stop - bounds.start) * (place + 1) // count
            pieces.append(replace(bounds, start=start, stop=stop))
    return pieces
