"""
Tests for L{natsbroker.accounts.latency}.
"""

from __future__ import annotations

import json
from random import Random

import pytest

from natsbroker.accounts.latency import answeredEvent, publishEvent, traceHeaders, unansweredEvent
from natsbroker.config.settings.accounts import Latency
from natsbroker.wire.values import Message
from tests.accounts.market import Market, Person

HEADERS_ONLY = Latency("x", 0)


def request(*lines: str) -> Message:
    """
    @return: a request with headers.
    """
    block = "".join(f"{line}\r\n" for line in ("NATS/1.0", *lines, "")).encode()
    return Message(b"a", block + b"hi", b"", len(block))


class TestSampling:
    """Which requests are measured."""

    def test_allRequests(self) -> None:
        """With a sampling of 100 percent, all requests are measured."""
        assert traceHeaders(Latency("x"), Message(b"a"), Random(1)) == {}

    def test_shareOfRequests(self) -> None:
        """With a lower sampling, about that share of the requests is measured."""
        random = Random(1)
        latency = Latency("x", 25)
        count = sum(traceHeaders(latency, Message(b"a"), random) is not None for _ in range(2000))
        assert 400 < count < 600

    def test_noHeaders(self) -> None:
        """Without headers, no request is measured if headers decide about it."""
        assert traceHeaders(HEADERS_ONLY, Message(b"a"), Random(1)) is None
        assert traceHeaders(HEADERS_ONLY, request("A: b"), Random(1)) is None

    @pytest.mark.parametrize(
        ("lines", "kept"),
        [
            (["Uber-Trace-Id: a:b:c:1"], {"Uber-Trace-Id": ["a:b:c:1"]}),
            (
                ["uber-trace-id: a:b:c:3", "uberctx-x: y", "Z: z"],
                {"Uber-Trace-Id": ["a:b:c:3"], "Uberctx-X": ["y"]},
            ),
            (["Uber-Trace-Id: a:b:c:0"], None),
            (["Uber-Trace-Id: a:b:1"], None),
            (["Uber-Trace-Id: a:b:c:xyz"], None),
            (["X-B3-Sampled: 1", "A: b"], {"X-B3-Sampled": ["1"]}),
            (["X-B3-Sampled: 0", "X-B3-TraceId: a"], None),
            (
                ["X-B3-TraceId: a", "X-B3-SpanId: b", "X-B3-ParentSpanId: c"],
                {"X-B3-Traceid": ["a"], "X-B3-Parentspanid": ["c"], "X-B3-Spanid": ["b"]},
            ),
            (["B3: a-b-1-c"], {"B3": ["a-b-1-c"]}),
            (["b3: a-b"], {"B3": ["a-b"]}),
            (["B3: a-b-0-c"], None),
            (["B3: 0"], None),
            (["traceparent: 00-a-b-01"], {"Traceparent": ["00-a-b-01"]}),
            (
                ["traceparent: 00-a-b-01", "tracestate: x=y"],
                {"Traceparent": ["00-a-b-01"], "Tracestate": ["x=y"]},
            ),
            (["traceparent: 00-a-b-00"], None),
            (["traceparent: 00-a-b-1"], None),
            (["traceparent: 00-a-b"], None),
        ],
    )
    def test_headers(self, lines: list[str], kept: dict[str, list[str]] | None) -> None:
        """Trace headers decide whether a request is measured, and the report has these headers."""
        assert traceHeaders(HEADERS_ONLY, request(*lines), Random(1)) == kept


class TestEvents:
    """Latency events."""

    def test_timesAddUp(self) -> None:
        """The times add up: the total without the round trips is the service's time."""
        asks, says = Person("B", "bob", 1_000), Person("A", "ann", 2_000)
        event = answeredEvent(asks, says, True, {"B3": ["a"]}, 10.0, 10.25)
        assert list(event["requestor"]) == ["acc", "name", "rtt", "server", "kind"]
        assert event["service"] + event["responder"]["rtt"] == 250_000_000
        assert event["total"] == 250_001_000
        assert event["header"] == {"B3": ["a"]}
        assert event["start"] == "1970-01-01T00:00:09.999999Z"

    def test_neverNegative(self) -> None:
        """The service's time is 0 if the answer came faster than the round trips."""
        event = answeredEvent(None, Person("A", "ann", 10**9), False, {}, 10.0, 10.1)
        assert event["service"] == 0
        assert "requestor" not in event

    @pytest.mark.parametrize(
        ("status", "text"),
        [(408, "Request Timeout"), (503, "Service Unavailable"), (504, "Service Timeout")],
    )
    def test_unanswered(self, status: int, text: str) -> None:
        """A report of a request without an answer gives the reason."""
        event = unansweredEvent(status, Person("B"), False, {}, 1.0, 2.0)
        assert (event["status"], event["description"]) == (status, text)
        assert (event["service"], event["total"]) == (0, 0)
        assert event["timestamp"] == "1970-01-01T00:00:02Z"

    def test_event(self) -> None:
        """An event is published in the account, in nats-server's order, with an id."""
        market = Market("A")
        recorder = market.subscribe("A", b"x")
        publishEvent(
            market["A"], Latency("x"), unansweredEvent(400, Person("B", rtt=5), False, {}, 1.0, 1.0)
        )
        publishEvent(
            market["A"], Latency("x"), unansweredEvent(400, None, False, {"B3": ["a"]}, 1.0, 1.0)
        )
        first, second = [json.loads(body) for body in recorder.bodies]
        assert list(first) == [
            "type",
            "id",
            "timestamp",
            "status",
            "description",
            "requestor",
            "start",
            "service",
            "system",
            "total",
        ]
        assert len(first["id"]) == 22
        assert first["id"] != second["id"]
        assert b" " not in recorder.bodies[1].replace(b"Bad Request", b"")
