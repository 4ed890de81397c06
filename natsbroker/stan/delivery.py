"""
Sending the messages of channels to subscribers.

Promises: each group gets every message after its position, in order, once, as far as its members
have room (maxInFlight); what comes out of the store is read in pieces, so that a long channel
neither fills memory nor holds up others. A message that cannot be read is never taken for one that
was acknowledged.
Must never know: how somebody became a subscriber.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from natsbroker._istore import StoreError
from natsbroker.interfaces import IMessageBus
from natsbroker.stan.channels import Channel
from natsbroker.stan.deadlines import Deadlines
from natsbroker.stan.figures import Traffic
from natsbroker.stan.groups import Group, Subscription
from natsbroker.stan.ledger import Ledger
from natsbroker.stan.tail import StoredMessage

__all__ = ["Delivery", "Run"]

_log = Logger(namespace="natsbroker.stan")

#: Messages that are read from the store at once.
PIECE = 256

#: Seconds after which a read that failed is tried again.
RETRY = 1.0

#: Runs a coroutine on its own and logs what escapes it.
Run = Callable[[Coroutine[Any, Any, None]], object]


class Delivery:
    """
    Sends what is new, and sends again for L{natsbroker.stan.redelivery}.
    """

    def __init__(
        self,
        bus: IMessageBus,
        deadlines: Deadlines,
        ledger: Ledger,
        traffic: Traffic,
        run: Run,
    ) -> None:
        """
        @param run: runs a coroutine on its own.
        """
        self._bus = bus
        self._deadlines = deadlines
        self._ledger = ledger
        self._traffic = traffic
        self._run = run
        self.ackWaitPassed: Callable[[Subscription], object] = _nothing

    def pumpChannel(self, channel: Channel) -> None:
        """
        Send what is new to all groups of a channel.
        """
        for group in list(channel.groups.values()):
            if group.members:
                self.pump(group)

    def pump(self, group: Group) -> None:
        """
        Send a group what it has not had and can take.
        """
        channel = group.channel
        if group.isReading or group.lastSent >= channel.last:
            return
        self._skip(group)
        now = self._deadlines.now()
        get, last = channel.tail.get, channel.last
        sequence = group.lastSent + 1
        while sequence <= last:
            member = group.choose()
            if member is None:
                return
            message = get(sequence)
            if message is None:
                group.isReading = True
                self._run(self._catchUp(group))
                return
            self._sendNew(member, message, now)
            sequence += 1

    def _skip(self, group: Group) -> None:
        """
        Leave out what the channel does not have any more.
        """
        first = group.channel.bounds.first
        if group.lastSent + 1 < first:
            group.lastSent = first - 1

    async def _catchUp(self, group: Group) -> None:
        """
        Send from the store what is no longer in memory.
        """
        channel = group.channel
        try:
            while group.lastSent < channel.last and group.choose() is not None:
                self._skip(group)
                if channel.tail.get(group.lastSent + 1) is not None:
                    break
                if await self._sendPiece(group, channel.last):
                    await self._breathe()
        except StoreError as error:
            why = str(error)
            _log.error("Cannot read channel {name}: {why}", name=channel.name, why=why)
            self._deadlines.after(RETRY, partial(self.pump, group))
            return
        finally:
            group.isReading = False
        self.pump(group)

    async def _sendPiece(self, group: Group, last: int) -> bool:
        """
        Send some messages.

        @param last: the channel's highest sequence now.
        @return: whether there may be more.
        """
        messages = await group.channel.read(group.lastSent + 1, PIECE)
        now = self._deadlines.now()
        for message in messages:
            member = group.choose()
            if member is None:
                return False
            if message.sequence > group.channel.last:
                return False
            self._sendNew(member, message, now)
        if not messages:
            # All that was there when it was read is gone.
            group.lastSent = max(group.lastSent, last)
        return bool(messages)

    def _breathe(self) -> Deferred[None]:
        """
        Let others have their turn.
        """
        turn: Deferred[None] = Deferred()
        self._deadlines.after(0.0, partial(turn.callback, None))
        return turn

    def _sendNew(self, member: Subscription, message: StoredMessage, now: float) -> None:
        group, sequence = member.group, message.sequence
        if sequence <= group.mayBeSent:
            self.sendAgain(member, message)
        else:
            self._send(member, message, message.encoded(), now)
        group.lastSent = sequence

    def sendAgain(self, member: Subscription, message: StoredMessage) -> None:
        """
        Send a message that was, or may have been, sent before.
        """
        count = member.group.countAgain(message.sequence)
        self._send(member, message, message.encodedAgain(count), self._deadlines.now())

    def _send(
        self, member: Subscription, message: StoredMessage, encoded: bytes, now: float
    ) -> None:
        self._bus.post(member.inbox, encoded)
        traffic = self._traffic
        traffic.outMessages += 1
        traffic.outBytes += len(encoded)
        member.sent(message.sequence, now + member.ackWaitInSecs, message.size)
        if member.redelivery is None:
            self.watch(member, member.ackWaitInSecs)
        self._ledger.touched(member)

    def watch(self, member: Subscription, seconds: float) -> None:
        """
        Look at what a member has pending when so much time has passed.
        """
        if member.redelivery is not None:
            member.redelivery.cancel()
        member.redelivery = self._deadlines.after(seconds, partial(self.ackWaitPassed, member))


def _nothing(member: Subscription) -> None:
    """
    Nobody looks at what is pending.
    """
