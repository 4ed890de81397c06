"""
A channel of NATS Streaming as a stream that consumers read.

The log is that of the channel, so a message is stored once. NATS Streaming alone writes it and
removes from it; publishes to the stream's subject are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, ensureDeferred, succeed
from zope.interface import implementer

from natsbroker.interfaces import IStateStore, ISubscriber
from natsbroker.interfaces.records import Entry, Record
from natsbroker.jetstream.accountcore import JetStreamAccountCore
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.streamconfig import StorageType, StreamConfig
from natsbroker.jetstream.statecopies import CopiedStates
from natsbroker.jetstream.streams.publishanswers import PublishAnswers
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Message

if TYPE_CHECKING:
    from natsbroker.streaming.model import Channel

WRITTEN_ELSEWHERE = "the stream is a channel of NATS Streaming, whose clients publish to it"
"""The error of a publish to the stream of a channel."""


def streamNameOf(channel: str) -> str:
    """The name of a channel's stream: names of streams have no full stops."""
    return channel.replace(".", "_").replace("\\", "_")


def channelConfig(name: str, channel: Channel, isInFile: bool) -> StreamConfig:
    """
    A channel's limits, as the configuration of a stream.

    @param name: of the stream.
    """
    limits = channel.limits
    return StreamConfig(
        name=name,
        description=f"channel {channel.name} of NATS Streaming",
        subjects=(channel.name,),
        max_consumers=-1,
        max_msgs=limits.max_msgs or -1,
        max_bytes=limits.max_bytes or -1,
        max_age=round(limits.max_age * 1e9),
        max_msgs_per_subject=-1,
        max_msg_size=-1,
        storage=StorageType.FILE if isInFile else StorageType.MEMORY,
        num_replicas=1,
        allow_direct=True,
        deny_delete=True,
        deny_purge=True,
    )


@implementer(ISubscriber)
class PublishRefusal:
    """Answers publishes to a stream that takes none."""

    def __init__(self, account: JetStreamAccountCore, stream: str) -> None:
        self._account = account
        answers = PublishAnswers(stream, account.domain)
        self._answer = answers.error(errors.STREAM_STORE_FAILED(err=WRITTEN_ELSEWHERE))

    def deliver(self, message: Message, tag: Any) -> None:
        if message.reply:
            self._account.bus.publishInternal(message.reply, self._answer)

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscription has no maximum."""


class ChannelStream(Stream):
    """A channel, with the consumers of an account."""

    isChannel = True

    def __init__(
        self,
        account: JetStreamAccountCore,
        config: StreamConfig,
        created: int,
        channel: Channel,
        states: IStateStore,
    ) -> None:
        """
        @param states: the place of the consumers' state: the store of the channel, so that
            acknowledgements are never ahead of the channel's messages.
        """
        super().__init__(account, config, created, channel.log)
        self._channel = channel
        self._states = CopiedStates(states)

    @property
    def isInFile(self) -> bool:
        """False: records of channels have no length of their headers."""
        return False

    @property
    def states(self) -> IStateStore:
        return self._states

    def serve(self) -> None:
        """Begin to follow the channel."""
        self._channel.watchers.append(self._appended)
        refusal, subject = PublishRefusal(self.account, self.name), self._channel.subject
        self._subscriptions = {decoded(subject): self.account.bus.subscribe(subject, refusal)}
        self._direct.applyConfig()

    def close(self) -> None:
        if self._appended in self._channel.watchers:
            self._channel.watchers.remove(self._appended)
        super().close()

    @property
    def isSettled(self) -> bool:
        return False

    def settle(self) -> Deferred[None]:
        """
        Wait until all earlier publishes are durable. Then remove the messages that the channel's
        limits have removed.
        """
        return ensureDeferred(self._channel.settled()).addCallback(lambda _: self.evicted())

    def _appended(self, sequences: range, batch: Sequence[Entry]) -> None:
        """
        Have consumers deliver the messages that the channel has stored. An error here is logged,
        and does not fail the publishers.
        """
        taking: Deferred[None] = succeed(None)
        self.account.run(taking.addCallback(lambda _: self._take(sequences, batch)))

    def _take(self, sequences: range, batch: Sequence[Entry]) -> None:
        isWatched = bool(self.consumers)
        records = [
            Record(sequence, timestamp, subject, headers, payload)
            for sequence, (subject, headers, payload, timestamp) in zip(
                sequences, batch if isWatched else (), strict=False
            )
        ]
        self.stored(records, isWatched)

    def stored(self, records: Sequence[Record], isWatched: bool) -> None:
        """Messages are durable. The limits are the channel's, so none is enforced here."""
        if isWatched and records:
            self._tail.add(records)
            self.consumers.stored(records)
        else:
            self._tail.clear()
        self.evicted()
