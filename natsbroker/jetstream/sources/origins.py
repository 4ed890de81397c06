"""
Reads another stream through the API of the server that has it. A mirror and a source create a
consumer there, as any client can, and take its deliveries. So the origin may be in this account, in
another that exports it, or behind a link.

The consumer numbers its deliveries and sends heartbeats. After a missing number or a long silence
the reader creates a new consumer, which begins behind the last message stored here.
"""

from __future__ import annotations

import json
from random import SystemRandom, randrange
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.interfaces import IBatchSubscriber, ISubscription
from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.consumers.core import randomToken
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.answers import sourceInfo
from natsbroker.jetstream.model.errors import ErrorRow, JetStreamError
from natsbroker.jetstream.model.sourceconsumers import (
    OriginDelivery,
    deliveryOf,
    isAcknowledged,
    mirrorHash,
    sinceReset,
    sourcingConsumer,
    transformsOf,
)
from natsbroker.jetstream.model.streamconfig import StreamSource
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.runtime.deadlines import Deadline
from natsbroker.subjects.transforms import TransformList
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.jetstream")
_RANDOM = SystemRandom()

PAUSE = 2.0
"""Seconds between two requests for a consumer, at least."""

REQUEST = 1000
"""The cost of a request, in the units of L{natsbroker.pure.backlog}."""

SILENCE = 10.0
"""Seconds without an answer, a message or a heartbeat after which there is a new request."""

BACKOFF = 10.0
"""Seconds that each refused request adds to the wait for the next one."""

LONGEST_BACKOFF = 120.0

_UNKNOWN_REQUESTS = (errors.INVALID_JSON.err_code, errors.REQUIRED_API_LEVEL.err_code)
"""The errors with which older servers refuse the requests of mirrors and sources."""


