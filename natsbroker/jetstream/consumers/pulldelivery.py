"""
Delivery to pull requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.consumers.core import ConsumerCore, randomToken
from natsbroker.jetstream.consumers.deliverer import SLICE_BYTES, ConsumerDeliverer, withHeader
from natsbroker.jetstream.consumers.groups import GroupVerdict, PriorityGroup
from natsbroker.jetstream.consumers.pull import (
    Pull,
    PullRefused,
    PullRequest,
    WaitingRequests,
    checkPull,
    parsePull,
)
from natsbroker.jetstream.model.consumerconfig import PriorityPolicy
from natsbroker.jetstream.streams.msgheaders import needsNewerApi

_NEVER = float("inf")

_EXAMINED = 16
"""
The number of waiting requests that are examined, on average, for each new request that finds no
room.
"""


class PullDeliverer(ConsumerDeliverer):
    """Gives each waiting request a message in turn."""

    def __init__(self, core: ConsumerCore) -> None:
        super().__init__(core)
        config = core.config
        isPrioritized = config.priority_policy is PriorityPolicy.PRIORITIZED
        self.waiting = WaitingRequests(config.max_waiting or 512, isPrioritized)
        self.group = PriorityGroup(config, self._newPin, core.account.now)
        self._pinnedGroup = ""
        self._unexamined = 0

    def _newPin(self) -> str:
        return randomToken(self.core.random, 22)

    def applyConfig(self) -> None:
        self.group.applyConfig(self.core.config)
        self.waiting.isPrioritized = self.group.policy is PriorityPolicy.PRIORITIZED

    # Requests.

    def requested(self, pulls: Sequence[Pull]) -> None:
        """Take requests that came together, as if each was served before the next one came."""
        core = self.core
        now = core.lastActive = core.monotonic()
        isPlain = self.group.policy is PriorityPolicy.NONE
        isOwed = False
        for reply, headers, body in pulls:
            if not reply:
                continue
            try:
                if headers and needsNewerApi(headers):
                    raise PullRefused("412 Required Api Level")
                request = parsePull(body, reply, now)
                checkPull(request, core.config, now)
            except PullRefused as refused:
                if isOwed:
                    self.pump()
                isOwed = False
                self._refuse(reply, str(refused).encode())
                continue
            # Requests for single messages get the same messages when they are served together.
            isSingle = isPlain and request.isSingle
            if isOwed and (self.waiting.isFull or not isSingle):
                self.pump()
                isOwed = False
            if self._admit(request):
                isOwed = isSingle
                if not isSingle:
                    self._serve(now)
        if isOwed:
            self.pump()

    def _admit(self, request: PullRequest) -> bool:
        """Have a request wait; false if it is refused."""
        try:
            if self.core.config.priority_policy is not PriorityPolicy.NONE:
                self._checkPin(request)
            if request.isNoWait:
                self._checkPending(request)
        except PullRefused as refused:
            self._refuse(request.reply, str(refused).encode())
            return False
        if not self._hasRoom():
            # A client with heartbeats notices their absence. An error would make it ask at once.
            if not request.heartbeat:
                self._refuse(request.reply, b"409 Exceeded MaxWaiting")
            return False
        self.waiting.add(request)
        self._watch(request)
        return True

    def _serve(self, now: float) -> None:
        if self.group.policy is PriorityPolicy.PRIORITIZED:
            # Requests that arrive together are judged together: the first one of them would
            # otherwise get all messages, whatever its priority.
            self.core.timers.set(self.pump, now)
        else:
            self.pump()

    def _refuse(self, reply: bytes, status: bytes) -> None:
        self.status(reply, b"NATS/1.0 %b\r\n\r\n" % status)

    def _checkPin(self, request: PullRequest) -> None:
        if self.group.isWrongPin(request):
            raise PullRefused("423 Nats-Pin-Id mismatch")
        if self.group.isFromPinned(request) and request.terms is not None:
            self._startPinTimer(request.terms.group)

    def _hasRoom(self) -> bool:
        """
        Whether one more request may wait, not counting those whose clients have left. The more
        requests wait, the longer the search for these takes. If many wait, some new requests are
        refused without a search.
        """
        if not self.waiting.isFull:
            self._unexamined = 0
            return True
        if self._unexamined:
            self._unexamined -= 1
            return False
        isFull = self.examine() >= self.waiting.limit
        self._unexamined = self.waiting.limit // _EXAMINED if isFull else 0
        return not isFull

    def _checkPending(self, request: PullRequest) -> None:
        core = self.core
        core.cursor.count()
        pending = core.cursor.numPending + core.pending.queueLength
        if not pending and core.cursor.isCounted and request.isForever:
            raise PullRefused("404 No Messages")
        if pending:
            self.examine()
            if pending < self.waiting.wanted:
                raise PullRefused("408 Requests Pending")

    def _watch(self, request: PullRequest) -> None:
        when = min(request.expires, request.heartbeatDue)
        if when < _NEVER:
            known = self.core.timers.timeOf(self._timePassed)
            if known is None or when < known:
                self.core.timers.set(self._timePassed, when)

    def _timePassed(self) -> None:
        # With too many pending acknowledgements every request waits, even one with no_wait.
        self.examine(isAtEnd=not self.core.isPendingFull)
        self.pump()

    def examine(self, isAtEnd: bool = False) -> int:
        """
        Send heartbeats, and end requests that have expired or whose client is gone; with C{isAtEnd}
        also requests that do not wait for new messages. Return how many still wait.
        """
        core = self.core
        now = core.monotonic()
        hasInterest = partial(core.account.bus.hasInterest, isRequest=False)
        next_ = _NEVER
        for request in self.waiting:
            if self._ends(request, now, isAtEnd) or not hasInterest(request.reply):
                self.waiting.remove(request)
                continue
            if request.heartbeatDue <= now + 1e-9:
                self.status(request.reply, self.heartbeat() + b"\r\n")
                request.heartbeatDue = now + request.heartbeat
            next_ = min(next_, request.expires, request.heartbeatDue)
        if next_ < _NEVER:
            core.timers.set(self._timePassed, next_)
        return len(self.waiting)

    def _ends(self, request: PullRequest, now: float, isAtEnd: bool) -> bool:
        """End a request if its time has come, with a status."""
        if request.expires <= now + 1e-9:
            self._endWith(request, b"408 Request Timeout")
            return True
        if isAtEnd and request.isNoWait and (request.isForever or request.delivered):
            self._refuse(request.reply, b"404 No Messages")
            return True
        return False

    def _endWith(self, request: PullRequest, status: bytes) -> None:
        lines = request.pendingHeaders()
        self.status(request.reply, b"NATS/1.0 %b\r\n%b\r\n" % (status, lines))

    # Delivery.

    def canDeliver(self) -> bool:
        return len(self.waiting) > 0

    def attemptEnded(self) -> None:
        if self.isAtEnd and self.waiting.hasNoWait:
            for request in self.waiting:
                if request.isNoWait and self._ends(request, self.core.monotonic(), True):
                    self.waiting.remove(request)

    def deliverRun(self, records: Sequence[Record], pending: int) -> int:
        core, waiting = self.core, self.waiting
        now, request = core.monotonic(), waiting.first()
        if self.group.policy is not PriorityPolicy.NONE or request.expires <= now:
            return 0
        if len(waiting) > 1 and not request.room:
            return self._deliverInTurn(records, pending, now)
        most = request.batch if len(waiting) == 1 else 1
        room = request.room - 1 if request.room else SLICE_BYTES
        sent = self._sendRun([request.reply], records[:most], pending, now, room, True)
        if sent.messages:
            if request.room:
                request.room -= sent.size
            waiting.served(sent.messages)
            self._afterwards(request, now)
        return sent.messages

    def _deliverInTurn(self, records: Sequence[Record], pending: int, now: float) -> int:
        """Send one message to each of several requests."""
        takers = self.waiting.takers(len(records), now)
        replies = [request.reply for request in takers]
        sent = self._sendRun(replies, records[: len(takers)], pending, now, SLICE_BYTES, True)
        self.waiting.servedEach(sent.messages)
        for request in takers[: sent.messages]:
            self._afterwards(request, now)
        return sent.messages

    def deliver(self, record: Record, deliveries: int, pending: int) -> bool:
        core, waiting = self.core, self.waiting
        ack = self.ackSubject(record, deliveries, pending)
        size = len(record.subject) + len(ack) + len(record.headers) + len(record.payload)
        now = core.monotonic()
        for _ in range(len(waiting)):
            request = waiting.first()
            if not self._maySend(request, size, now, pending + (deliveries == 1)):
                continue
            sent = record
            if self.group.isPinning:
                pin = self.group.pin.encode()
                sent = record._replace(headers=withHeader(record.headers, b"Nats-Pin-Id", pin))
            if not self.send(request.reply, sent, ack):
                waiting.remove(request)
                continue
            self._served(size, now)
            core.delivered(record, deliveries - 1, now)
            return True
        return False

    def _maySend(self, request: PullRequest, size: int, now: float, pending: int) -> bool:
        """
        Whether the first request may have a message. If not, the request has ended or was put last.
        """
        waiting, group = self.waiting, self.group
        if request.expires <= now:
            self._endWith(request, b"408 Request Timeout")
            waiting.remove(request)
            return False
        verdict = GroupVerdict.SERVE
        if group.policy is not PriorityPolicy.NONE:
            verdict = group.judge(request, pending, len(self.core.pending))
        if verdict == GroupVerdict.WAIT:
            waiting.rotate()
            return False
        if verdict == GroupVerdict.WRONG_PIN:
            self._endWith(request, b"423 Nats-Wrong-Pin-Id")
            waiting.remove(request)
            return False
        if verdict == GroupVerdict.SERVE_PINNED and request.terms is not None:
            self._pinned(request.terms.group)
        if 0 < request.room < size:
            self._endWith(request, b"409 Message Size Exceeds MaxBytes")
            waiting.remove(request)
            if verdict == GroupVerdict.SERVE_PINNED:
                self._unpin()
            return False
        return True

    def _served(self, size: int, now: float) -> None:
        first = self.waiting.first()
        if first.room:
            first.room -= size
            if not first.room:
                first.batch = 1
        self._afterwards(self.waiting.served(), now)

    def _afterwards(self, request: PullRequest, now: float) -> None:
        if request.batch > 0:
            if request.heartbeat:
                request.heartbeatDue = now + request.heartbeat
        elif request.room:
            self._endWith(request, b"409 Batch Completed")

    # The pinned client.

    def _pinned(self, group: str) -> None:
        self._startPinTimer(group)
        self._advisePin("PINNED", "consumer_group_pinned", group, pinned_id=self.group.pin)

    def _startPinTimer(self, group: str) -> None:
        core = self.core
        self._pinnedGroup = group
        core.timers.set(self._pinTimePassed, core.monotonic() + core.config.priority_timeout / 1e9)

    def _pinTimePassed(self) -> None:
        if self.group.pin:
            self._unpin()
            self._adviseUnpinned(self._pinnedGroup, "timeout")
            self.pump()

    def _unpin(self) -> None:
        self.group.unpin()
        self.core.timers.clear(self._pinTimePassed)

    def unpin(self, group: str) -> None:
        """Pin another client at an administrator's request."""
        self._unpin()
        self._adviseUnpinned(group, "admin")
        self.pump()

    def _adviseUnpinned(self, group: str, reason: str) -> None:
        self._advisePin("UNPINNED", "consumer_group_unpinned", group, reason=reason)

    def _advisePin(self, event: str, kind: str, group: str, **fields: str) -> None:
        core = self.core
        names = {"account": core.account.name, "stream": core.stream.name, "consumer": core.name}
        subject = f"ADVISORY.CONSUMER.{event}.{core.stream.name}.{core.name}"
        fields = {**names, "group": group, **fields}
        core.account.advise(subject, f"advisory.v1.{kind}", lambda: fields)

    # The end.

    def end(self, status: bytes, isCounted: bool) -> None:
        for request in self.waiting.clear():
            if isCounted:
                self._endWith(request, status)
            else:
                self._refuse(request.reply, status)
