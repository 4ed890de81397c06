"""
Tests for L{natsbroker.accounts.responses}.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.accounts.responses import Responses
from natsbroker.config.settings.accounts import CHUNKED, STREAM
from natsbroker.wire.values import Kind
from tests.accounts.market import Market, Person, events, subjects
from tests.support import Recorder


class Counter:
    """
    A service in account A that account B imports, and a requestor in B.

    @ivar service: the requests that the service received.
    @ivar inbox: the messages that the requestor received.
    """

    def __init__(self, **terms: Any) -> None:
        self.market = Market("A", "B")
        self.export = self.market.service("B", "A", b"req", b"r", **terms)
        self.service = self.market.subscribe("A", b"req")
        self.inbox = self.market.subscribe("B", b"inbox.*")
        self.latency = self.market.subscribe("A", b"latency")
        self.person = Person("B", "bob", 7)

    def ask(self, reply: bytes = b"inbox.1", **more: Any) -> bytes:
        """
        @return: the reply subject that the service sees.
        """
        more.setdefault("origin", self.person)
        self.market.publish("B", b"r", b"?", reply, **more)
        seen: bytes = self.service.got[-1][0].reply
        return seen

    def answer(self, reply: bytes, body: bytes = b"yes", **more: Any) -> int:
        """
        @return: how many receivers there were, as far as the service can tell.
        """
        return self.market.publish("A", reply, body, **more)

    @property
    def owed(self) -> tuple[int, int]:
        """The number of answers that services owe, and of answers that requestors wait for."""
        a, b = self.market["A"].responses, self.market["B"].responses
        return len(a), len(b.pending)


class TestSingle:
    """A service that answers once."""

    def test_answer(self) -> None:
        """The answer comes under the reply subject of the request."""
        counter = Counter()
        reply = counter.ask()
        assert counter.owed == (1, 1)
        assert counter.answer(reply) == 1
        ((message, _),) = counter.inbox.got
        assert (message.subject, message.body) == (b"inbox.1", b"yes")
        assert counter.owed == (0, 0)

    def test_secondAnswer(self) -> None:
        """A second answer is dropped, and the service does not learn of it."""
        counter = Counter()
        reply = counter.ask()
        assert [counter.answer(reply) for _ in range(3)] == [1, 1, 1]
        assert len(counter.inbox.got) == 1

    def test_headers(self) -> None:
        """The headers of an answer are delivered with it."""
        counter = Counter()
        counter.answer(counter.ask(), b"", headers=b"NATS/1.0 503\r\n\r\n")
        ((message, _),) = counter.inbox.got
        assert (message.headers, message.payload) == (b"NATS/1.0 503\r\n\r\n", b"")

    def test_independent(self) -> None:
        """Each of several requests with the same reply subject is answered."""
        counter = Counter()
        replies = [counter.ask() for _ in range(3)]
        assert len(set(replies)) == 3
        assert counter.owed == (3, 1)
        for reply in reversed(replies):
            counter.answer(reply, reply)
        assert counter.inbox.bodies == replies[::-1]

    def test_replyToTheAnswer(self) -> None:
        """An answer with a reply subject gets an answer in the same way."""
        counter = Counter()
        back = counter.market.subscribe("A", b"back")
        counter.market.publish("A", counter.ask(), b"who?", b"back")
        ((message, _),) = counter.inbox.got
        assert message.reply.startswith(b"_R_.")
        counter.market.publish("B", message.reply, b"me")
        assert (subjects(back), back.bodies) == ([b"back"], [b"me"])
        assert counter.owed == (0, 0)

    def test_acknowledged(self) -> None:
        """
        An answer that is a JetStream message keeps its acknowledgement subject as its reply
        subject.
        """
        counter = Counter()
        reply = counter.ask()
        ack = b"$JS.ACK.S.C.1.2.3.4.5"
        counter.market.publish("A", reply, reply=ack, streamSubject=b"s.a")
        (answer, _), *_ = counter.inbox.got
        assert (answer.reply, answer.shownSubject) == (ack, b"s.a")

    def test_mapped(self) -> None:
        """The requestor's mappings apply to the reply subject."""
        counter = Counter()
        counter.market.map("B", **{"inbox.1": "inbox.2"})
        counter.answer(counter.ask())
        assert subjects(counter.inbox) == [b"inbox.2"]

    def test_atOnce(self) -> None:
        """A service may answer while it receives the request."""
        counter = Counter()

        def answer(message: Any) -> None:
            counter.answer(message.reply)

        counter.market.subscribe("A", b"req", who=Recorder(answer))
        counter.service.subscription.cancel()
        assert counter.market.publish("B", b"r", reply=b"inbox.1") == 1
        assert len(counter.inbox.got) == 1
        assert counter.owed == (0, 0)

    def test_overARoute(self) -> None:
        """A response that comes over a route reaches the requestor."""
        counter = Counter()
        counter.answer(counter.ask(), kind=Kind.ROUTE)
        assert len(counter.inbox.got) == 1

    def test_unknown(self) -> None:
        """An answer without a request is accepted and dropped."""
        counter = Counter()
        reply = counter.ask()
        assert counter.answer(reply[:-1] + b"!") == 1
        assert counter.inbox.got == []
        bus = counter.market["A"].busFor(Kind.CLIENT)
        assert bus.hasInterest(reply)
        assert not bus.hasInterest(reply + b"!")

    def test_noReceiver(self) -> None:
        """After an answer that reaches no receiver, no response is pending."""
        counter = Counter()
        reply = counter.ask(b"elsewhere")
        assert counter.answer(reply) == 1
        assert counter.owed == (0, 0)


