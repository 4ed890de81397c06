"""The offsets of a streaming query: for each stream the sequence that comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from natsbroker.spark.errors import DataLoss, LogGone, OptionError
from natsbroker.spark.logs.apis import StreamState
from natsbroker.spark.logs.wholeranges import Loss, OnLoss, SequenceRange

_VERSION = 1

#: Stream, when it was made, and the next sequence.
_Places = Mapping[str, tuple[str, int]]


def offsetOf(places: _Places) -> dict[str, Any]:
    logs = {name: {"created": created, "seq": seq} for name, (created, seq) in places.items()}
    return {"v": _VERSION, "logs": logs}


def readOffset(
    offset: Mapping[str, Any], names: Sequence[str] | None, word: str = "stream"
) -> dict[str, tuple[str, int]]:
    """C{names} are the streams that the query reads; C{None} for any, with patterns."""
    try:
        version = offset["v"]
        places = {
            str(name): (str(place["created"]), int(place["seq"]))
            for name, place in offset["logs"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise OptionError("the checkpoint is not one of the data source 'natsbroker'") from None
    if version != _VERSION:
        raise OptionError(f"the checkpoint has version {version}, and this is {_VERSION}")
    if names is not None and set(places) != set(names):
        raise OptionError(
            f"the checkpoint is of the {word}s {', '.join(sorted(places))}, and the query reads"
            f" {', '.join(sorted(names))}: a query cannot change its {word}s"
        )
    return places


def present(
    places: _Places, states: Mapping[str, StreamState], onGone: OnLoss | None, word: str = "stream"
) -> _Places:
    """
    The places in streams that still exist.

    @param onGone: called for each deleted one; C{None} raises.
    @raise LogGone: a stream was deleted, or deleted and made again.
    """
    kept = {}
    for name, (created, seq) in places.items():
        state = states.get(name)
        if state is not None and state.created == created:
            kept[name] = created, seq
            continue
        text = f"{word} {name} is gone: the query has read up to {seq - 1}"
        if state is not None:
            text = (
                f"{word} {name} was deleted and made again ({created}, now {state.created}): its"
                " sequences belong to other messages now"
            )
        if onGone is None:
            raise LogGone(text)
        onGone(Loss(text))
    return kept


def advance(
    places: _Places, states: Mapping[str, StreamState], rows: int, size: int, word: str = "stream"
) -> _Places:
    """
    The end of the next micro-batch. A new stream begins with its oldest message, in the one after
    it.

    @param places: in streams that are L{present}.
    """
    lags = {}
    for name, (_, seq) in places.items():
        state = states[name]
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
    """
    The numbers of sequences to read of each stream. Each stream with new messages gets one, even
    beyond the limit, so that quiet streams need not wait for busy ones. The rest is shared by need.
    """
    total = sum(lags.values())
    if total <= allowed:
        return dict(lags)
    shares = {name: min(lag, 1) for name, lag in lags.items()}
    count = sum(shares.values())
    allowed, total = max(allowed - count, 0), max(total - count, 1)
    needs = {name: lag - shares[name] for name, lag in lags.items()}
    for name, need in needs.items():
        shares[name] += need * allowed // total
    left = allowed - sum(need * allowed // total for need in needs.values())
    for name in sorted(needs, key=lambda key: -(needs[key] * allowed % total))[:left]:
        shares[name] += 1
    return shares


def rangesBetween(
    start: _Places, end: _Places, word: str = "stream", mayLeave: bool = False
) -> list[SequenceRange]:
    """The ranges between two offsets. C{mayLeave} leaves out deleted streams."""
    ranges = []
    for name, (created, seq) in start.items():
        other, stop = end.get(name, ("", seq))
        if mayLeave and other != created:
            continue
        if stop < seq:
            raise DataLoss(
                f"{word} {name} ends before {stop}, and the query has read up to {seq - 1}"
            )
        if other != created:
            raise DataLoss(
                f"{word} {name} was deleted and made again: its sequences belong to"
                " other messages now"
            )
        ranges.append(SequenceRange(name, created, seq, stop))
    return ranges
