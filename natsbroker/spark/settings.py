"""
The options of the data source: one table, from which they are read and their reference is written.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from natsbroker.spark.errors import OptionError


@dataclass(frozen=True)
class Option:
    """
    @ivar read: makes the value of a text, or raises C{ValueError}.
    @ivar uses: what it is for: C{read}, C{readStream}, C{write} and C{writeStream}.
    """

    name: str
    kind: str
    read: Callable[[str], Any]
    default: str | None
    group: str
    text: str
    uses: frozenset[str]


def _boolean(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        raise ValueError from None


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
    return tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))


def _choice(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError
        return text

    return read


_TEXT = ("text", str)
_FILE = ("path", str)
_BOOLEAN = ("true or false", _boolean)
_SECONDS = ("seconds", _seconds)
_NAMES = ("names with commas", _names)
_OFFSETS = ("offsets", str)
_TIME = ("time", str)


READ = frozenset(("read",))
STREAM = frozenset(("readStream",))
READS = READ | STREAM
WRITES = frozenset(("write", "writeStream"))


def _group(name: str, uses: frozenset[str], *rows: tuple[Any, ...]) -> tuple[Option, ...]:
    return tuple(
        Option(each, kind, read, default, name, text, uses)
        for each, (kind, read), default, text in rows
    )


#: Every option there is, in the order of the reference.
OPTIONS: tuple[Option, ...] = (
    *_group(
        "Everywhere",
        READS | WRITES,
        (
            "stream",
            _NAMES,
            "",
            "One JetStream stream, or several that are read. This or `channel` must be given.",
        ),
        (
            "channel",
            _NAMES,
            "",
            "One channel of NATS Streaming on a broker of ours, or several that are read; names of"
            " those may be patterns with `*` and `>`.",
        ),
        (
            "clusterId",
            _TEXT,
            "test-cluster",
            "The `cluster_id` of NATS Streaming that channels belong to.",
        ),
        (
            "subject",
            _NAMES,
            "",
            "Reading: only messages of these subjects, which may have wildcards; servers send no"
            " others. Writing: where rows go that have no column `subject`.",
        ),
        (
            "servers",
            ("addresses with commas", str),
            None,
            "Where the servers are: `nats://host:port`, `tls://host:port` or `host:port`. Must be"
            " given. Workers begin with different ones and go on to the next.",
        ),
        ("user", _TEXT, "", "A user's name, with `password`."),
        ("password", _TEXT, "", "The password of `user`."),
        ("token", _TEXT, "", "A token."),
        ("nkeySeedFile", _FILE, "", "A file with the seed of a user's nkey, where workers run."),
        ("credentialsFile", _FILE, "", "A file with a user's JWT and seed, where workers run."),
        ("tls", _BOOLEAN, "false", "Whether a connection without TLS fails."),
        ("tlsFirst", _BOOLEAN, "false", "Whether TLS begins before the server's greeting."),
        ("tlsCa", _FILE, "", "A file of certificates to trust instead of the system's."),
        ("tlsCert", _FILE, "", "A file with our certificate; `tlsKey` has its key."),
        ("tlsKey", _FILE, "", "A file with the key of `tlsCert`, without a passphrase."),
        ("tlsServerName", _TEXT, "", "The name in the server's certificate, if not the address's."),
        ("inboxPrefix", _TEXT, "_INBOX", "What the subjects of answers begin with."),
        ("domain", _TEXT, "", "The JetStream domain, if not that of the server."),
        ("connectTimeout", _SECONDS, "10", "How long one server may take to let us in."),
        (
            "requestTimeout",
            _SECONDS,
            "10",
            "How long a server may be silent when it should answer, and replicas may lag behind"
            " the leader of a stream.",
        ),
    ),
    *_group(
        "What is read",
        READS,
        (
            "startingOffsets",
            _OFFSETS,
            "",
            "Where to begin: `earliest` (the default of a batch), `latest` (that of a new streaming"
            " query, and not for a batch), a sequence, or one of these for each stream as JSON:"
            ' `{"ORDERS": 17, "RETURNS": "earliest"}`.',
        ),
        (
            "startingTimestamp",
            _TIME,
            "",
            "Instead of `startingOffsets`: begin with the first message that was stored then or"
            " later. A time as `2026-11-20T08:00:00Z`, or milliseconds since 1970.",
        ),
        (
            "startingOffsetsByTimestampStrategy",
            ("error or latest", _choice("error", "latest")),
            "error",
            "What to do when no message is as late as `startingTimestamp`: fail, or begin at the"
            " end.",
        ),
        (
            "failOnDataLoss",
            _BOOLEAN,
            "true",
            "Whether messages that are not stored any more, though they should be read, are an"
            " error. Otherwise the worker's log says which were passed over.",
        ),
    ),
    *_group(
        "How rows look",
        READS,
        ("includeHeaders", _BOOLEAN, "false", "Whether there is a column `headers`."),
        (
            "includeMetadata",
            _BOOLEAN,
            "false",
            "Whether there are columns `stream` and `time_ns`, the time in nanoseconds.",
        ),
    ),
    *_group(
        "How it is read",
        READS,
        (
            "minPartitions",
            ("number from 0", _from(0)),
            "0",
            "The least tasks, if there are as many sequences. 0: `parallelism`, with no fewer than"
            " 10000 sequences each.",
        ),
        (
            "parallelism",
            ("number from 0", _from(0)),
            "0",
            "How many tasks the cluster runs at a time. 0: what Spark said when"
            " `natsbroker.spark.session()` made the session, else the processors of the driver.",
        ),
        (
            "maxRowsPerPartition",
            ("number from 1", _from(1)),
            "1000000",
            "The most sequences in a task.",
        ),
        (
            "fetchBytes",
            ("number from 1024", _from(1024)),
            "4194304",
            "How much a worker asks for at once. Too much makes it a slow consumer.",
        ),
        ("batchRows", ("number from 1", _from(1)), "32768", "The most rows in a batch."),
    ),
    *_group(
        "Batches only",
        READ,
        (
            "endingOffsets",
            _OFFSETS,
            "latest",
            "Where to stop: `latest`, a sequence that is not read any more, or JSON.",
        ),
        (
            "endingTimestamp",
            _TIME,
            "",
            "Instead of `endingOffsets`: stop before the first message that was stored then or"
            " later.",
        ),
        (
            "pushdown",
            _BOOLEAN,
            "false",
            "Whether conditions on `seq`, `subject` and `stream` limit what servers are asked for."
            " Needs `spark.sql.python.filterPushdown.enabled`, which"
            " `natsbroker.spark.session()` sets.",
        ),
    ),
    *_group(
        "Streaming queries only",
        STREAM,
        (
            "maxOffsetsPerTrigger",
            ("number from 0", _from(0)),
            "0",
            "The most sequences in a micro-batch, over all streams. 0: as many as there are.",
        ),
        (
            "minOffsetsPerTrigger",
            ("number from 0", _from(0)),
            "0",
            "How many sequences a micro-batch waits for, over all streams. 0: it does"
            " not wait. AvailableNow does not wait either.",
        ),
        (
            "maxTriggerDelay",
            _SECONDS,
            "900",
            "How long after the micro-batch before one waits for `minOffsetsPerTrigger` at most.",
        ),
        (
            "maxBytesPerTrigger",
            ("number from 0", _from(0)),
            "0",
            "Instead of `maxOffsetsPerTrigger`: about how many bytes, by the average size of what"
            " the streams have stored.",
        ),
        (
            "pollInterval",
            _SECONDS,
            "0.1",
            "How long the state of the streams is believed before servers are asked again.",
        ),
        (
            "reconnectTimeout",
            _SECONDS,
            "60",
            "How long the driver tries to reach a server, for the first time or again, before the"
            " query fails.",
        ),
        (
            "allowCheckpointChange",
            _BOOLEAN,
            "false",
            "Whether a query goes on from a checkpoint of other streams, channels or subjects. What"
            " was read before is not looked for again by the new ones.",
        ),
    ),
    *_group(
        "Writing",
        WRITES,
        (
            "window",
            ("number from 1 to 100000", _from(1, 100_000)),
            "1000",
            "The most messages of a task that the stream has not acknowledged yet.",
        ),
        (
            "discoverPrefix",
            _TEXT,
            "_STAN.discover",
            "Where clients of NATS Streaming connect, without the cluster's id.",
        ),
    ),
)

#: What is planned and not built.
PLANNED = (
    "archive",
    "atomic",
    "export",
    "mirror",
    "msgId",
    "rate",
    "streamPattern",
)

#: What users say to Spark and Spark says to the data source, for each use.
_SPARKS_OWN = {"writeStream": ("checkpointlocation", "queryname")}

_BY_NAME = {each.name.lower(): each for each in OPTIONS}


def readOptions(given: Mapping[str, str], use: str | None = "read") -> dict[str, Any]:
    """
    The value of every option, by its name in the table.

    @param use: what for; options for other uses are not in the result. C{None}: for any.
    """
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
        except ValueError:
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
