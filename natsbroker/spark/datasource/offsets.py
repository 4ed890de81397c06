"""
The offsets of a streaming query: for each stream the sequence that comes next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from natsbroker.spark.errors import DataLoss, OptionError
from natsbroker.spark.logs.apis import StreamState
from natsbroker.spark.logs.reading import SequenceRange

_VERSION = 1

#: Stream, when it was made, and the next sequence.
_Places = Mapping[str, tuple[str, int]]


def offsetOf(places: _Places) -> dict[str, Any]:
    logs = {name: {"created": created, "seq": seq} for name, (created, seq) in places.items()}
    return {"v": _VERSION, "logs": logs}


def readOffset(
    offset: Mapping[str, Any], names: Sequence[str] | None, word: str = "stream"
) -> dict[str, tuple[str, int]]:
    """
    @param names: the streams that the query reads now; C{None} for any: those that match patterns.
    """
    try:
        version = offset["v"]
        places = {
            str(name): (str(each["created"]), int(each["seq"]))
            for name, each in offset["logs"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise OptionError("the checkpoint is not one of the data source 'natsbroker'") from None
    if version != _VERSION:
        raise OptionError(f"the checkpoint has version {version}, and this is {_VERSION}")
    if names is not None and set(places) != set(names):
        raise OptionError(
            f"the checkpoint is of the {word}s {', '.join(sorted(places))}, and the query reads"
            f" {', '.join(sorted(names))}: a query keeps its {word}s"
        )
    return places


def advance(
    places: _Places, states: Mapping[str, StreamState], rows: int, size: int, word: str = "stream"
) -> _Places:
    """
    How far the next micro-batch goes. One that was not there before begins with its oldest message,
    in the micro-batch after it.
    """
    lags = {}
    for name, (created, seq) in places.items():
        state = states.get(name)
        if state is None:
            raise DataLoss(f"{word} {name} is gone: the query has read up to {seq - 1}")
        if state.created != created:
            raise DataLoss(
                f"{word} {name} was deleted and made again ({created}, now {state.created}): its"
                " sequences are others"
            )
        if state.stop < seq:
            raise DataLoss(
                f"{word} {name} ends before {state.stop}, and the query has read up to {seq - 1}"
            )
        lags[name] = state.stop - seq
    total = sum(lags.values())
    if size and total:
        weight = sum(
            lag * states[name].size / max(states[name].messages, 1) for name, lag in lags.items()
        )
        rows = max(int(total * size / weight), 1) if weight > size else total
    steps = _shares(lags, rows) if rows else lags
    new = {
        name: (state.created, state.first) for name, state in states.items() if name not in places
    }
    return {name: (created, seq + steps[name]) for name, (created, seq) in places.items()} | new


def _shares(lags: Mapping[str, int], allowed: int) -> dict[str, int]:
    total = sum(lags.values())
    if total <= allowed:
        return dict(lags)
    shares = {name: lag * allowed // total for name, lag in lags.items()}
    left = allowed - sum(shares.values())
    for name in sorted(lags, key=lambda each: -(lags[each] * allowed % total))[:left]:
        shares[name] += 1
    return shares


def rangesBetween(start: _Places, end: _Places, word: str = "stream") -> list[SequenceRange]:
    ranges = []
    for name, (created, seq) in start.items():
        other, stop = end[name]
        if stop < seq:
            raise DataLoss(
                f"{word} {name} ends before {stop}, and the query has read up to {seq - 1}"
            )
        if other != created:
            raise DataLoss(f"{word} {name} was deleted and made again: its sequences are others")
        ranges.append(SequenceRange(name, created, seq, stop))
    return ranges
