"""
A stream with its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from natsbroker.jetstream.streams.stream import Stream, consumerKeys
from natsbroker.steps import PIECE
from tests.jetstream.support import Stage, filled


def test_lastOfSubject() -> None:
    """With max_msgs_per_subject, replaced messages are not read from memory."""
    stage = Stage()
    stream = stage.stream(max_msgs_per_subject=1)
    stream.watchers.append(lambda records: None)
    filled(stage)
    assert [record[0] for record in stage.stored(stream)] == [4, 5]


def test_names() -> None:
    """Each consumer has keys of its own in the state, of limited length."""
    assert consumerKeys("S", "C") != consumerKeys("T", "C")
    assert all(len(key) < 300 for key in consumerKeys("s" * 300, "c" * 300))


MANY = tuple(f"n.{number}" for number in range(5 * PIECE))


def taken(stage: Stage, subjects: tuple[str, ...] = MANY) -> int:
    """The number of subjects that the stream has subscribed to."""
    return sum(stage.bus.hasInterest(subject.encode()) for subject in subjects)


def watched(stage: Stage, look: Callable[[], object]) -> list[Any]:
    """Call a function after each step of long work; return its results."""
    seen: list[Any] = []

    def worked() -> int:
        seen.append(look())
        return len(seen)

    stage.jetstream.turns.worked = worked
    return seen


def named(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The patterns that are subscribed to after this call."""
    real, patterns = stage.jetstream.bus, list[bytes]()

    class Noting:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def subscribe(self, pattern: bytes, *rest: Any) -> Any:
            patterns.append(pattern)
            return real.subscribe(pattern, *rest)

    monkeypatch.setattr(stage.jetstream, "bus", Noting())
    return patterns


def test_manySubjects(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Thousands of subjects are subscribed to in steps. An update changes only those that differ.
    """
    stage = Stage()
    stream = stage.stream(subjects=("s",))
    seen = watched(stage, lambda: taken(stage))
    stage.wait(stream.applyConfig(replace(stream.config, subjects=MANY)))
    assert sorted(seen) == seen and {PIECE, 3 * PIECE} <= {*seen}
    assert (taken(stage), taken(stage, ("s",))) == (len(MANY), 0)
    patterns = named(stage, monkeypatch)
    stage.wait(stream.applyConfig(replace(stream.config, subjects=(*MANY[1:], "s", "t"))))
    assert patterns == [b"s", b"t"]
    assert (taken(stage), taken(stage, MANY[:1])) == (len(MANY) - 1, 0)
    stage.wait(stream.applyConfig(replace(stream.config, max_msgs=5)))
    assert patterns == [b"s", b"t"] and stream.config.max_msgs == 5


@pytest.mark.parametrize("end", [Stream.retire, Stream.close])
@pytest.mark.parametrize(("before", "after"), [(("s",), MANY), (MANY, ("s",))])
def test_endedWithin(end: Any, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    """A stream that is closed while its subjects change has no subscriptions left."""
    stage = Stage()
    stream = stage.stream(subjects=before)

    def look() -> bool:
        isWithin = 0 < taken(stage) < len(MANY)
        if isWithin:
            end(stream)
        return isWithin

    seen = watched(stage, look)
    stream.applyConfig(replace(stream.config, subjects=after))
    stage.settle()
    assert True in seen
    assert taken(stage, ("s", *MANY)) == 0
