"""
Sending what there is room for.
"""

from __future__ import annotations

from collections import deque
from functools import partial

import pytest

from natsbroker.spark.errors import DataSourceError, TimedOut
from natsbroker.spark.nats.publishing import Pipeline


class Echo:
    """
    A connection that answers requests with their payloads at the test's command.

    @ivar most: how many requests were on their way at most.
    """

    def __init__(self, silent: bool = False) -> None:
        self.sent: list[bytes] = []
        self.answers: deque[tuple[bytes, bytes, int, bytes]] = deque()
        self.deadlines: list[float | None] = []
        self.most = 0
        self._silent = silent
        self._composed = 0

    def composed(
        self, subject: bytes, payload: bytes, headers: bytes, reply: bytes
    ) -> tuple[bytes, list[bytes]]:
        if b" " in subject:
            raise ValueError("not a subject")
        self._composed += 1
        reply = reply or b"I.%d" % self._composed
        return reply, [reply, payload]

    def send(self, *pieces: bytes) -> None:
        self.sent += pieces[1::2]
        if not self._silent:
            pairs = zip(pieces[::2], pieces[1::2], strict=True)
            self.answers += [(reply, b"", 0, payload) for reply, payload in pairs]
        self.most = max(self.most, len(self.answers))

    def anyMessage(self, deadline: float | None = None) -> tuple[bytes, bytes, int, bytes]:
        self.deadlines.append(deadline)
        if not self.answers:
            raise TimedOut("silence")
        return self.answers.popleft()


class Requester:
    """Notes its answers."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, bytes]] = []

    def answered(self, tag: object, headerLength: int, body: bytes) -> None:
        if body == b"bad":
            raise DataSourceError("bad")
        self.heard.append((tag, body[headerLength:]))

    def send(self, pipeline: Pipeline, tag: object, *given: bytes, **more: bytes) -> None:
        """Send a request."""
        pipeline.send("stream S", partial(self.answered, tag), *given, **more)


def pipelineOver(echo: Echo, window: int) -> Pipeline:
    """A pipeline."""
    return Pipeline(echo, window)  # type: ignore[arg-type]


@pytest.mark.parametrize("window", [1, 2, 7, 1000])
def test_window(window: int) -> None:
    """Requests are sent in order and answered, with at most a window of them unanswered."""
    echo, requester = Echo(), Requester()
    pipeline = pipelineOver(echo, window)
    for number in range(50):
        requester.send(pipeline, number, b"x", b"%d" % number)
        assert pipeline.waiting < max(window, 1)
    pipeline.finish()
    assert pipeline.waiting == 0
    assert echo.sent == [b"%d" % number for number in range(50)]
    assert requester.heard == [(number, b"%d" % number) for number in range(50)]
    assert echo.most <= window


def test_chunks() -> None:
    """Requests are collected until there is enough to send."""
    echo, requester = Echo(), Requester()
    pipeline = pipelineOver(echo, 1000)
    requester.send(pipeline, 0, b"x", b"little")
    assert echo.sent == []
    requester.send(pipeline, 1, b"x", b"x" * 200_000)
    assert len(echo.sent) == 2


def test_twoSenders() -> None:
    """Two senders share one window, and each receives its own answers."""
    echo, one, other = Echo(), Requester(), Requester()
    pipeline = pipelineOver(echo, 4)
    for number in range(10):
        (one, other)[number % 2].send(pipeline, number, b"x", b"")
    pipeline.finish()
    assert [tag for tag, _ in one.heard] == [0, 2, 4, 6, 8]
    assert [tag for tag, _ in other.heard] == [1, 3, 5, 7, 9]


def test_otherMessages() -> None:
    """A message that is no answer goes to a callback."""
    echo, requester = Echo(), Requester()
    heard: list[tuple[bytes, bytes, bytes]] = []
    pipeline = Pipeline(echo, 10, lambda *arguments: heard.append(arguments))  # type: ignore[arg-type]
    echo.answers.append((b"I.beat", b"HB", 0, b"b"))
    requester.send(pipeline, 0, b"x", b"one")
    pipeline.finish()
    assert (heard, requester.heard) == ([(b"I.beat", b"HB", b"b")], [(0, b"one")])


def test_shared() -> None:
    """Answers to one subject are assigned to requests by their contents."""
    echo, requester = Echo(), Requester()
    pipeline = Pipeline(echo, 10, keyOf=lambda subject, body: body)  # type: ignore[arg-type]
    for number in range(3):
        payload = b"%d" % number
        requester.send(pipeline, number, b"x", payload, reply=b"I.all", key=payload)
    pipeline.flush()
    echo.answers.reverse()
    pipeline.finish()
    assert requester.heard == [(2, b"2"), (1, b"1"), (0, b"0")]


def test_rest() -> None:
    """
    Resting sends what is buffered and reads answers until all have arrived or the time is over.
    """
    echo, requester = Echo(), Requester()
    pipeline = pipelineOver(echo, 10)
    requester.send(pipeline, 0, b"x", b"one")
    pipeline.rest(5, lambda: 100.0)
    assert requester.heard == [(0, b"one")]
    assert echo.deadlines == [105.0, 105.0]
    times = iter((100.0, 100.0, 106.0))
    requester.send(pipeline, 1, b"x", b"two")
    pipeline.rest(5, lambda: next(times))
    assert requester.heard[1:] == [(1, b"two")]


def test_silence() -> None:
    """If no answer comes, there is an error with the number of missing answers and their sender."""
    pipeline = pipelineOver(Echo(silent=True), 10)
    for number in range(3):
        Requester().send(pipeline, number, b"x", b"")
    with pytest.raises(TimedOut, match="stream S: 3 messages were not acknowledged: silence"):
        pipeline.finish()


def test_requestThatCannotBeSent() -> None:
    """A request that cannot be sent is not waited for. An error in handling an answer is raised."""
    pipeline = pipelineOver(Echo(), 10)
    with pytest.raises(ValueError, match="not a subject"):
        Requester().send(pipeline, 0, b"a b", b"")
    pipeline.finish()
    Requester().send(pipeline, 0, b"x", b"bad")
    with pytest.raises(DataSourceError, match="bad"):
        pipeline.finish()