class TestStream:
    """A service that answers several times."""

    @pytest.mark.parametrize("responseType", [STREAM, CHUNKED])
    def test_untilEmpty(self, responseType: str) -> None:
        """All answers come until one is empty. The empty one comes too."""
        counter = Counter(responseType=responseType)
        reply = counter.ask()
        for body in (b"1", b"2", b"", b"3"):
            counter.answer(reply, body)
        assert counter.inbox.bodies == [b"1", b"2", b""]
        assert counter.owed == (0, 0)

    def test_onlyHeaders(self) -> None:
        """An answer with headers is not empty."""
        counter = Counter(responseType=STREAM)
        reply = counter.ask()
        counter.answer(reply, b"", headers=b"NATS/1.0\r\n\r\n")
        counter.answer(reply, b"1")
        assert len(counter.inbox.got) == 2

    def test_requestorUnsubscribes(self) -> None:
        """
        After the requestor has unsubscribed from a stream of answers, no further answers are taken.
        """
        counter = Counter(responseType=STREAM)
        reply = counter.ask()
        counter.inbox.subscription.cancel()
        assert counter.owed == (0, 0)
        counter.market.subscribe("B", b"inbox.*", who=counter.inbox)
        counter.answer(reply)
        assert counter.inbox.got == []


class TestTime:
    """The time for which an answer is owed."""

    def test_expires(self) -> None:
        """An answer that takes too long does not arrive."""
        counter = Counter(threshold=5.0)
        first = counter.ask()
        counter.market.advance(3.0)
        second = counter.ask()
        counter.market.advance(2.5)
        assert counter.owed == (1, 1)
        assert [counter.answer(first, b"1"), counter.answer(second, b"2")] == [1, 1]
        assert counter.inbox.bodies == [b"2"]

    def test_expiresExactly(self) -> None:
        """Each response expires after its own time. No timer is set while no answer is expected."""
        counter = Counter(threshold=5.0)
        for _ in range(3):
            counter.ask()
            counter.market.advance(1.0)
        left = []
        for _ in range(5):
            left.append(counter.owed[0])
            counter.market.advance(1.0)
        assert left == [3, 3, 2, 1, 0]
        assert counter.market.clock.getDelayedCalls() == []

    def test_streamGoesOn(self) -> None:
        """Each answer extends the time for further ones."""
        counter = Counter(threshold=5.0, responseType=STREAM)
        reply = counter.ask()
        for _ in range(4):
            counter.market.advance(4.0)
            counter.answer(reply)
        assert len(counter.inbox.got) == 4
        counter.market.advance(5.0)
        assert counter.owed == (0, 0)

    def test_close(self) -> None:
        """A closed account has no timers."""
        counter = Counter()
        counter.ask()
        counter.market["A"].responses.close()
        assert counter.owed == (0, 0)
        assert counter.market.clock.getDelayedCalls() == []

    def test_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The number of owed answers is bounded, and the oldest is forgotten first."""
        monkeypatch.setattr(Responses, "LIMIT", 3)
        counter = Counter()
        replies = [counter.ask() for _ in range(5)]
        assert counter.owed == (3, 1)
        for reply in replies:
            counter.answer(reply, reply)
        assert counter.inbox.bodies == replies[2:]


class TestInterestLost:
    """Responses whose requestors have unsubscribed."""

    @pytest.mark.parametrize("pattern", [b"inbox.1", b"inbox.*", b"inbox.>", b">"])
    def test_unsubscribed(self, pattern: bytes) -> None:
        """When the last subscription to the reply subject ends, the answer is owed no longer."""
        counter = Counter()
        counter.inbox.subscription.cancel()
        one = counter.market.subscribe("B", pattern)
        other = counter.market.subscribe("B", b"*.1")
        counter.ask()
        one.subscription.cancel()
        assert counter.owed == (1, 1)
        other.subscription.cancel()
        assert counter.owed == (0, 0)

    def test_otherSubscriptionsEnd(self) -> None:
        """An answer is still owed when subscriptions to other subjects end."""
        counter = Counter()
        other = counter.market.subscribe("B", b"other.*")
        counter.ask()
        other.subscription.cancel()
        assert counter.owed == (1, 1)

    def test_tooMany(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A subscription that ends is not compared with very many awaited answers, which expire
        instead.
        """
        monkeypatch.setattr("natsbroker.accounts.responses._MOST_COMPARED", 2)
        counter = Counter(threshold=5.0)
        for number in range(3):
            counter.ask(b"inbox.%d" % number)
        counter.inbox.subscription.cancel()
        assert counter.owed == (3, 3)
        counter.market.advance(5.0)
        assert counter.owed == (0, 0)


