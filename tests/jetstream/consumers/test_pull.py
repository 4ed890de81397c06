"""
Pull requests, and those that wait.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.consumers.pull import (
    GroupTerms,
    PullRefused,
    PullRequest,
    WaitingRequests,
    checkPull,
    parsePull,
)
from natsbroker.jetstream.model.bodies import LONGEST
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig


class TestParse:
    """Reading requests."""

    def test_object(self) -> None:
        """All fields are read; unknown ones and null are ignored."""
        body = (
            b' {"batch":3,"max_bytes":9,"no_wait":true,"expires":4000000000,"zork":1,'
            b'"idle_heartbeat":2000000000,"group":"g","min_pending":1,"min_ack_pending":2,'
            b'"id":null,"priority":4} '
        )
        request = parsePull(body, b"r", 10.0)
        assert (request.reply, request.batch, request.room, request.isNoWait) == (b"r", 3, 9, True)
        assert (request.expires, request.heartbeat, request.heartbeatDue) == (14.0, 2.0, 12.0)
        assert request.terms == GroupTerms("g", 1, 2, "", 4)
        assert not request.isForever

    @pytest.mark.parametrize(
        ("body", "batch"),
        [
            (b"7", 7),
            (b" 7\n", 7),
            (b"+7", 7),
            (b"-7", 1),
            (b"1_0", 1),
            (b"x", 1),
            (b"[1]", 1),
            (b"9" * 30, 1),
        ],
    )
    def test_number(self, body: bytes, batch: int) -> None:
        """A request body that is a number is the batch size. Other text means one message."""
        request = parsePull(body, b"r", 0.0)
        assert (request.batch, request.terms, request.isForever) == (batch, None, True)

    def test_tooLong(self) -> None:
        """A long body, which takes time to read, is refused."""
        with pytest.raises(PullRefused, match=r"^400 Bad Request$"):
            parsePull(b'{"batch":1,"x":"%b"}' % (b"x" * LONGEST), b"r", 0.0)

    @pytest.mark.parametrize(
        "body",
        [
            b"{x",
            b'{"batch":1',
            b"{} x",
            b'{"batch":"1"}',
            b'{"expires":1.5}',
            b'{"no_wait":1}',
            b'{"batch":1e2}',
            b'{"batch":99999999999999999999}',
            b'{"idle_heartbeat":3,"expires":5}',
            b'{"x":' + b"[" * 2000 + b"]" * 2000 + b"}",
        ],
    )
    def test_malformed(self, body: bytes) -> None:
        """A malformed object is refused with the reason."""
        with pytest.raises(PullRefused, match=r"^400 Bad Request - [a-zA-Z]+ "):
            parsePull(body, b"r", 0.0)

    def test_caseOfNames(self) -> None:
        """Names of fields may have any case, as in Go."""
        assert parsePull(b'{"Batch":4}', b"r", 0.0).batch == 4

    def test_noLimits(self) -> None:
        """A consumer without limits accepts every request."""
        request = parsePull(b'{"batch":99999,"max_bytes":5,"expires":99}', b"r", 0.0)
        checkPull(request, ConsumerConfig(), 0.0)
        assert request.batch == 99999


def waiting(*batches: int, isPrioritized: bool = False) -> WaitingRequests:
    """
    Requests for some messages each.
    """
    made = WaitingRequests(3, isPrioritized)
    for batch in batches:
        made.add(PullRequest(b"%d" % batch, batch))
    return made


class TestWaiting:
    """Pull requests that wait."""

    def test_inTurn(self) -> None:
        """Waiting requests get one message each in turn, and leave after their last message."""
        requests = waiting(1, 2, 3)
        assert (len(requests), requests.isFull, requests.wanted) == (3, True, 6)
        order = [requests.served().reply for _ in range(6)]
        assert order == [b"1", b"2", b"3", b"2", b"3", b"3"]
        assert len(requests) == 0

    def test_remove(self) -> None:
        """Removing a request again has no effect."""
        requests = waiting(1, 2)
        first = requests.first()
        requests.remove(first)
        requests.remove(first)
        assert [request.reply for request in requests] == [b"2"]

    def test_noWait(self) -> None:
        """The queue knows whether a request with no_wait is in it."""
        requests = waiting(2)
        request = PullRequest(b"r")
        request.isNoWait = True
        requests.add(request)
        states = [requests.hasNoWait]
        requests.served()
        requests.served()
        states.append(requests.hasNoWait)
        assert [pull.reply for pull in requests.clear()] == [b"2"]
        assert [*states, requests.hasNoWait] == [True, False, False]

    def test_priorities(self) -> None:
        """Requests are served by priority, lowest number first, and then in turn."""
        requests = waiting(1, isPrioritized=True)
        for name, priority in ((b"a", 5), (b"b", 0), (b"c", 5)):
            request = PullRequest(name, 2)
            request.terms = GroupTerms("g", priority=priority)
            requests.add(request)
        assert [pull.reply for pull in requests] == [b"b", b"a", b"c", b"1"]
        order = [requests.served().reply for _ in range(7)]
        assert order == [b"b", b"b", b"a", b"c", b"a", b"c", b"1"]

    def test_status(self) -> None:
        """A status shows the messages and bytes that the request did not get."""
        request = PullRequest(b"r", 4)
        request.room = 9
        assert request.pendingHeaders() == (
            b"Nats-Pending-Messages: 4\r\nNats-Pending-Bytes: 9\r\n"
        )

    @pytest.mark.parametrize(
        ("body", "left"), [(b"{}", 0), (b'{"batch":0}', 0), (b'{"batch":-2}', -2), (b"x", 1)]
    )
    def test_statusOfNone(self, body: bytes, left: int) -> None:
        """
        A request with a batch below 1 gets one message, but its status shows the requested batch.
        """
        request = parsePull(body, b"r", 0.0)
        assert request.batch == 1
        assert request.pendingHeaders().startswith(b"Nats-Pending-Messages: %d\r\n" % left)
