"""
What a replay would publish.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from natsbroker.spark.errors import ApiError
from natsbroker.spark.jobs.replay.renaming import Renamer
from natsbroker.spark.jobs.replay.replayer import ReplayTask, Row
from natsbroker.spark.logs.streams import StreamApi
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.subjects.grammar import isValidLiteral, matches

__all__ = ["DryRun", "dryRun"]

#: So many subjects are told of.
_EXAMPLES = 5


@dataclass
class DryRun:
    """
    What would come of it.

    @ivar rows: how many rows there are.
    @ivar first: the first sequence; 0 if there is no row.
    @ivar last: the last one.
    @ivar untaken: how many rows the stream would not take.
    @ivar examples: some of the subjects that it would not.
    """

    rows: int = 0
    first: int = 0
    last: int = 0
    untaken: int = 0
    examples: list[str] = field(default_factory=list)

    @classmethod
    def joined(cls, parts: Sequence[DryRun]) -> DryRun:
        """
        What would come of several tasks.
        """
        some = [each for each in parts if each.rows]
        examples = sorted({name for each in parts for name in each.examples})
        return cls(
            sum(each.rows for each in some),
            min((each.first for each in some), default=0),
            max((each.last for each in some), default=0),
            sum(each.untaken for each in some),
            examples[:_EXAMPLES],
        )

    def summary(self) -> dict[str, Any]:
        """
        What the job's line of JSON says.
        """
        fields = {"rows": 0, "would": self.rows, "first": self.first, "last": self.last}
        return {**fields, "untaken": self.untaken, "examples": self.examples}


def dryRun(
    connection: BlockingConnection, domain: str, task: ReplayTask, rows: Iterable[Row]
) -> DryRun:
    """
    See what would come of rows.
    """
    name = task.stream
    answer = StreamApi(connection, domain).call(f"STREAM.INFO.{name}", {}, name)
    try:
        taken = [str(each).encode("utf-8") for each in answer["config"].get("subjects") or ()]
    except (KeyError, AttributeError, TypeError):
        raise ApiError(f"stream {name}: its state makes no sense") from None
    rename = Renamer(task.maps)
    found = DryRun()
    for row in rows:
        found.rows += 1
        found.first = min(found.first, row[0]) if found.first else row[0]
        found.last = max(found.last, row[0])
        subject = rename(row[1])
        literal = subject.encode("utf-8")
        if not isValidLiteral(literal) or not any(matches(each, literal) for each in taken):
            found.untaken += 1
            if subject not in found.examples and len(found.examples) < _EXAMPLES:
                found.examples.append(subject)
    return found
