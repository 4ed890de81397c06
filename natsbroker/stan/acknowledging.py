"""
Taking acknowledgements.

Promises: an acknowledgement counts for the subscription at whose ackInbox it came; in a queue
group, for the member that has the message now. Whoever has room again is sent more when all that
one chunk of input brought was taken.
Must never know: how messages are sent.
"""

from __future__ import annotations

from natsbroker.stan.access import requesterOf
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

    def __init__(self, delivery: Delivery, ledger: Ledger) -> None:
        self._delivery = delivery
        self._ledger = ledger
        self._origin: object = _NOTHING
        self._requester = requesterOf(_NOTHING)
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
        if not self._requester.actsFor(client.owner):
            return
        sequence = ack.sequence
        holder = subscription if sequence in subscription.pending else _holderOf(group, sequence)
        if holder is None:
            return
        if holder.isStalled:
            self._relieved[group] = None
        holder.settled(sequence)
        if group.counts:
            group.counts.pop(sequence, None)
        self._ledger.touched(holder)

    def flush(self) -> None:
        """
        Send more to those who have room again.
        """
        self._origin = _NOTHING
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
