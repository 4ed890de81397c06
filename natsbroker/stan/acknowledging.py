"""
Taking acknowledgements.

Promises: an acknowledgement counts for the subscription at whose ackInbox it came; in a queue
group, for the member that has the message now. Whoever has room again is sent more when all that
one chunk of input brought was taken. Whoever acknowledges and may not subscribe to the channel any
more is told apart: so nobody who has lost the permission is sent more than one window of messages.
Must never know: how messages are sent.
"""

from __future__ import annotations

from collections.abc import Callable

from natsbroker.stan.access import requesterOf
from natsbroker.stan.channels import Channel
from natsbroker.stan.delivery import Delivery
from natsbroker.stan.groups import Group, Subscription
from natsbroker.stan.ledger import Ledger
from natsbroker.stan.protocol import Ack, Malformed
from natsbroker.wire.values import Message

__all__ = ["Acknowledging"]


class Acknowledging:
    """
    Takes acknowledgements.
    """

    def __init__(
        self,
        subject: bytes,
        delivery: Delivery,
        ledger: Ledger,
        withdraw: Callable[[Subscription], object],
    ) -> None:
        """
        @param subject: of subscription requests, for what clients may.
        @param withdraw: ends the subscription of a client that may not have it any more.
        """
        self._subject = subject
        self._delivery = delivery
        self._ledger = ledger
        self._withdraw = withdraw
        self._origin: object = _NOTHING
        self._requester = requesterOf(_NOTHING)
        self._allowed: set[Channel] = set()
        self._relieved: dict[Group, None] = {}

    def take(self, message: Message, subscription: Subscription) -> None:
        """
        Take one acknowledgement.

        @param subscription: at whose ackInbox it came.
        """
        try:
            ack = Ack.FromString(message.payload)
        except Malformed:
            return
        client, group = subscription.client, subscription.group
        if client is None or ack.subject != group.channel.name:
            return
        if message.origin is not self._origin:
            self._origin = message.origin
            self._requester = requesterOf(message.origin)
            self._allowed = set()
        if not self._requester.actsFor(client.owner):
            return
        self._settle(subscription, ack.sequence)
        if group.channel not in self._allowed:
            self._examine(subscription, group.channel)

    def _settle(self, subscription: Subscription, sequence: int) -> None:
        group = subscription.group
        holder = subscription if sequence in subscription.pending else _holderOf(group, sequence)
        if holder is None:
            return
        if holder.isStalled:
            self._relieved[group] = None
        holder.settled(sequence)
        if group.counts:
            group.counts.pop(sequence, None)
        self._ledger.touched(holder)

    def _examine(self, subscription: Subscription, channel: Channel) -> None:
        if self._requester.may(self._subject, channel.subject):
            self._allowed.add(channel)
        else:
            self._withdraw(subscription)

    def flush(self) -> None:
        """
        Send more to those who have room again.
        """
        self._origin = _NOTHING
        self._allowed = set()
        if self._relieved:
            relieved, self._relieved = self._relieved, {}
            for group in relieved:
                self._delivery.pump(group)


def _holderOf(group: Group, sequence: int) -> Subscription | None:
    """
    The member of a queue group that has a message unacknowledged.
    """
    for member in group.members:
        if sequence in member.pending:
            return member
    return None


#: An origin that no message has.
_NOTHING = object()
