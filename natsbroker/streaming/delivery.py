"""
Delivery of channels' messages to subscribers.

Each group receives every message after its position once, in order, as far as its members have room
(maxInFlight). Reads from the store are limited, so that a long channel neither fills memory nor
delays others. A message that cannot be read now is not skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

from twisted.logger import Logger

from natsbroker.connections.turns import AccountTurns
from natsbroker.interfaces import IMessageBus
from natsbroker.interfaces.records import StoreError
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.streaming.ledger import Ledger
from natsbroker.streaming.messages import StoredMessage
from natsbroker.streaming.model import Channel, ChannelSubscription, Group

_log = Logger(namespace="natsbroker.streaming")

#: Messages that are read from the store at once.
PIECE = 256

#: Seconds after which a read that failed is tried again.
RETRY = 1.0

#: Runs a coroutine on its own and logs what escapes it.
Run = Callable[[Coroutine[Any, Any, None]], object]


@dataclass(slots=True)
class TrafficCounters:
    """Traffic on the wire, with refused messages received and redeliveries sent."""

    inMessages: int = 0
    inBytes: int = 0
    outMessages: int = 0
    outBytes: int = 0


class ChannelDelivery:
    """Sends new messages, and sends again for L{natsbroker.streaming.redelivery}."""

    def __init__(
        self,
        bus: IMessageBus,
        deadlines: Deadlines,
        turns: AccountTurns,
        ledger: Ledger,
        traffic: TrafficCounters,
        run: Run,
    ) -> None:
        self._bus = bus
        self._deadlines = deadlines
        self._turns = turns
        self._ledger = ledger
        self._traffic = traffic
        self._run = run
        self.ackWaitPassed: Callable[[ChannelSubscription], object] = _nothing

    def pumpChannel(self, channel: Channel) -> None:
        for group in list(channel.groups.values()):
            if group.members:
                self.pump(group)

    def pump(self, group: Group) -> None:
        channel = group.channel
        if group.isReading or group.lastSent >= channel.last:
            return
        self._skip(group)
        last = channel.last
        while group.lastSent < last:
            member = group.choose()
            if member is None:
                return
            most = min(group.roomOf(member), last - group.lastSent)
            messages = channel.tail.following(group.lastSent + 1, most)
            if not messages:
                group.isReading = True
                self._run(self._catchUp(group))
                return
            self._sendNew(member, messages)

    def _skip(self, group: Group) -> None:
        first = group.channel.bounds.first
        if group.lastSent + 1 < first:
            group.lastSent = first - 1

    async def _catchUp(self, group: Group) -> None:
        channel = group.channel
        try:
            while group.lastSent < channel.last and group.choose() is not None:
                self._skip(group)
                if channel.tail.get(group.lastSent + 1) is not None:
                    break
                if await self._sendPiece(group, channel.last):
                    await self._turns.turn()
        except StoreError as error:
            why = str(error)
            _log.error("Cannot read channel {name}: {why}", name=channel.name, why=why)
            self._deadlines.after(RETRY, partial(self.pump, group))
            return
        finally:
            group.isReading = False
        self.pump(group)

    async def _sendPiece(self, group: Group, last: int) -> bool:
        limit = min(PIECE, group.roomOf(group.members[0], PIECE))
        messages = await group.channel.read(group.lastSent + 1, limit)
        if not messages:
            # All that was there when it was read is gone.
            group.lastSent = max(group.lastSent, last)
            return False
        place = 0
        while place < len(messages):
            member = group.choose()
            if member is None or messages[place].sequence > group.channel.last:
                return False
            place += self._sendNew(member, messages[place : place + group.roomOf(member)])
        return True

    def _sendNew(self, member: ChannelSubscription, messages: list[StoredMessage]) -> int:
        """Send messages from the first on. Return how many were sent."""
        group = member.group
        if messages[0].sequence <= group.mayBeSent:
            self.sendAgain(member, messages[0])
            group.lastSent = messages[0].sequence
            return 1
        messages = _upTo(messages, group.channel.last, member.bytesLeft)
        self._send(member, messages)
        group.lastSent = messages[-1].sequence
        return len(messages)

    def sendAgain(self, member: ChannelSubscription, message: StoredMessage) -> None:
        count = member.group.countAgain(message.sequence)
        encoded = message.encodedAgain(count)
        self._bus.publishInternal(member.inbox, encoded)
        again = self._deadlines.now() + member.ackWaitInSecs
        member.sent(message.sequence, again, message.size)
        self._count(member, 1, len(encoded))

    def _send(self, member: ChannelSubscription, messages: list[StoredMessage]) -> None:
        encoded = [message.encoded for message in messages]
        self._bus.publishBatch(member.inbox, encoded)
        again = self._deadlines.now() + member.ackWaitInSecs
        sequences, sizes = (
            [message.sequence for message in messages],
            [message.size for message in messages],
        )
        member.sentMany(sequences, again, sizes)
        self._count(member, len(encoded), sum(map(len, encoded)))

    def _count(self, member: ChannelSubscription, messages: int, size: int) -> None:
        self._traffic.outMessages += messages
        self._traffic.outBytes += size
        if member.redelivery is None:
            self.watch(member, member.ackWaitInSecs)
        self._ledger.touched(member)

    def watch(self, member: ChannelSubscription, seconds: float) -> None:
        if member.redelivery is not None:
            member.redelivery.cancel()
        member.redelivery = self._deadlines.after(seconds, partial(self.ackWaitPassed, member))


def _upTo(messages: list[StoredMessage], last: int, size: int) -> list[StoredMessage]:
    """The first of some messages up to the one that reaches C{size}; at least one."""
    if messages[-1].sequence <= last and sum(message.size for message in messages) < size:
        return messages
    sizes = accumulate(message.size for message in messages)
    enough = next((place for place, total in enumerate(sizes, 1) if total >= size), len(messages))
    return [message for message in messages[:enough] if message.sequence <= last] or messages[:1]


def _nothing(member: ChannelSubscription) -> None:
    """Do nothing, as the default for redelivery: nothing watches the pending messages."""