@implementer(IBatchSubscriber)
class OriginReader:
    """
    Reads one origin for one stream. Subclasses store what it takes.

    @cvar kind: the noun in the name of the consumer.
    @cvar letter: in the deliver subject.
    @cvar noun: in the log.
    @cvar mark: in the metadata of the consumer.
    @cvar unreadable: the error of a named consumer that is of another kind.
    @ivar sequence: the last sequence of the origin that was taken; 0 for none.
    @ivar since: the time, in nanoseconds since 1970, from which messages of the origin are read
        until one was taken; 0 for the start in the configuration.
    @ivar lag: messages that the origin has and this stream does not have yet.
    @ivar refusals: how many messages the stream has refused.
    """

    kind = ""
    letter = ""
    noun = ""
    mark = ""
    unreadable: ErrorRow

    def __init__(self, stream: StreamCore, source: StreamSource) -> None:
        self.stream = stream
        self.source = source
        self.sequence = 0
        self.since = 0
        self.lag = 0
        self.refusals = 0
        self._warned = ""
        self._transforms: TransformList | None = None
        self._seen: int | None = None
        self._heard = 0.0
        self._asked: float | None = None
        self._failures = 0
        self._error: JetStreamError | None = None
        self._attempt = 0
        self._numbered = 0
        self._early: list[Message] | None = None  # Messages before the answer to the request.
        self._isStopped = False
        # Whether the origin's server has no consumers for mirrors and sources.
        self._isPlain = False
        self._name = ""
        self._subscriptions: list[ISubscription] = []
        self._timer: Deadline | None = None

    # The methods of subclasses.

    async def position(self) -> int:
        """The last sequence of the origin that is stored here; 0 for none."""
        raise NotImplementedError

    def take(
        self, delivery: OriginDelivery, subject: bytes, headers: bytes, payload: bytes
    ) -> None:
        """Take a message; L{flush} stores it with the others."""
        raise NotImplementedError

    def flush(self) -> None:
        """Store the messages that were taken."""
        raise NotImplementedError

    def begins(self, before: int) -> None:
        """Begin behind a sequence, because the consumer exists and has delivered nothing."""

    def requestHeaders(self) -> bytes:
        """The header block of the request for a consumer."""
        raise NotImplementedError

    def answerHeaders(self, headers: bytes) -> None:
        """The header block of the answer to it."""

    def hash(self) -> str:
        """The end of the consumer's name, which is always the same."""
        account = self.stream.account
        return mirrorHash(self.stream.name, account.name, account.domain)

    def refused(self, cause: int) -> bool:
        """
        Handle the refusal of the request for a consumer.

        @param cause: the number of the error.
        @return: whether to send another request at once.
        """
        if self._isPlain or cause not in _UNKNOWN_REQUESTS:
            return False
        self._isPlain = True
        return True

    # Life.

    def start(self, delay: float = 0.0) -> None:
        """Begin in a later turn, when the API of this broker is served."""
        self._schedule(delay)

    def halt(self) -> None:
        """Take nothing more. L{stop} or L{end} follows in a later turn, or at once."""
        self._isStopped = True
        self._attempt += 1

    def stop(self) -> None:
        """Stop reading. The consumer ends by itself, since nobody listens to it."""
        self.halt()
        self._end()

    def end(self) -> None:
        """
        Stop reading for good, and delete the consumer: an origin that waits for acknowledgements
        would wait for ever.
        """
        self.stop()
        if self._name:
            subject = f"{self._api}.CONSUMER.DELETE.{self.source.name}.{self._name}"
            self.stream.account.send(subject.encode(), reply=_newReply(), origin=self)

    def info(self, areEncoded: bool = False) -> dict[str, Any]:
        """The fields of stream infos; see L{natsbroker.jetstream.model.documents.toJSON}."""
        active = -1 if self._seen is None else max(self.stream.account.now() - self._seen, 0)
        return sourceInfo(
            self.source,
            lag=self.lag,
            active=active,
            seq=self.shownSequence,
            error=self._error,
            areEncoded=areEncoded,
        )

    @property
    def shownSequence(self) -> int:
        """The last sequence of the origin in infos; 0 leaves it out."""
        return 0

    def _end(self) -> None:
        self._attempt += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            subscription.cancel()

    def _schedule(self, seconds: float) -> None:
        """End the present attempt, and make the next one."""
        self._end()
        if self._isStopped:
            return
        deadlines = self.stream.account.deadlines
        if self._asked is not None:
            seconds = max(seconds, self._asked + PAUSE - deadlines.now())
        self._timer = deadlines.after(max(seconds, 0.0), self._begin)

    def again(self) -> None:
        """Make a new consumer, because the present one missed a message."""
        self._schedule(0.0)

    def goBack(self, sequence: int, error: JetStreamError) -> None:
        """
        Read the messages behind a sequence of the origin again, because the stream refused one. A
        reason is logged once; that the stream is full is not logged.
        """
        self.refusals += 1
        self.sequence = sequence
        self.lag += 1
        self.again()
        isFull = error.err_code == errors.STREAM_STORE_FAILED.err_code
        if not isFull and error.description != self._warned:
            self._warned = error.description
            _log.warn(
                'Error processing inbound {noun} "{origin}" for {account} > {name}: {error}',
                noun=self.noun,
                origin=self.source.name,
                account=self.stream.account.name,
                name=self.stream.name,
                error=error.description,
            )

    def failed(self, error: JetStreamError | None = None) -> None:
        """
        Make a new consumer. With each failure, this happens later.

        @param error: what infos show.
        """
        self._failures += 1
        self._error = error
        self._schedule(min(self._failures * BACKOFF, LONGEST_BACKOFF))

    def guarded(self, storing: Deferred[Any]) -> Deferred[Any]:
        """
        Begin again if a message cannot be stored, because then the store is at fault, not the
        origin.
        """
        return storing.addErrback(self._notStored)

    def _notStored(self, failure: Failure) -> None:
        if failure.check(CancelledError):
            return  # The broker stops.
        self.sequence = 0
        if failure.check(StoreError):
            self._schedule(PAUSE)
            return
        _log.failure(
            "Reading for stream {name} from {origin} failed",
            failure,
            name=self.stream.name,
            origin=self.source.name,
        )
        self.failed()

    # The request.

    def _begin(self) -> None:
        self._timer = None
        if self._isStopped:
            return
        self.stream.account.run(self.guarded(Deferred.fromCoroutine(self._request())))

    async def _request(self) -> None:
        attempt = self._attempt
        # Very many sources may be due at the same time.
        await self.stream.account.turns.take(REQUEST)
        self._asked = self.stream.account.deadlines.now()
        position = await self.position()
        account, source = self.stream.account, self.source
        if self._transforms is None and source.subject_transforms:
            self._transforms = await account.inSteps(transformsOf(source))
        if attempt != self._attempt:
            return
        external = source.external
        deliver = (external.deliver if external else "") or "$JS"
        target = f"{deliver}.{self.letter}.{randomToken(_RANDOM, 8)}"
        reply = _newReply()
        headers = self.requestHeaders()
        if source.consumer is None:
            self._name = f"JS_{self.kind}_{self.hash()}"
            config = self._consumer(target, position)
            if self._isPlain:
                headers = b""
                config["name"] += f"_{randomToken(_RANDOM, 8)}"
                del config["sourcing"]
            name = config["name"]
            only = config.get("filter_subject", "")
            request = f"CREATE.{source.name}" + (f".{name}.{only}" if only else "")
            fields = {"stream_name": source.name, "config": config, "action": ""}
            body = json.dumps(fields).encode()
        else:
            # Messages that the former consumer delivered without acknowledgement come again,
            # numbered from 1.
            target = source.consumer.deliver_subject
            request, body = f"RESET.{source.name}.{source.consumer.name}", b""
        self._numbered = 0
        self._early = []
        self._subscriptions = [
            account.bus.subscribe(target.encode(), self, (attempt, False)),
            account.bus.subscribe(reply, self, (attempt, True)),
        ]
        subject = f"{self._api}.CONSUMER.{request}".encode()
        receivers = account.send(subject, body, headers, reply, origin=self)
        if not receivers:
            self._schedule(PAUSE)
            return
        self._heard = account.deadlines.now()
        self._timer = account.deadlines.after(SILENCE, self._listen)

    @property
    def _api(self) -> str:
        """The prefix of the subjects of requests to the origin."""
        external = self.source.external
        return (external.api if external else "") or "$JS.API"

    def _consumer(self, target: str, position: int) -> dict[str, Any]:
        """The configuration of the consumer."""
        account = self.stream.account
        metadata = {"acc": account.name, "stream": self.stream.name}
        if account.domain:
            metadata["domain"] = account.domain
        named = {f"_nats.{self.mark}.{key}": value for key, value in metadata.items()}
        return sourcingConsumer(self.source, self._name, target, position, named, self.since)

    def _listen(self) -> None:
        """Create a new consumer after a long silence."""
        deadlines = self.stream.account.deadlines
        left = self._heard + SILENCE - deadlines.now()
        if left <= 0:
            self.again()
        else:
            self._timer = deadlines.after(left, self._listen)

    # The handling of deliveries.

    def deliver(self, message: Message, tag: Any) -> None:
        self.deliverMany([(message, tag)])

    def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
        """Take the messages of one turn, and store them together."""
        for message, (attempt, isAnswer) in messages:
            if attempt != self._attempt:
                continue
            if isAnswer:
                self._answered(message)
            elif self._early is not None:
                self._early.append(message)
            else:
                self._arrived(message)
        self.flush()

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscriptions have no maximum."""

    def _answered(self, message: Message) -> None:
        if message.headers.startswith(b"NATS/1.0 503"):
            self._schedule(PAUSE)
            return
        try:
            answer = json.loads(message.payload)
            error = answer.get("error")
            before = 0 if error else int(answer["delivered"]["stream_seq"])
            pending = 0 if error else int(answer["num_pending"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.failed()
            return
        if error:
            code, cause = error.get("code", 0), error.get("err_code", 0)
            if self.refused(cause):
                self.again()
                return
            self.failed(JetStreamError(code, cause, error.get("description", "")))
            return
        if self.source.consumer is not None and not isAcknowledged(answer):
            self.failed(self.unreadable())
            return
        self._failures = 0
        self._error = None
        config = answer.get("config")
        if isinstance(config, dict) and not config.get("sourcing"):
            self._isPlain = True
        self._heard = self.stream.account.deadlines.now()
        self.answerHeaders(message.headers)
        early, self._early = sinceReset(self._early or []), None
        if not early:
            self.lag = pending
            self.begins(before)
        attempt = self._attempt
        for delivery in early:
            if attempt == self._attempt:
                self._arrived(delivery)

    def _arrived(self, message: Message) -> None:
        account = self.stream.account
        self._seen = account.now()
        self._heard = account.deadlines.now()
        if message.headers.startswith(b"NATS/1.0 100"):
            self._controlled(message)
            return
        subject = message.streamSubject or message.subject
        delivery = deliveryOf(message.reply, subject)
        if delivery is None:
            return
        if self.source.consumer is not None and delivery.number == 1:
            # The consumer was reset. Known messages are not stored again.
            self._numbered = 0
        if delivery.number <= self._numbered:
            return
        if delivery.number != self._numbered + 1:
            self.again()
            return
        self._numbered = delivery.number
        self.lag = delivery.pending
        if self._transforms is not None:
            subject = self._transforms.rewrite(subject, randrange)
        attempt = self._attempt
        self.take(delivery, subject, message.headers, message.payload)
        if attempt == self._attempt:  # If not, the message was refused.
            self.sequence = max(self.sequence, delivery.sequence)

    def _controlled(self, message: Message) -> None:
        """
        Handle a heartbeat, or a flow control request, which is answered when everything before it
        is stored.
        """
        known = MessageHeaders(message.headers)
        last = known.get(b"Nats-Last-Consumer")
        if last.isdigit() and int(last) != self._numbered:
            self.again()
            return
        reply, headers = message.reply, b""
        if reply:
            # An origin that waits for acknowledgements reads these numbers as the acknowledgement.
            numbers = self._numbered, self.sequence
            headers = (
                b"NATS/1.0\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n" % numbers
            )
        else:
            reply = known.get(b"Nats-Consumer-Stalled")
        if reply:
            self.flush()
            storing = self.stream.publisher.barrier()
            storing.addCallback(lambda _: self.stream.log.append([]))
            storing.addCallback(self._answerControl, self._attempt, reply, headers)
            self.guarded(storing)

    def _answerControl(self, _: object, attempt: int, reply: bytes, headers: bytes) -> None:
        if attempt == self._attempt:
            # The sender chooses the reply subject: only an answer to flow control may be a request.
            origin = self if reply.startswith(b"$JS.FC.") else None
            self.stream.account.send(reply, headers=headers, origin=origin)


def _newReply() -> bytes:
    return f"$JSC.R.{randomToken(_RANDOM, 8)}".encode()
