"""The options of the data source: one table, from which they are read."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from natsbroker.spark.errors import OptionError


@dataclass(frozen=True)
class Option:
    """
    @ivar read: makes the value of a text, or raises an error.
    @ivar uses: C{read}, C{readStream}, C{write} and C{writeStream}.
    """

    name: str
    kind: str
    read: Callable[[str], Any]
    default: str | None
    uses: frozenset[str]


def _from(least: int, most: int = (1 << 63) - 1) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if not least <= number <= most:
            raise ValueError
        return number

    return read


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e6:
        raise ValueError
    return number


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _id(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text


_TEXT = ("text", str)
_FILE = ("path", str)
_BOOLEAN = ("true or false", lambda text: {"true": True, "false": False}[text.strip().lower()])
_SECONDS = ("seconds", _seconds)
_NAMES = ("names with commas", _names)
_OFFSETS = ("offsets", str)
_TIME = ("time", str)
_COUNT = ("number from 0", _from(0))
_LATE = ("error or latest", {"error": "error", "latest": "latest"}.__getitem__)
_EXPRESSION = ("regular expression", lambda text: re.compile(text).pattern)


READ = frozenset(("read",))
STREAM = frozenset(("readStream",))
READS = READ | STREAM
WRITES = frozenset(("write", "writeStream"))


def _for(uses: frozenset[str], *rows: tuple[Any, ...]) -> tuple[Option, ...]:
    return tuple(Option(name, kind, read, default, uses) for name, (kind, read), default in rows)


#: Every option there is, in the order of docs/reference/spark-options.md, which has their meanings.
OPTIONS: tuple[Option, ...] = (
    *_for(
        READS | WRITES,
        ("stream", _NAMES, ""),
        ("channel", _NAMES, ""),
        ("clusterId", _TEXT, "test-cluster"),
        ("subject", _NAMES, ""),
        ("servers", ("addresses with commas", str), None),
        ("user", _TEXT, ""),
        ("password", _TEXT, ""),
        ("token", _TEXT, ""),
        ("nkeySeedFile", _FILE, ""),
        ("credentialsFile", _FILE, ""),
        ("tls", _BOOLEAN, "false"),
        ("tlsFirst", _BOOLEAN, "false"),
        ("tlsCa", _FILE, ""),
        ("tlsCert", _FILE, ""),
        ("tlsKey", _FILE, ""),
        ("tlsServerName", _TEXT, ""),
        ("inboxPrefix", _TEXT, "_INBOX"),
        ("domain", _TEXT, ""),
        ("connectTimeout", _SECONDS, "10"),
        ("requestTimeout", _SECONDS, "10"),
    ),
    *_for(
        READS,
        ("streamPattern", _EXPRESSION, ""),
        ("startingOffsets", _OFFSETS, ""),
        ("startingTimestamp", _TIME, ""),
        ("startingOffsetsByTimestampStrategy", _LATE, "error"),
        ("failOnDataLoss", _BOOLEAN, "true"),
        ("includeHeaders", _BOOLEAN, "false"),
        ("includeMetadata", _BOOLEAN, "false"),
        ("minPartitions", _COUNT, "0"),
        ("parallelism", _COUNT, "0"),
        ("maxRowsPerPartition", ("number from 1", _from(1)), "1000000"),
        ("fetchBytes", ("number from 1024", _from(1024)), "4194304"),
        ("batchRows", ("number from 1", _from(1)), "32768"),
    ),
    *_for(
        READ,
        ("endingOffsets", _OFFSETS, "latest"),
        ("endingTimestamp", _TIME, ""),
        ("pushdown", _BOOLEAN, "false"),
    ),
    *_for(
        STREAM,
        ("maxOffsetsPerTrigger", _COUNT, "0"),
        ("minOffsetsPerTrigger", _COUNT, "0"),
        ("maxTriggerDelay", _SECONDS, "900"),
        ("maxBytesPerTrigger", _COUNT, "0"),
        ("pollInterval", _SECONDS, "0.1"),
        ("reconnectTimeout", _SECONDS, "60"),
        ("allowCheckpointChange", _BOOLEAN, "false"),
    ),
    *_for(
        WRITES,
        ("window", ("number from 1 to 100000", _from(1, 100_000)), "1000"),
        ("discoverPrefix", _TEXT, "_STAN.discover"),
        ("msgId", ("auto, none or a column", _id), "auto"),
        ("atomic", _BOOLEAN, "false"),
        ("deadLetters", _FILE, ""),
    ),
    *_for(frozenset(("write",)), ("writeId", _TEXT, "")),
)

#: Planned options that are not built.
PLANNED = ("archive", "export", "mirror", "rate")

#: The options of Spark that it passes on to the data source, by use.
_SPARKS_OWN = {"writeStream": ("checkpointlocation", "queryname")}

_BY_NAME = {option.name.lower(): option for option in OPTIONS}


def readOptions(given: Mapping[str, str], use: str | None = "read") -> dict[str, Any]:
    """The options for a use; C{None} for all."""
    texts = {}
    for name, text in given.items():
        if name.lower() in _SPARKS_OWN.get(use or "", ()):
            continue
        option = _BY_NAME.get(name.lower())
        if option is None:
            raise _unknown(name)
        if use is not None and use not in option.uses:
            others = " and ".join(sorted(option.uses))
            raise OptionError(f"the option {option.name!r} is for {others}, not for {use}")
        texts[option.name] = text
    values = {}
    for option in OPTIONS:
        if use is not None and use not in option.uses:
            continue
        if option.name not in texts and option.default is None:
            raise OptionError(f"the option {option.name!r} must be given")
        text = texts.get(option.name, option.default or "")
        try:
            values[option.name] = option.read(text)
        except (ValueError, KeyError, re.error):
            raise OptionError(f"{option.name}: {option.kind} expected, not {text!r}") from None
    return values


def _unknown(name: str) -> OptionError:
    if name.lower() in map(str.lower, PLANNED):
        return OptionError(f"the option {name!r} is not supported yet")
    if name.lower() == "path":
        return OptionError("load() and save() take no path here: the option 'stream' names streams")
    near = difflib.get_close_matches(name.lower(), _BY_NAME, 1)
    hint = f"; did you mean {_BY_NAME[near[0]].name!r}?" if near else ""
    return OptionError(f"there is no option {name!r}{hint}")
