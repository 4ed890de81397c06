"""
One direct-get request with the answers of nats-server 2.15, and with answers that it never gives.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from natsbroker.spark.errors import ApiError, DataSourceError
from natsbroker.spark.logs.columns import MessageRows
from natsbroker.spark.logs.wholeranges import fetch
from tests.spark.support import Station, Stream


class Got(NamedTuple):
    """An answer."""

    rows: MessageRows
    isEnd: bool


def got(station: Station, stream: Stream, *request: Any) -> Got:
    """
    @return: what the server answers.
    """
    answer = fetch(station.connection, f"$JS.API.DIRECT.GET.{stream.name}", *request)
    assert answer is not None
    return Got(*answer)


class TestServer:
    """With the server."""

    def test_batch(self, station: Station) -> None:
        """
        An answer has messages with subject, time and payload, and knows whether it reaches the end.
        """
        stream = station.stream()
        stream.fill([b"a", b"", b"\r\n"])
        answer = got(station, stream, 1, 10, 1 << 20)
        assert answer.isEnd
        assert (answer.rows.seqs, answer.rows.payloads) == ([1, 2, 3], [b"a", b"", b"\r\n"])
        assert answer.rows.subjects == [f"{stream.name}.x".encode()] * 3
        assert all(text.endswith(b"Z") for text in answer.rows.times)

    def test_count(self, station: Station) -> None:
        """An answer has at most the requested number of messages."""
        stream = station.stream()
        stream.fill([b"a"] * 5)
        answer = got(station, stream, 2, 2, 1 << 20)
        assert (answer.rows.seqs, answer.isEnd) == ([2, 3], False)

    def test_sizeOfABatch(self, station: Station) -> None:
        """An answer exceeds the requested size by one message at most."""
        stream = station.stream()
        stream.fill([b"x" * 600] * 5)
        answer = got(station, stream, 1, 100, 1024)
        assert (answer.rows.seqs, answer.isEnd) == ([1, 2], False)

    def test_pattern(self, station: Station) -> None:
        """An answer has only the subjects that were asked for."""
        stream = station.stream()
        for subject in ("a.b", "c", "a.d"):
            stream.add(subject, b"")
        answer = got(station, stream, 1, 10, 1 << 20, f"{stream.name}.a.*")
        assert (answer.rows.seqs, answer.isEnd) == ([1, 3], True)

    def test_behindTheEnd(self, station: Station) -> None:
        """After the end of the stream, an answer is empty and reaches the end."""
        stream = station.stream()
        assert got(station, stream, 1, 10, 1 << 20).isEnd
        stream.fill([b"x"])
        assert not got(station, stream, 2, 10, 1 << 20).rows.seqs

    def test_forgedMetadata(self, station: Station) -> None:
        """
        Headers of a publisher cannot change a message's sequence or subject, nor end the answer.
        """
        stream = station.stream()
        forged = {
            "Nats-Stream": "OTHER",
            "Nats-Subject": "other",
            "Nats-Sequence": "99",
            "Nats-Time-Stamp": "1970-01-01T00:00:00Z",
            "Nats-Num-Pending": "0",
            "Nats-Last-Sequence": "98",
        }
        stream.add("x", b"1", forged)
        stream.add("x", b"2", b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n\r\n")
        stream.add("x", b"3", {"Mine": "yes"})
        rows = got(station, stream, 1, 10, 1 << 20).rows
        assert (rows.seqs, rows.payloads) == ([1, 2, 3], [b"1", b"2", b"3"])
        assert rows.subjects == [f"{stream.name}.x".encode()] * 3
        assert rows.heads[0].startswith(b"\r\nNats-Stream: OTHER\r\n")
        assert rows.heads[2] == b"\r\nMine: yes"

    def test_refusedRequest(self, station: Station) -> None:
        """A request that the server refuses is an error with the server's text."""
        stream = station.stream()
        with pytest.raises(ApiError, match="408 Empty Request"):
            got(station, stream, 0, 1, 1024)


class Script:
    """
    A connection that gives made-up answers.
    """

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)

    def ask(self, subject: str, payload: bytes) -> bytes:
        return b"reply"

    def answer(self, reply: bytes, subject: str) -> tuple[int, bytes]:
        body = self._answers.pop(0)
        return len(body), body


def message(seq: int) -> bytes:
    """
    @return: the header block of a message in a batch.
    """
    return (
        b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: x\r\nNats-Sequence: %d\r\nNats-Time-Stamp: "
        b"2026-11-20T08:00:00Z\r\nNats-Num-Pending: 1\r\nNats-Last-Sequence: 0\r\n\r\n" % seq
    )


@pytest.mark.parametrize("seqs", [(5, 5), (5, 4), (1,)])
def test_outOfOrder(seqs: tuple[int, ...]) -> None:
    """A sequence that is lower than an earlier one is an error."""
    script = Script(*map(message, seqs))
    with pytest.raises(DataSourceError, match=f"gave sequence {seqs[-1]} after"):
        fetch(script, "S", 2, 10, 1024)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "said", [b"NATS/1.0\r\nX: y\r\n\r\n", b"NATS/1.0 204 EOB\r\nNats-Num-Pending: x\r\n\r\n", b""]
)
def test_strangeAnswer(said: bytes) -> None:
    """An answer that is neither a message nor an end is an error."""
    with pytest.raises(ApiError):
        fetch(Script(message(2), said), "S", 2, 10, 1024)  # type: ignore[arg-type]


def test_mirror() -> None:
    """An answer with messages from a mirror is not used."""
    said = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n\r\n"
    script = Script(message(2), message(3).replace(b": S", b": M"), said)
    assert fetch(script, "$JS.API.DIRECT.GET.S", 2, 10, 1024) is None  # type: ignore[arg-type]
