"""
Servers' answers about logs: JetStream's API, which the leader of a stream answers, and our broker's
C{$NB.API.>} about channels of NATS Streaming and streams.
"""

from __future__ import annotations

import base64
import datetime
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from natsbroker.spark.errors import ApiError, OptionError
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.subjects.grammar import isValidLiteral, isValidSubject
from natsbroker.wire.columnar import VERSION

NO_MESSAGE = 10037
NO_STREAM = 10059
NO_CHANNEL = 20003
OTHER_CHANNEL = 20004

#: Keys of a stream's configuration by which old messages are removed.
_LIMITS = ("max_age", "max_msgs", "max_bytes", "max_msgs_per_subject")

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)

_RFC3339 = re.compile(
    r"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.(?P<part>\d{1,9}))?"
    r"(?P<offset>Z|[+-]([01]\d|2[0-3]):[0-5]\d)?",
    re.ASCII,
)


@contextmanager
def sensible(error: str) -> Iterator[None]:
    """Raise C{error} where an answer has other fields than those that are read."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ApiError(error) from None


_NAME = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]+")


def checkedName(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise OptionError(f"stream: no stream can be called {name!r}")
    return name


@dataclass(frozen=True)
class StreamState:
    """
    @ivar created: when it was made, as the server spells it; one that was deleted and made again
        has another.
    @ivar first: the first sequence that is stored; C{stop} if none is.
    @ivar stop: the sequence of the next message.
    @ivar isDirect: whether its messages can be had by direct get.
    @ivar deleted: the sequences from C{first} to C{stop} that are not stored, if asked for.
    @ivar trims: whether its configuration removes messages without a request.
    @ivar replaces: whether a new message may take the place of an older one of its subject.
    """

    name: str
    created: str
    first: int
    stop: int
    messages: int
    size: int
    isDirect: bool
    deleted: frozenset[int] = frozenset()
    isAtomic: bool = False
    subjects: tuple[str, ...] = ()
    replicas: int = 1
    trims: bool = True
    replaces: bool = False

    @property
    def gaps(self) -> int:
        return self.stop - self.first - self.messages

    def stores(self, start: int, stop: int) -> bool:
        """Whether a sequence below C{stop} is stored; needs C{deleted}."""
        return any(sequence not in self.deleted for sequence in range(max(start, self.first), stop))


class LogApi:
    """Requests about logs; C{word} is their name, C{absent} why none is answered."""

    word = "stream"
    absent = ""

    def __init__(self, connection: BlockingConnection) -> None:
        self.connection = connection

    def ask(
        self, subject: str, question: dict[str, Any] | None, what: str, said: str = ""
    ) -> dict[str, Any]:
        payload = json.dumps(question).encode() if question else b""
        try:
            answer = self.connection.request(subject, payload)
        except ApiError as error:
            raise self.explained(error, what, subject) from None
        return apiFields(answer, what, said)

    def explained(self, error: ApiError, what: str, subject: str) -> ApiError:
        if error.code != 503 or not self.absent:
            return error
        why = f"{self.absent} there, or not for this account"
        return ApiError(f"{what}: no responders for {subject}: {why}", 503)


class StreamApi(LogApi):
    absent = "JetStream is not enabled"

    def __init__(self, connection: BlockingConnection, domain: str = "", pattern: str = "") -> None:
        if domain and _NAME.fullmatch(domain) is None:
            raise OptionError(f"domain: no domain can be called {domain!r}")
        super().__init__(connection)
        self._pattern = pattern
        self.prefix = f"$JS.{domain}.API." if domain else "$JS.API."

    def names(self, wanted: Sequence[str]) -> tuple[str, ...]:
        if not self._pattern:
            return tuple(wanted)
        isChosen = re.compile(self._pattern).fullmatch
        return tuple(sorted(name for name in self.allNames() if isChosen(name)))

    def allNames(self) -> set[str]:
        names: list[str] = []
        while True:
            answer = self.call("STREAM.NAMES", {"offset": len(names)}, self._pattern or "names")
            with sensible("streams: the list of their names is malformed"):
                page, total = (
                    [str(streamName) for streamName in answer["streams"] or ()],
                    int(answer["total"]),
                )
            names += page
            if not page or len(names) >= total:
                return set(names)

    def state(self, name: str, withDeleted: bool = False) -> StreamState:
        question = {"deleted_details": True} if withDeleted else {}
        answer = self.call(f"STREAM.INFO.{checkedName(name)}", question, name)
        with sensible(f"stream {name}: its state is malformed"):
            config, state = answer["config"], answer["state"]
            stop = int(state["last_seq"]) + 1
            return StreamState(
                name,
                str(answer["created"]),
                min(max(int(state["first_seq"]), 1), stop) if state["messages"] else stop,
                stop,
                int(state["messages"]),
                int(state["bytes"]),
                bool(config.get("allow_direct")),
                frozenset(state.get("deleted") or ()),
                bool(config.get("allow_atomic")),
                tuple(str(subject) for subject in config.get("subjects") or ()),
                int(config.get("num_replicas") or 1),
                any(int(config.get(limit) or 0) > 0 for limit in _LIMITS)
                or config.get("retention", "limits") != "limits"
                or bool(config.get("allow_msg_ttl")),
                int(config.get("max_msgs_per_subject") or 0) > 0,
            )

    def next(self, name: str, seq: int, pattern: str = ">") -> int | None:
        """
        The first sequence from C{seq} on that is stored, of a subject that the pattern matches.
        """
        return self._find(name, {"seq": max(seq, 1), "next_by_subj": pattern})

    def firstSince(self, name: str, time: str) -> int | None:
        return self._find(name, {"start_time": time, "next_by_subj": ">"})

    def _find(self, name: str, question: dict[str, Any]) -> int | None:
        message = self.message(name, {**question, "no_hdr": True})
        return None if message is None else message[0]

    def message(self, name: str, question: dict[str, Any]) -> tuple[int, bytes, bytes] | None:
        """The sequence, header block and payload of a stored message; C{None} if there is none."""
        try:
            answer = self.call(f"STREAM.MSG.GET.{checkedName(name)}", question, name)
        except ApiError as error:
            if error.code == NO_MESSAGE:
                return None
            raise
        with sensible(f"stream {name}: its answer is malformed"):
            message = answer["message"]
            block, data = (base64.b64decode(message.get(key) or "") for key in ("hdrs", "data"))
            return int(message["seq"]), block, data

    def call(self, call: str, question: dict[str, Any], name: str) -> dict[str, Any]:
        return self.ask(self.prefix + call, question, f"stream {name}", f" to {call}")


def apiFields(answer: bytes, what: str, question: str = "") -> dict[str, Any]:
    try:
        fields = json.loads(answer)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise ApiError(f"{what}: the answer{question} is not JSON")
    refusal = fields.get("error")
    if isinstance(refusal, dict):
        code = refusal.get("err_code", 0)
        text = f"{what}: {refusal.get('description', 'refused')}"
        raise ApiError(text, code if isinstance(code, int) else 0)
    return fields


def checkedChannel(name: str) -> str:
    if not isValidSubject(name.encode("utf-8", "replace")) or "/" in name:
        raise OptionError(f"channel: no channel can be called {name!r}")
    return name


def nanoseconds(time: str) -> int:
    match = _RFC3339.fullmatch(time)
    if match is None:
        raise ValueError(f"not a time: {time!r}")
    offset = (match["offset"] or "Z").replace("Z", "+00:00")
    second = datetime.datetime.fromisoformat(match["second"] + offset)
    whole = (second - EPOCH) // datetime.timedelta(seconds=1)
    return whole * 10**9 + int((match["part"] or "0").ljust(9, "0"))


class ExportApi(LogApi):
    def __init__(self, connection: BlockingConnection, realm: str) -> None:
        super().__init__(connection)
        self._realm = realm

    @property
    def version(self) -> int:
        offered = self.connection.info.get("nb_export")
        return min(offered, VERSION) if isinstance(offered, int) and offered > 0 else VERSION

    def subject(self, verb: str, name: str) -> str:
        tail = f".{name}" if name else ""
        return f"$NB.API.{self.word.upper()}.{verb}.{self._realm}{tail}"

    def call(self, verb: str, name: str, question: dict[str, Any] | None = None) -> dict[str, Any]:
        what = f"{self.word} {name}" if name else f"{self.word}s"
        return self.ask(self.subject(verb, name), question, what)


class StreamExports(ExportApi):
    def __init__(self, connection: BlockingConnection, domain: str) -> None:
        super().__init__(connection, domain or connection.info.get("domain") or "_")

    def identity(self, name: str) -> str | None:
        """The name of a stream in frames; C{None} if no server gives this user frames."""
        if "natsbroker" not in self.connection.info:
            return None
        try:
            return str(self.call("INFO", name)["identity"])
        except ApiError as error:
            if error.code in (503, NO_CHANNEL) or "Permissions Violation" in str(error):
                return None
            raise


class ChannelApi(ExportApi):
    word = "channel"

    def __init__(self, connection: BlockingConnection, clusterId: str) -> None:
        if not isValidLiteral(clusterId.encode("utf-8", "replace")) or "/" in clusterId:
            raise OptionError(f"clusterId: no cluster can have the id {clusterId!r}")
        super().__init__(connection, clusterId)
        self.absent = f"no broker of ours serves NATS Streaming with the cluster id {clusterId}"

    def names(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """Channels by names and patterns, each once; named ones also if they do not exist."""
        names = [self._matching(x) if "*" in x or ">" in x else [x] for x in wanted]
        return tuple(dict.fromkeys(itertools.chain(*names)))

    def allNames(self) -> list[str]:
        return self._matching(">")

    def _matching(self, pattern: str) -> list[str]:
        names: list[str] = []
        while True:
            question = {"pattern": pattern, "after": names[-1] if names else ""}
            answer = self.call("NAMES", "", question)
            with sensible(f"channel {pattern}: the answer is malformed"):
                names += [str(name) for name in answer["names"]]
                if not answer["more"]:
                    return names

    def state(self, name: str) -> StreamState:
        answer = self.call("INFO", name)
        with sensible(f"channel {name}: its state is malformed"):
            stop = int(answer["last"]) + 1
            return StreamState(
                name,
                str(answer["identity"]),
                min(max(int(answer["first"]), 1), stop),
                stop,
                int(answer["messages"]),
                int(answer["bytes"]),
                True,
            )

    def firstSince(self, name: str, time: str) -> int | None:
        answer = self.call("FIND", name, {"time": nanoseconds(time)})
        with sensible(f"channel {name}: its answer is malformed"):
            sequence, last = int(answer["sequence"]), int(answer["last"])
        return sequence if sequence <= last else None
