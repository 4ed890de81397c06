"""
What was replayed into the end of a stream.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from natsbroker.spark.errors import ApiError, DataSourceError
from natsbroker.spark.jobs.provenance import REPLAY, SEQUENCE
from natsbroker.spark.logs.reading import RangeReader, ReadOptions, SequenceRange
from natsbroker.spark.logs.streams import NO_MESSAGE, StreamApi, StreamState
from natsbroker.wire.headers import Headers

__all__ = ["replayed"]


def replayed(
    streams: StreamApi, state: StreamState, span: tuple[int, int], mark: str
) -> Iterator[tuple[int, int]]:
    """
    The rows that a task has published, with their sequences in the stream.

    @param span: where to look, half open.
    @param mark: of the task.
    """
    blocks = _direct if state.isDirect else _oneByOne
    for seq, block in blocks(streams, state, span):
        row = _rowOf(block, mark)
        if row:
            yield row, seq


def _rowOf(block: bytes, mark: str) -> int:
    """
    Which row a message was; 0 if it was none of the task.
    """
    if mark.encode() not in block:
        return 0
    try:
        headers = Headers.fromBlock(block)
        return int(headers.get(SEQUENCE) or "0") if headers.get(REPLAY) == mark else 0
    except ValueError:
        return 0  # Somebody else's: ours make sense.


def _direct(
    streams: StreamApi, state: StreamState, span: tuple[int, int]
) -> Iterator[tuple[int, bytes]]:
    reader = RangeReader(
        streams,
        SequenceRange(state.name, state.created, *span),
        ReadOptions(failsOnLoss=False),
        lambda loss: None,
    )
    for rows in reader.read():
        for seq, head in zip(rows.seqs, rows.heads, strict=True):
            yield seq, b"NATS/1.0%b\r\n\r\n" % head


def _oneByOne(
    streams: StreamApi, state: StreamState, span: tuple[int, int]
) -> Iterator[tuple[int, bytes]]:
    cursor, stop = span
    while cursor < stop:
        question = {"seq": cursor, "next_by_subj": ">"}
        try:
            answer = streams.call(f"STREAM.MSG.GET.{state.name}", question, state.name)
            message = answer["message"]
            seq, block = int(message["seq"]), base64.b64decode(message.get("hdrs") or "")
        except ApiError as error:
            if error.code == NO_MESSAGE:
                return
            raise
        except (KeyError, TypeError, ValueError):
            raise DataSourceError(f"stream {state.name}: its answer makes no sense") from None
        if seq < stop:
            yield seq, block
        cursor = seq + 1
