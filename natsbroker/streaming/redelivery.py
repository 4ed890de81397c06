"""
Redelivery of unacknowledged messages: when the ack wait has passed, when the durable subscription
is resumed, or when the member of a queue group that had the message is gone. A message that the
store has removed is dropped. A message that cannot be read now stays pending. A single subscription
whose client does not answer heartbeats receives no redeliveries.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from twisted.logger import Logger

from natsbroker.connections.turns import AccountTurns
from natsbroker.interfaces.records import StoreError
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.streaming.delivery import ChannelDelivery, Run
from natsbroker.streaming.ledger import Ledger
from natsbroker.streaming.messages import StoredMessage
from natsbroker.streaming.model import Channel, ChannelSubscription, Group

_log = Logger(namespace="natsbroker.streaming")

#: Seconds within which due messages are redelivered together, with the last of them.
TOGETHER = 0.015

#: Seconds until what a member that left had is sent to others.
HANDOVER = 0.1

#: Messages that are read from the store at once.
PIECE = 256

#: Messages that are sent again in one slice.
SLICE = 32


class Redelivery:
    def __init__(
        self,
        delivery: ChannelDelivery,
        deadlines: Deadlines,
        turns: AccountTurns,
        ledger: Ledger,
        run: Run,
    ) -> None:
        self._delivery = delivery
        self._turns = turns
        self._deadlines = deadlines
        self._ledger = ledger
        self._run = run
        delivery.ackWaitPassed = self._ackWaitPassed

    def _ackWaitPassed(self, member: ChannelSubscription) -> None:
        member.redelivery = None
        if member.isActive and member.pending and not member.isRedelivering:
            if not member.group.queue and member.isUnwell:
                self._delivery.watch(member, member.ackWaitInSecs)
            else:
                member.isRedelivering = True
                self._run(self._redeliver(member))

    async def _redeliver(self, member: ChannelSubscription) -> None:
        wait = TOGETHER
        try:
            await self._turns.take()
            due = _dueOf(member, self._deadlines.now() + 1e-9)
            async for sequence, message in self._found(member.group.channel, due):
                if not self._again(member, sequence, message):
                    wait = member.ackWaitInSecs
        except StoreError as error:
            self._report(member, error)
            wait = member.ackWaitInSecs
        finally:
            member.isRedelivering = False
            self._watchNext(member, wait)

    async def _found(
        self, channel: Channel, sequences: Sequence[int]
    ) -> AsyncIterator[tuple[int, StoredMessage | None]]:
        """Messages by sequence, C{None} for a removed one. L{StoreError} if it is not known."""
        first = channel.bounds.first
        read: dict[int, StoredMessage] = {}
        known = range(0)
        for place, sequence in enumerate(sequences):
            if place % SLICE == 0:
                await self._turns.take()
            message = channel.tail.get(sequence) if sequence >= first else None
            if message is None and sequence >= first:
                if sequence not in known:
                    limit = _span(sequences[place : place + PIECE])
                    messages = await channel.read(sequence, limit)
                    read = {stored.sequence: stored for stored in messages}
                    # Short of the limit nothing is known of what follows the last one: they were
                    # many bytes, or there is no more.
                    end = messages[-1].sequence if messages else sequence
                    known = range(sequence, end + 1)
                message = read.get(sequence)
            yield sequence, message

    def _again(
        self, member: ChannelSubscription, sequence: int, message: StoredMessage | None
    ) -> bool:
        """Send messages again. False if nobody can be sent anything now."""
        if sequence not in member.pending or not member.isActive:
            return True
        if message is None:
            self._drop(member, sequence)
            return True
        chosen = member.group.chooseAgain(member)
        if chosen is None:
            return False
        if chosen is not member:
            member.settled(sequence)
            self._ledger.touched(member)
        self._delivery.sendAgain(chosen, message)
        return True

    def _drop(self, member: ChannelSubscription, sequence: int) -> None:
        member.settled(sequence)
        member.group.counts.pop(sequence, None)
        self._ledger.touched(member)

    def _watchNext(self, member: ChannelSubscription, wait: float = TOGETHER) -> None:
        if not member.isActive or not member.pending:
            return
        again = next(iter(member.pending.values()))[0] - self._deadlines.now()
        self._delivery.watch(member, max(again, wait))

    def _report(self, member: ChannelSubscription, error: StoreError) -> None:
        name, why = member.group.channel.name, str(error)
        _log.error("Cannot read channel {name} to send again: {why}", name=name, why=why)

    async def resume(self, member: ChannelSubscription) -> None:
        """
        Send all pending messages of a durable subscription, whatever its maxInFlight; then new
        ones.
        """
        try:
            async for sequence, message in self._found(
                member.group.channel, sorted(member.pending)
            ):
                if sequence not in member.pending or not member.isActive:
                    continue
                if message is None:
                    self._drop(member, sequence)
                elif member.canHear:
                    self._delivery.sendAgain(member, message)
        except StoreError as error:
            self._report(member, error)
        member.isOnHold = False
        self._watchNext(member)
        self._delivery.pump(member.group)

    async def restart(self, member: ChannelSubscription, wallClock: Callable[[], int]) -> None:
        """
        After a start of the broker, send again the messages that are due, and the rest in its time.
        The ack wait counts from the storing of a message, because the time of its delivery is not
        known.
        """
        due: dict[int, tuple[float, int]] = {}
        try:
            async for sequence, message in self._found(
                member.group.channel, sorted(member.pending)
            ):
                if sequence in member.pending and message is None:
                    self._drop(member, sequence)
                elif sequence in member.pending and message is not None:
                    due[sequence] = (self._dueAfterRestart(member, message, wallClock()), 0)
        except StoreError as error:
            self._report(member, error)
            again = self._deadlines.now() + member.ackWaitInSecs
            due.update((sequence, (again, 0)) for sequence in member.pending if sequence not in due)
        inOrder = sorted(due.items(), key=lambda item: (item[1][0], item[0]))
        member.pending = {
            sequence: when for sequence, when in inOrder if sequence in member.pending
        }
        member.isOnHold = False
        self._watchNext(member, 0.0)
        self._delivery.pump(member.group)

    def _dueAfterRestart(
        self, member: ChannelSubscription, message: StoredMessage, now: int
    ) -> float:
        left = (message.timestamp - now) / 1e9 + member.ackWaitInSecs
        return self._deadlines.now() + min(max(left, 0.0), member.ackWaitInSecs)

    def handOver(self, leaver: ChannelSubscription, group: Group) -> None:
        pending, leaver.pending, leaver.pendingBytes = leaver.pending, {}, 0
        now = self._deadlines.now()
        shares: list[list[tuple[int, int]]] = [[] for _ in group.members]
        for place, (sequence, (_, size)) in enumerate(pending.items()):
            shares[place % len(shares)].append((sequence, size))
        for member, share in zip(group.members, shares, strict=True):
            if share:
                member.inherit(share, now)
                self._ledger.touched(member)
                self._delivery.watch(member, HANDOVER)


def _dueOf(member: ChannelSubscription, limit: float) -> list[int]:
    due = []
    for sequence, (again, _) in member.pending.items():
        if again > limit:
            break
        due.append(sequence)
    return due


def _span(sequences: Sequence[int]) -> int:
    """
    The messages to read at once in order to get all, or many, of some sequences, from the first on.
    """
    start = sequences[0]
    return max(sequence for sequence in sequences if start <= sequence < start + PIECE) - start + 1
