"""
A consumer: delivers the messages of a stream and keeps track of what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred, succeed
from zope.interface import implementer

from natsbroker.interfaces import IAckSubscriber, ISubscription
from natsbroker.interfaces.records import Record
from natsbroker.jetstream.consumers.ackhandler import ConsumerAckHandler
from natsbroker.jetstream.consumers.core import ConsumerCore, filtersOf
from natsbroker.jetstream.consumers.inactivity import ConsumerInactivity
from natsbroker.jetstream.consumers.pull import Pull
from natsbroker.jetstream.consumers.pulldelivery import PullDeliverer
from natsbroker.jetstream.consumers.pushdelivery import PushDeliverer
from natsbroker.jetstream.contracts import ConsumerStream
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig, DeliverPolicy
from natsbroker.jetstream.model.documents import encodable
from natsbroker.jetstream.model.gojson import EncodedDocument
from natsbroker.jetstream.model.metadata import withPause, withServer
from natsbroker.wire.timestamps import ZERO_TIME, formatTime
from natsbroker.wire.values import AckRun, Message

#: The status for clients that wait when the consumer stops, and whether it has pending counts.
ENDINGS = {
    "deleted": (b"409 Consumer Deleted", False),
    "shutdown": (b"409 Server Shutdown", True),
    "leadership": (b"409 Leadership Change", False),
}

_RANDOM = Random()

#: The kinds of messages that a subscription receives, as its tag.
_ACKS, _PULLS, _FLOW = range(3)


class ResetRefused(ValueError):
    """
    The error of a reset to a sequence that the consumer cannot have, for the reason in its text.
    """


@implementer(IAckSubscriber)
class Consumer:
    """
    One consumer.

    @ivar created: nanoseconds since 1970.
    @ivar shownConfig: the configuration as answers show it.
    @ivar begun: the positions and counts for L{info} until the first delivery after the start or
        the last reset.
    """

    def __init__(
        self,
        stream: ConsumerStream,
        name: str,
        config: ConsumerConfig,
        created: int,
        state: bytes | None = None,
        random: Random | None = None,
    ) -> None:
        """
        @param state: the value of L{natsbroker.jetstream.consumers.state.stateKey} from an earlier
            run.
        @param random: for ids and samples. By default consumers share one, because each takes three
            kilobytes.
        """
        self.stream = stream
        self.name = name
        self.created = created
        self._state = state
        self.begun: dict[str, Any] = {}
        self.shownConfig = EncodedDocument(_shown)
        self._isStopped = False
        self._subscriptions: list[ISubscription] = []
        self.core = ConsumerCore(stream, name, config, random or _RANDOM)
        self.core.owner = self
        self._pull: PullDeliverer | None = None
        self._push: PushDeliverer | None = None
        self._deliverer: PullDeliverer | PushDeliverer
        if config.deliver_subject:
            self._deliverer = self._push = PushDeliverer(
                self.core, lambda isBound: self._inactivity.bound()
            )
        else:
            self._deliverer = self._pull = PullDeliverer(self.core)
        self._inactivity = ConsumerInactivity(self.core, self._deliverer, self._end)
        self._acks = ConsumerAckHandler(self.core, self._requested)

    @property
    def config(self) -> ConsumerConfig:
        return self.core.config

    @property
    def isKept(self) -> bool:
        """Whether the consumer exists again after a restart of the broker."""
        return self.core.writer.isKept

    @property
    def filters(self) -> tuple[bytes, ...]:
        """The patterns of the messages that it delivers; empty for all."""
        return self.core.cursor.filters

    def wants(self, subject: bytes) -> bool:
        return self.core.cursor.wants(subject)

    def needs(self, sequence: int) -> bool:
        """
        Whether a message of a subject that it wants is unsettled: not delivered yet, pending, or at
        the limit of deliveries without an acknowledgement.
        """
        core, pending = self.core, self.core.pending
        if sequence in pending.entries or sequence in pending.counts:
            return True
        if core.needsAcks and not core.acksAll:
            return sequence > pending.deliveredStream and sequence >= core.cursor.position
        return sequence > pending.floorStream

    # Life.

    def start(self, created: Mapping[bytes, bytes] | None = None) -> Deferred[None]:
        """
        Take up the stored state or the position of the deliver policy, then serve.

        @param created: of a consumer that is being created, the values that become durable together
            with its position: this fails if the store cannot write them.
        @return: fires when it serves and, for a new consumer, its position is durable.
        """
        return ensureDeferred(self._start(created))

    async def _start(self, created: Mapping[bytes, bytes] | None) -> None:
        core, state, self._state = self.core, self._state, None
        isNew = not await core.restore(state)
        if isNew:
            await core.position()
        await core.cursor.recount()
        if created is not None:
            await core.writer.begin(created)
        else:
            core.writer.touched()
            if isNew:
                await core.writer.flush()
        if self._isStopped:
            return
        self._subscribe()
        core.isServing = True
        core.lastActive = core.monotonic()
        self._pausedUntil()
        self._inactivity.watch()
        self._noteBegun()
        self._deliverer.begin()

    def _subscribe(self) -> None:
        account = self.stream.account
        names = f"{self.stream.name}.{self.name}"
        prefixes = ["$JS.API"]
        if account.domain:
            prefixes.append(f"$JS.{account.domain}.API")
        patterns = [(f"{prefix}.CONSUMER.MSG.NEXT.{names}", _PULLS) for prefix in prefixes]
        if self.core.needsAcks:
            patterns.append((f"$JS.ACK.{names}.*.*.*.*.*", _ACKS))
        if self.config.flow_control:
            patterns.append((f"$JS.FC.{names}.>", _FLOW))
        self._subscriptions = [
            account.bus.serve(pattern.encode(), self, tag) for pattern, tag in patterns
        ]

    def stop(self, reason: str) -> Deferred[None]:
        """
        Serve no more, and notify waiting clients.

        @param reason: C{deleted}, C{shutdown} or C{leadership}. The caller deletes the state of a
            deleted consumer, which is not written after this call.
        @return: fires when what has changed is durable.
        """
        core = self.core
        wasServing, core.isServing = core.isServing, False
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            subscription.cancel()
        core.timers.stop()
        if wasServing:
            self._deliverer.end(*ENDINGS[reason])
        self._isStopped = True
        if reason == "deleted" or not wasServing:
            core.writer.stop()
            return succeed(None)
        return core.writer.flush()

    # Messages from clients.

    def deliver(self, message: Message, tag: Any) -> None:
        self.deliverMany([(message, tag)])

    def deliverMany(self, messages: Sequence[tuple[Message | AckRun, Any]]) -> None:
        hadAcks = False
        pulls: list[Pull] = []
        for message, tag in messages:
            if not self.core.isServing:
                break
            if isinstance(message, Message) and tag == _PULLS:
                headers = message.headers if message.headerLength else b""
                pulls.append((message.reply, headers, message.payload))
                continue
            if pulls:
                self._requested(pulls)
                pulls = []
            if isinstance(message, AckRun):
                self._acks.acknowledgedRun(message)
                hadAcks = True
            elif tag == _ACKS:
                self._acks.acknowledged(message)
                hadAcks = True
            else:
                self._flowAnswered(message)
        if pulls and self.core.isServing:
            self._requested(pulls)
        if hadAcks:
            self._acks.finish()
            self._inactivity.settled()
            self.core.pump()

    def subscriptionEnded(self, tag: Any) -> None:
        """Its subscriptions have no limits, so this is never called."""

    def _requested(self, pulls: Sequence[Pull]) -> None:
        if self._pull is not None:
            self._pull.requested(pulls)
            return
        for reply, _, _ in pulls:
            if reply:
                headers = b"NATS/1.0 409 Consumer is push based\r\n\r\n"
                self.stream.account.send(reply, b"", headers)

    def _flowAnswered(self, message: Message) -> None:
        if self._push is not None and self._push.answered(message.subject):
            self._acks.confirmed(message.headers)
            self.core.pump()

    # Changes of the stream.

    def stored(self, records: Sequence[Record], last: int) -> bool:
        """
        Take newly durable messages that the consumer wants.

        @param records: at least one, in order of sequence.
        @param last: the sequence up to which the consumer wants no others.
        @return: whether it can sleep, see L{natsbroker.jetstream.consumers.table.FilterGroup}.
        """
        core = self.core
        canDeliver = self._deliverer.canDeliver()
        core.cursor.stored(records, last, canDeliver)
        if (limit := self.stream.config.max_msgs_per_subject) > 0:
            core.cursor.replaced(records, limit == 1)
        if canDeliver and core.isServing:
            core.pump()
        return not canDeliver and core.cursor.canSleep(last)

    @property
    def isHolding(self) -> bool:
        """
        Whether the consumer must learn what the stream removes: it has read messages, some are not
        acknowledged, or it is starting.
        """
        core, pending = self.core, self.core.pending
        isReading = core.cursor.isHolding or not core.isServing
        return bool(pending.entries or pending.counts or isReading)

    @property
    def lowest(self) -> float:
        """A sequence below which it holds no message."""
        pending = self.core.pending
        return 0 if pending.counts else min(pending.lowest, self.core.cursor.position)

    def removed(self, sequences: Collection[int], before: int, isPurge: bool = False) -> None:
        """
        Follow the removal of messages: of single ones, and of all below C{before}. After a purge
        the consumer continues at C{before}, and publishes no advisories.
        """
        core = self.core
        pending = core.pending
        isHeld = bool(pending.entries or pending.counts)
        core.cursor.removed(sequences, before)
        if not isHeld and not (isPurge and before):
            return
        count, counted = len(pending), len(pending.counts)
        for sequence in sequences if isHeld else ():
            if sequence in pending.entries or sequence in pending.counts:
                core.gone(sequence, isPurge)
        core.goneBefore(before, isPurge)
        if isPurge or len(pending) < count or len(pending.counts) < counted:
            core.writer.touched()
            self._inactivity.settled()
        if core.isServing and len(pending) < count:
            core.pump()  # Other messages have room now.

    # Administration.

    def update(self, config: ConsumerConfig) -> Deferred[None]:
        """Apply a checked configuration; fires when the pending messages are counted again."""
        core = self.core
        previous = core.config
        core.applyConfig(withPause(config, previous.pause_until))
        self._deliverer.applyConfig()
        self._acks.applyConfig()
        filters, wanted = core.cursor.filters, filtersOf(config)
        if wanted != filters:
            core.passOver()
            core.cursor.refilter(wanted)
            self.stream.consumers.refiltered(self, filters)
        self._inactivity.watch()
        core.pump()
        return self.refresh()

    def pause(self, until: int) -> None:
        """Deliver nothing until a time in nanoseconds since 1970. A time in the past resumes."""
        core, previous = self.core, self._pauseEnd
        core.config = withPause(core.config, None if until == ZERO_TIME else until)
        self._pausedUntil()
        if self._pauseEnd != previous:
            self.advisePause()
        core.pump()

    def _pausedUntil(self) -> None:
        core = self.core
        until = core.config.pause_until
        remaining = 0 if until is None else int(until) - core.account.now()
        core.isPaused = remaining > 0
        if core.isPaused:
            core.timers.set(self._pauseEnded, core.monotonic() + remaining / 1e9)
        else:
            core.timers.clear(self._pauseEnded)

    def _pauseEnded(self) -> None:
        self._pausedUntil()
        if not self.core.isPaused:
            self.advisePause()
            self.core.pump()

    def advisePause(self) -> None:
        """Advise whether it is paused."""
        fields = {"paused": self.core.isPaused, "pause_until": formatTime(self._pauseEnd)}
        self.core.advise("PAUSE", "consumer_pause", **fields)

    @property
    def _pauseEnd(self) -> int:
        return ZERO_TIME if self.config.pause_until is None else self.config.pause_until

    def unpin(self, group: str) -> None:
        if self._pull is not None:
            self._pull.unpin(group)

    def reset(self, sequence: int | None = None) -> Deferred[int]:
        """
        Begin again at a sequence, by default behind the acknowledgement floor. Fires with the
        sequence when that is durable, or fails with L{ResetRefused}.
        """
        return ensureDeferred(self._reset(sequence or 0))

    async def _reset(self, sequence: int) -> int:
        core = self.core
        if not sequence:
            sequence = core.pending.floorStream + 1
        else:
            await self._checkReset(sequence)
        core.begin(sequence)
        core.writer.touched()
        await core.cursor.recount()
        self._noteBegun()
        core.pump()
        await core.writer.flush()
        return sequence

    async def _checkReset(self, sequence: int) -> None:
        config = self.config
        if config.deliver_policy is DeliverPolicy.ALL:
            return
        if config.deliver_policy is DeliverPolicy.BY_START_SEQUENCE:
            if sequence < config.opt_start_seq:
                raise ResetRefused("below start seq")
        elif config.deliver_policy is DeliverPolicy.BY_START_TIME:
            start = await self.stream.sequenceAt(int(config.opt_start_time or 0))
            if sequence < start:
                raise ResetRefused("below start time")
        else:
            raise ResetRefused("not allowed")

    def _end(self) -> None:
        """End the consumer, since nobody uses it."""
        self.stop("deleted")
        self.stream.consumerEnded(self)

    # Facts.

    def refresh(self) -> Deferred[None]:
        """Count the pending messages again, if removed ones have made their number uncertain."""
        return ensureDeferred(self.core.cursor.recount())

    def info(self) -> dict[str, Any]:
        """
        The body of CONSUMER.INFO in its order, without type and C{ts}. C{ts} comes before
        C{priority_groups}, the last key here.
        """
        config = self.config
        shown: dict[str, Any] = {
            "stream_name": self.stream.name,
            "name": self.name,
            "created": formatTime(self.created),
            "config": config,
            **self._counts(),
        }
        if self._pull is not None:
            shown["num_waiting"] = self._pull.examine()
        if self._push is not None and self._push.isBound:
            shown["push_bound"] = True
        if config.pause_until is not None:
            remaining = int(config.pause_until) - self.core.account.now()
            if remaining > 0:
                shown["paused"] = True
                shown["pause_remaining"] = remaining
        if config.priority_groups and self._pull is not None:
            shown["priority_groups"] = [self._groupInfo(config.priority_groups[0])]
        return shown

    def _counts(self) -> dict[str, Any]:
        core, pending = self.core, self.core.pending
        return {
            "delivered": _position(pending.delivered, pending.deliveredStream, core.lastDelivered),
            "ack_floor": _position(pending.floor, pending.floorStream, core.lastAcked),
            "num_ack_pending": len(pending),
            "num_redelivered": 0 if core.config.max_deliver == 1 else len(pending.counts),
            "num_waiting": 0,
            "num_pending": core.cursor.numPending,
        }

    def _noteBegun(self) -> None:
        self.begun = self._counts()
        del self.begun["num_waiting"]

    def _groupInfo(self, name: str) -> dict[str, Any]:
        shown: dict[str, Any] = {"group": name}
        if self._pull is not None and self._pull.group.pin:
            shown["pinned_client_id"] = self._pull.group.pin
            shown["pinned_ts"] = formatTime(self._pull.group.pinnedAt)
        else:
            shown["pinned_ts"] = formatTime(ZERO_TIME)
        return shown


def _shown(config: ConsumerConfig) -> dict[str, Any]:
    return encodable(withServer(config))


def _position(consumerSequence: int, sequence: int, lastActive: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"consumer_seq": consumerSequence, "stream_seq": sequence}
    if lastActive:
        shown["last_active"] = formatTime(lastActive)
    return shown
