"""
Questions about channels of NATS Streaming and about streams, which a broker of ours answers under
C{$NB.API.>}.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Sequence
from typing import Any

from natsbroker.spark.errors import ApiError, OptionError
from natsbroker.spark.logs.streams import LogApi, StreamState
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.subjects.grammar import isValidLiteral, isValidSubject
from natsbroker.wire.columnar import VERSION

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)

NO_CHANNEL = 20003
OTHER_CHANNEL = 20004

_RFC3339 = re.compile(
    r"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.(?P<part>\d{1,9}))?"
    r"(?P<offset>Z|[+-]([01]\d|2[0-3]):[0-5]\d)?",
    re.ASCII,
)


def checkedChannel(name: str) -> str:
    if not isValidSubject(name.encode("utf-8", "replace")) or "/" in name:
        raise OptionError(f"channel: no channel can be called {name!r}")
    return name


def nanoseconds(time: str) -> int:
    found = _RFC3339.fullmatch(time)
    if found is None:
        raise ValueError(f"not a time: {time!r}")
    offset = (found["offset"] or "Z").replace("Z", "+00:00")
    second = datetime.datetime.fromisoformat(found["second"] + offset)
    whole = (second - EPOCH) // datetime.timedelta(seconds=1)
    return whole * 10**9 + int((found["part"] or "0").ljust(9, "0"))


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
        """
        What frames know a stream by; C{None} where nobody gives frames of streams, or not to this
        user.
        """
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
        """
        The channels that there are of some names and patterns, each once; those that are named are
        in it, whether there or not.
        """
        found = [self._matching(x) if "*" in x or ">" in x else [x] for x in wanted]
        return tuple(dict.fromkeys(itertools.chain(*found)))

    def _matching(self, pattern: str) -> list[str]:
        names: list[str] = []
        while True:
            question = {"pattern": pattern, "after": names[-1] if names else ""}
            answer = self.call("NAMES", "", question)
            try:
                names += [str(each) for each in answer["names"]]
                if not answer["more"]:
                    return names
            except (KeyError, TypeError):
                raise ApiError(f"channel {pattern}: the answer makes no sense") from None

    def state(self, name: str) -> StreamState:
        answer = self.call("INFO", name)
        try:
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
        except (KeyError, TypeError, ValueError):
            raise ApiError(f"channel {name}: its state makes no sense") from None

    def firstSince(self, name: str, time: str) -> int | None:
        answer = self.call("FIND", name, {"time": nanoseconds(time)})
        try:
            found, last = int(answer["sequence"]), int(answer["last"])
        except (KeyError, TypeError, ValueError):
            raise ApiError(f"channel {name}: its answer makes no sense") from None
        return found if found <= last else None
