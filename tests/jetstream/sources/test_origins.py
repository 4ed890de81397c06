"""
Reading an origin: requests, deliveries, heartbeats, flow control.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from natsbroker.jetstream.model.sourceconsumers import mirrorHash
from natsbroker.jetstream.model.streamconfig import StreamSource
from natsbroker.jetstream.sources.origins import REQUEST
from natsbroker.wire.values import Kind, Message
from tests.jetstream.support import SECOND, Inbox, Stage


class Origin:
    """An origin on another broker, played by a client."""

    def __init__(self, stage: Stage, prefix: bytes = b"$JS.API") -> None:
        self.stage = stage
        self.requests = Inbox()
        stage.bus.subscribe(prefix + b".CONSUMER.CREATE.>", self.requests)
        self.target = b""
        self.asked: dict[str, Any] = {}

    def answer(self, **answer: Any) -> None:
        """Answer the request for a consumer."""
        (request,) = self.requests.got
        self.requests.got.clear()
        self.asked = json.loads(request.payload)
        self.target = self.asked["config"]["deliver_subject"].encode()
        default = {"delivered": {"consumer_seq": 0, "stream_seq": 0}, "num_pending": 1}
        self.stage.bus.publish(Message(request.reply, json.dumps(answer or default).encode()))
        self.stage.settle()

    def deliver(self, sequence: int, number: int, pending: int = 0) -> None:
        reply = b"$JS.ACK.S.C.1.%d.%d.%d.%d" % (sequence, number, SECOND, pending)
        self.stage.bus.publish(Message(self.target, b"x", reply, streamSubject=b"o"))
        self.stage.settle()

    def control(self, text: str, reply: bytes = b"", **headers: str) -> None:
        lines = [f"NATS/1.0 100 {text}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        block = "\r\n".join([*lines, "", ""]).encode()
        self.stage.bus.publish(Message(self.target, block, reply, len(block)))
        self.stage.settle()


def mirror(stage: Stage, **source: Any) -> Any:
    made = stage.stream(name="M", subjects=(), mirror=StreamSource("S", **source))
    stage.settle()
    return made


class TestRequest:
    """Requests for a consumer."""

    def test_subject(self) -> None:
        """
        If a mirror has a single filter, the request for its consumer has the filter in its subject.
        """
        stage = Stage()
        origin = Origin(stage)
        mirror(stage, filter_subject="o.*")
        (request,) = origin.requests.got
        config = json.loads(request.payload)["config"]
        subject = f"$JS.API.CONSUMER.CREATE.S.{config['name']}.o.*"
        assert request.subject.decode() == subject
        assert config["filter_subject"] == "o.*"
        assert config["deliver_policy"] == "all"

    def test_start(self) -> None:
        """
        A request has the configured start until a message is stored, and then the next sequence.
        """
        stage = Stage()
        origin = Origin(stage)
        made = mirror(stage, opt_start_seq=5)
        origin.answer(delivered={"stream_seq": 4}, num_pending=1)
        assert origin.asked["config"]["opt_start_seq"] == 5
        origin.deliver(7, 1)
        assert (made.first, made.last) == (7, 7)
        stage.clock.pump([1.0] * 11)
        origin.answer()
        assert origin.asked["config"]["opt_start_seq"] == 8

    def test_sameName(self) -> None:
        """Repeated requests of a stream name the same consumer."""
        stage = Stage()
        origin = Origin(stage)
        mirror(stage)
        names = set()
        for _ in range(2):
            origin.answer(config={"sourcing": True}, delivered={"stream_seq": 0}, num_pending=0)
            names.add(origin.asked["config"]["name"])
            stage.clock.pump([1.0] * 11)
        assert names == {"JS_MIRROR_" + mirrorHash("M", stage.account.name, "")}

    @pytest.mark.parametrize("code", [10025, 10185])
    def test_refusesSourcing(self, code: int) -> None:
        """
        After a refusal, a server without sourcing consumers is sent the older form of request.
        """
        stage = Stage()
        origin = Origin(stage)
        mirror(stage)
        origin.answer(error={"code": 400, "err_code": code, "description": "x"})
        first = origin.asked["config"]
        stage.clock.pump([1.0] * 3)
        (request,) = origin.requests.got
        second = json.loads(request.payload)["config"]
        assert (request.headers, first["sourcing"], "sourcing" in second) == (b"", True, False)
        assert second["name"].startswith(first["name"] + "_")

    def test_ignoresSourcing(self) -> None:
        """
        If the answer does not confirm a sourcing consumer, each further request has a new name.
        """
        stage = Stage()
        origin = Origin(stage)
        mirror(stage)
        origin.answer(config={}, delivered={"stream_seq": 0}, num_pending=0)
        first = origin.asked["config"]["name"]
        stage.clock.pump([1.0] * 11)
        origin.answer(config={}, delivered={"stream_seq": 0}, num_pending=0)
        assert origin.asked["config"]["name"].startswith(first + "_")

    def test_nobody(self) -> None:
        """If there is no responder, the request is repeated soon."""
        stage = Stage()
        mirror(stage)
        origin = Origin(stage)
        stage.clock.advance(1.9)
        assert not origin.requests.got
        stage.clock.advance(0.2)
        stage.settle()
        assert len(origin.requests.got) == 1

    def test_backoff(self) -> None:
        """Each refusal makes the wait longer."""
        stage = Stage()
        origin = Origin(stage)
        mirror(stage)
        for wait in (10, 20, 30):
            origin.answer(error={"code": 503, "err_code": 10039, "description": "x"})
            stage.clock.pump([1.0] * (wait - 1))
            assert not origin.requests.got
            stage.clock.advance(1.1)
            stage.settle()
        assert len(origin.requests.got) == 1

    def test_unreadable(self) -> None:
        """A malformed answer counts as a refusal, and the request is repeated."""
        stage = Stage()
        origin = Origin(stage)
        made = mirror(stage)
        origin.answer(num_pending="many")
        assert made.intake.mirrorInfo() == {"name": "S", "lag": 0, "active": -1}
        stage.clock.pump([1.0] * 11)
        stage.settle()
        assert len(origin.requests.got) == 1


class TestControl:
    """Heartbeats and flow control."""

    def test_heartbeats(self) -> None:
        """Heartbeats keep a reader from requesting another consumer."""
        stage = Stage()
        origin = Origin(stage)
        mirror(stage)
        origin.answer()
        for _ in range(30):
            stage.clock.advance(1)
            origin.control("Idle Heartbeat", Nats_Last_Consumer="0")
        assert not origin.requests.got

    def test_missed(self) -> None:
        """If a heartbeat shows that a delivery was missed, another consumer is requested."""
        stage = Stage()
        origin = Origin(stage)
        mirror(stage)
        origin.answer()
        origin.deliver(1, 1)
        origin.control("Idle Heartbeat", Nats_Last_Consumer="2")
        stage.clock.pump([1.0] * 3)
        origin.answer()
        assert origin.asked["config"]["opt_start_seq"] == 2

    def test_flowControl(self) -> None:
        """
        A flow control request is answered with the last stored sequence, which an origin takes for
        an acknowledgement. A heartbeat of a stalled consumer is answered too.
        """
        stage = Stage()
        origin = Origin(stage)
        mirror(stage)
        origin.answer()
        answers = stage.inbox(b"$JS.FC.>")
        origin.deliver(4, 1)
        origin.control("FlowControl Request", b"$JS.FC.S.C.1")
        origin.control("Idle Heartbeat", Nats_Last_Consumer="1", Nats_Consumer_Stalled="$JS.FC.2")
        assert [message.subject for message in answers.got] == [b"$JS.FC.S.C.1", b"$JS.FC.2"]
        numbers = b"NATS/1.0\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 4\r\n\r\n"
        assert [message.headers for message in answers.got] == [numbers, b""]

    def test_flowControlOnly(self) -> None:
        """
        A flow control request is answered only to a subject of flow control. Other services cannot
        be reached by it.
        """
        stage = Stage()
        origin = Origin(stage)
        mirror(stage)
        origin.answer()
        asked = Inbox()
        stage.account.busFor(Kind.INTERNAL).serve(b"$JS.>", asked)
        answers = stage.inbox(b"$JS.ACK.>")
        origin.control("FlowControl Request", b"$JS.ACK.V.C.1.1.1.1.0")
        origin.control("FlowControl Request", b"$JS.FC.S.C.1")
        assert [message.subject for message in asked.got] == [b"$JS.FC.S.C.1"]
        assert len(answers.got) == 1

    def test_lag(self) -> None:
        """The lag of a mirror is the number of messages that the origin still has to deliver."""
        stage = Stage()
        origin = Origin(stage)
        made = mirror(stage)
        origin.answer()
        origin.deliver(1, 1, 6)
        assert made.intake.mirrorInfo()["lag"] == 6


def test_inTurns() -> None:
    """Requests to origins take turns. A broker that stops while one waits logs no failure."""
    stage = Stage()
    origin, waiting, costs = Origin(stage), list[Deferred[None]](), list[int]()

    def take(cost: int) -> Deferred[None]:
        costs.append(cost)
        waiting.append(Deferred())
        return waiting[-1]

    turns: Any = stage.jetstream.turns
    turns.take = take
    stage.stream(name="M", subjects=(), sources=(StreamSource("S"), StreamSource("R")))
    stage.settle()
    assert costs == [REQUEST] * 2 and not origin.requests.got
    waiting[0].callback(None)
    stage.settle()
    assert len(origin.requests.got) == 1
    stage.jetstream.close()
    assert len(origin.requests.got) == 1
