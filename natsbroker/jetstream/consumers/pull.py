"""
Pull requests, and those of them that wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, takewhile

from natsbroker.jetstream.model.bodies import LONGEST, PullBody
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig, PriorityPolicy
from natsbroker.jetstream.model.documents import JsonError, read
from natsbroker.wire.durations import nanosecondsText

_NEVER = float("inf")

#: Texts of requests up to this length are remembered.
_SHORT = 256

#: The priority of a request without one, behind all others.
_LAST_PRIORITY = 1 << 31


Pull = tuple[bytes, bytes, bytes]
"""The reply subject, the headers and the body of a message that requests messages."""


class PullRefused(ValueError):
    """The refusal of a pull request. The text is the status and its description."""


@dataclass(frozen=True, slots=True)
class GroupTerms:
    """
    The fields of a pull request about its priority group.

    @ivar pin: the id of a pinned client.
    """

    group: str = ""
    minPending: int = 0
    minAckPending: int = 0
    pin: str = ""
    priority: int = 0


class PullRequest:
    """
    A request for messages.

    @ivar reply: where the messages go.
    @ivar batch: the messages that it may still have.
    @ivar raised: the difference of C{batch} to the requested number, if that was less than one.
    @ivar delivered: the messages that it had.
    @ivar room: the bytes that it may still have; 0 for any number.
    @ivar expires: when it ends, by the monotonic clock; infinite for never.
    @ivar isNoWait: whether it ends when no more messages are there.
    @ivar heartbeat: seconds between heartbeats; 0 for none.
    @ivar heartbeatDue: when the next heartbeat is due; infinite for never.
    @ivar terms: C{None} if the request is not an object.
    """

    __slots__ = (
        "batch",
        "delivered",
        "expires",
        "heartbeat",
        "heartbeatDue",
        "isNoWait",
        "raised",
        "reply",
        "room",
        "terms",
    )

    def __init__(self, reply: bytes, batch: int = 1) -> None:
        self.reply = reply
        self.batch = max(batch, 1)
        self.raised = self.batch - batch
        self.delivered = 0
        self.room = 0
        self.expires = _NEVER
        self.isNoWait = False
        self.heartbeat = 0.0
        self.heartbeatDue = _NEVER
        self.terms: GroupTerms | None = None

    @property
    def isForever(self) -> bool:
        """Whether it has no expiry."""
        return self.expires == _NEVER

    @property
    def isSingle(self) -> bool:
        """Whether it waits for one message."""
        return self.batch == 1 and not self.isNoWait

    @property
    def priority(self) -> int:
        """The priority of the request; the smallest is served first."""
        return _LAST_PRIORITY if self.terms is None else self.terms.priority

    def pendingHeaders(self) -> bytes:
        """The header lines of a status with the messages and bytes that the request did not get."""
        left = self.batch - self.raised
        return b"Nats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n" % (left, self.room)


def parsePull(body: bytes, reply: bytes, now: float) -> PullRequest:
    """
    Read a pull request: an object, a number, or anything else for one message.

    @param now: by the monotonic clock.
    @raise PullRefused: for an object that is malformed, and a body that is too long.
    """
    if len(body) > LONGEST:
        raise PullRefused("400 Bad Request")
    text = body.strip()
    if not text.startswith(b"{"):
        return PullRequest(reply, _number(text))
    try:
        asked, terms = _read(text) if len(text) > _SHORT else _readShort(text)
    except JsonError as error:
        raise PullRefused(f"400 Bad Request - {error}") from error
    request = PullRequest(reply, asked.batch)
    request.room = max(asked.max_bytes, 0)
    request.isNoWait = asked.no_wait
    if asked.idle_heartbeat > 0:
        if asked.idle_heartbeat * 2 > asked.expires:
            raise PullRefused("400 Bad Request - heartbeat value too large")
        request.heartbeat = asked.idle_heartbeat / 1e9
        request.heartbeatDue = now + request.heartbeat
    if asked.expires:
        request.expires = now + asked.expires / 1e9
    request.terms = terms
    return request


def _read(text: bytes) -> tuple[PullBody, GroupTerms]:
    asked = read(text, PullBody, isStrict=False)
    terms = GroupTerms(
        asked.group, asked.min_pending, asked.min_ack_pending, asked.id, asked.priority
    )
    return asked, _NO_TERMS if terms == _NO_TERMS else terms


#: The priority terms of a request without any.
_NO_TERMS = GroupTerms()

#: Clients that fetch send the same text again and again.
_readShort = lru_cache(maxsize=256)(_read)


def _number(text: bytes) -> int:
    try:
        return int(text) if len(text) < 20 and b"_" not in text else 1
    except ValueError:
        return 1


def checkPull(request: PullRequest, config: ConsumerConfig, now: float) -> None:
    """
    Apply the limits of the consumer and the rules of its priority policy.

    @raise PullRefused: if the request exceeds or breaks one.
    """
    if 0 < config.max_batch < request.batch:
        raise PullRefused(f"409 Exceeded MaxRequestBatch of {config.max_batch}")
    if config.max_expires > 0 and not request.isForever:
        if request.expires > now + config.max_expires / 1e9 + 1e-6:
            limit = nanosecondsText(config.max_expires)
            raise PullRefused(f"409 Exceeded MaxRequestExpires of {limit}")
    if 0 < config.max_bytes < request.room:
        raise PullRefused(f"409 Exceeded MaxRequestMaxBytes of {config.max_bytes}")
    isPlain = request.terms is _NO_TERMS and config.priority_policy is PriorityPolicy.NONE
    if request.terms is not None and not isPlain:
        _checkTerms(request.terms, config)


def _checkTerms(terms: GroupTerms, config: ConsumerConfig) -> None:
    policy = config.priority_policy
    if (terms.minPending or terms.minAckPending) and policy is not PriorityPolicy.OVERFLOW:
        raise PullRefused("400 Bad Request - Not a Overflow Priority consumer")
    if terms.pin and policy is not PriorityPolicy.PINNED_CLIENT:
        raise PullRefused("400 Bad Request - Not a Pinned Client Priority consumer")
    if not 0 <= terms.priority <= 9:
        raise PullRefused("400 Bad Request - Priority must be between 0 and 9")
    if policy is PriorityPolicy.NONE:
        return
    if not terms.group:
        raise PullRefused("400 Bad Request - Priority Group missing")
    if terms.group not in config.priority_groups:
        raise PullRefused("400 Bad Request - Invalid Priority Group")


class WaitingRequests:
    """
    The pull requests that wait. Each is served one message in turn. With priorities, those with the
    smallest number take turns before any others are served.

    @ivar limit: the most requests.
    """

    def __init__(self, limit: int, isPrioritized: bool = False) -> None:
        self.limit = limit
        self.isPrioritized = isPrioritized
        self._requests: deque[PullRequest] = deque()
        self._noWaits = 0

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[PullRequest]:
        return iter(list(self._requests))

    @property
    def isFull(self) -> bool:
        return len(self._requests) >= self.limit

    @property
    def hasNoWait(self) -> bool:
        """Whether one of them has C{no_wait}."""
        return self._noWaits > 0

    @property
    def wanted(self) -> int:
        """The messages that all of them may still have."""
        return sum(request.batch for request in self._requests)

    def add(self, request: PullRequest) -> None:
        """Add a request behind the others, or behind those of its priority."""
        self._noWaits += request.isNoWait
        if self.isPrioritized:
            self._insert(request)
        else:
            self._requests.append(request)

    def _insert(self, request: PullRequest) -> None:
        priority = request.priority
        for place, waiting in enumerate(self._requests):
            if waiting.priority > priority:
                self._requests.insert(place, request)
                return
        self._requests.append(request)

    def first(self) -> PullRequest:
        """The request whose turn it is. There must be one."""
        return self._requests[0]

    def rotate(self) -> None:
        """Put the first request behind the others."""
        self._requests.rotate(-1)

    def served(self, count: int = 1) -> PullRequest:
        """
        Give the first request one message, or several if it waits alone. It leaves when it has all
        that it may have.
        """
        request = self._requests[0]
        request.batch -= count
        request.delivered += count
        if request.batch <= 0:
            self._requests.popleft()
            self._noWaits -= request.isNoWait
        elif self.isPrioritized:
            self._insert(self._requests.popleft())
        elif len(self._requests) > 1:
            self._requests.rotate(-1)
        return request

    def takers(self, most: int, now: float) -> list[PullRequest]:
        """
        The first requests, up to a number of them, that may have one message each, however long it
        is, at the time C{now}.
        """
        some = islice(self._requests, most)
        return list(takewhile(lambda request: not request.room and request.expires > now, some))

    def servedEach(self, count: int) -> None:
        """Give each of the first requests one message. Those leave that have all."""
        waiting = self._requests
        for _ in range(count):
            request = waiting.popleft()
            request.batch -= 1
            request.delivered += 1
            if request.batch > 0:
                waiting.append(request)
            else:
                self._noWaits -= request.isNoWait

    def remove(self, request: PullRequest) -> None:
        """Take a request out, if it is there."""
        try:
            self._requests.remove(request)
        except ValueError:
            return  # It had all its messages and left by itself.
        self._noWaits -= request.isNoWait

    def clear(self) -> list[PullRequest]:
        """Take all requests out."""
        requests = list(self._requests)
        self._requests.clear()
        self._noWaits = 0
        return requests