class TestLatency:
    """Latency events of the exporter."""

    def test_latencyOfAnswer(self) -> None:
        """A latency report has the time of the answer, the requester and the service."""
        counter = Counter(sampling=100)
        reply = counter.ask()
        assert reply.endswith(b".T")
        counter.market.advance(0.5)
        counter.answer(reply, origin=Person("A", "ann", 3_000_000))
        (event,) = events(counter.latency)
        assert event["type"] == "io.nats.server.metric.v1.service_latency"
        assert (event["status"], event["requestor"]) == (200, {"acc": "B", "rtt": 7})
        assert event["responder"]["name"] == "ann"
        assert event["service"] == 497_000_000
        assert event["total"] == 500_000_007
        counter.answer(reply)
        assert len(events(counter.latency)) == 1

    def test_noReply(self) -> None:
        """A request without a reply subject is reported as a bad request."""
        counter = Counter(sampling=100)
        counter.ask(b"")
        (event,) = events(counter.latency)
        assert (event["status"], event["description"]) == (400, "Bad Request")

    def test_missingService(self) -> None:
        """A missing service is reported as unavailable."""
        counter = Counter(sampling=100)
        counter.service.subscription.cancel()
        counter.market.publish("B", b"r", reply=b"inbox.1")
        (event,) = events(counter.latency)
        assert (event["status"], event["description"]) == (503, "Service Unavailable")

    def test_tooLong(self) -> None:
        """An answer that takes too long is reported as a timeout."""
        counter = Counter(sampling=100, threshold=5.0)
        counter.ask()
        counter.market.advance(5.0)
        (event,) = events(counter.latency)
        assert (event["status"], event["description"]) == (504, "Service Timeout")

    def test_unwanted(self) -> None:
        """A request whose requestor has unsubscribed is reported as a timeout."""
        counter = Counter(sampling=100)
        counter.ask()
        counter.inbox.subscription.cancel()
        (event,) = events(counter.latency)
        assert (event["status"], event["description"]) == (408, "Request Timeout")

    def test_notSampled(self) -> None:
        """An exchange that is not sampled is not reported."""
        counter = Counter(sampling=0)
        reply = counter.ask()
        assert not reply.endswith(b".T")
        counter.answer(reply)
        counter.ask(b"")
        assert events(counter.latency) == []

    def test_share(self) -> None:
        """The importer may share details of the requestor."""
        counter = Counter(sampling=100, share=True)
        counter.answer(counter.ask())
        (event,) = events(counter.latency)
        assert event["requestor"]["name"] == "bob"
        assert "responder" not in event
