"""
Acknowledgements.

An acknowledgement belongs to the subscription whose ackInbox received it or, in a queue group, to
the member that has the message now. Subscriptions with room receive more messages when one chunk of
input has been handled. A client that has lost the permission to subscribe receives nothing more
after its acknowledgement, so at most one window of messages.
"""

from __future__ import annotations

from collections.abc import Callable

from natsbroker.streaming.context import StreamingContext
from natsbroker.streaming.messages import acknowledgedIn
from natsbroker.streaming.model import Channel, ChannelSubscription, Group
from natsbroker.streaming.protocol import Ack, Malformed
from natsbroker.streaming.requests.access import requesterOf
from natsbroker.wire.values import Run


class AckHandler:
    def __init__(
        self, context: StreamingContext, withdraw: Callable[[ChannelSubscription], object]
    ) -> None:
        self._subject = context.subjects.subscribe
        self._delivery = context.delivery
        self._ledger = context.ledger
        self._withdraw = withdraw
        self._origin: object = _NOTHING
        self._requester = requesterOf(_NOTHING)
        self._allowed: set[Channel] = set()
        self._relieved: dict[Group, None] = {}

    def take(self, run: Run, subscription: ChannelSubscription) -> None:
        client = subscription.client
        if client is None:
            return
        if run.origin is not self._origin:
            self._origin = run.origin
            self._requester = requesterOf(run.origin)
            self._allowed = set()
        if not self._requester.actsFor(client.owner):
            return
        channel = subscription.group.channel
        payloads = run.payloads
        place = 0
        while place < len(payloads) and subscription.client is not None:
            sequences = acknowledgedIn(payloads, place, channel.subject)
            if sequences:
                place += len(sequences)
            else:
                sequences = _acknowledged(payloads[place], channel.name)
                place += 1
            if sequences:
                self._settle(subscription, sequences)
                if channel not in self._allowed:
                    self._examine(subscription, channel)

    def _settle(self, subscription: ChannelSubscription, sequences: list[int]) -> None:
        group = subscription.group
        if subscription.isStalled:
            self._relieved[group] = None
        strange = subscription.settledMany(sequences)
        if len(strange) < len(sequences):
            self._ledger.settled(subscription)
        for sequence in strange:
            holder = _holderOf(group, sequence)
            if holder is not None:
                if holder.isStalled:
                    self._relieved[group] = None
                holder.settled(sequence)
                self._ledger.settled(holder)
        if group.counts:
            for sequence in sequences:
                group.counts.pop(sequence, None)

    def _examine(self, subscription: ChannelSubscription, channel: Channel) -> None:
        if self._requester.may(self._subject, channel.subject):
            self._allowed.add(channel)
        else:
            self._withdraw(subscription)

    def flush(self) -> None:
        self._origin = _NOTHING
        self._allowed = set()
        if self._relieved:
            relieved, self._relieved = self._relieved, {}
            for group in relieved:
                self._delivery.pump(group)


def _acknowledged(payload: bytes, channel: str) -> list[int]:
    try:
        ack = Ack.FromString(payload)
    except Malformed:
        return []
    return [ack.sequence] if ack.subject == channel else []


def _holderOf(group: Group, sequence: int) -> ChannelSubscription | None:
    for member in group.members:
        if sequence in member.pending:
            return member
    return None


#: An origin that no message has.
_NOTHING = object()
