"""
Answers that find their way back: what to do with a message to a mapped subject.

An answer to something that this cluster asked is delivered by the member that asked it,
under the subject that it asked to be answered at, or by this one if that member is out of reach;
an answer that is not this cluster's goes nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.logger import Logger

from natsbroker.connections.labels import inQuotes
from natsbroker.interfaces import ILinkSubscriber
from natsbroker.routes.interest import AccountBuses
from natsbroker.wire.mapped import prefixOf
from natsbroker.wire.values import Message

__all__ = ["GatewayReplyRouter", "MappedReplies"]

_log = Logger(namespace="natsbroker")


class MappedReplies(Protocol):
    """
    Who we are in mapped subjects, as L{natsbroker.gateways.replies.ReplyNames} knows it.
    """

    def destination(self, subject: bytes) -> tuple[bytes, bytes] | None:
        """
        See L{natsbroker.gateways.replies.ReplyNames.destination}.
        """


class GatewayReplyRouter:
    """
    Takes messages to mapped subjects, of members of our cluster and of others.
    """

    def __init__(
        self,
        buses: AccountBuses,
        replies: MappedReplies,
        member: Callable[[bytes, str], ILinkSubscriber | None],
    ) -> None:
        """
        @param buses: to the accounts, which are L{natsbroker.interfaces.IGatewayBus}es.
        @param member: gives the way to the member of our cluster with a hash, for an account;
            C{None} if there is none.
        """
        self._buses = buses
        self._replies = replies
        self._member = member

    def take(self, account: str, message: Message, isFromMember: bool) -> bool:
        """
        Deliver a message if its subject is mapped.

        @param isFromMember: whether a member of our cluster sent it: that passes on what it cannot
            deliver itself, so it is delivered here.
        @return: whether that was so.
        """
        if not prefixOf(message.subject):
            return False
        found = self._replies.destination(message.subject)
        if found is None:
            _log.debug(
                "Dropping an answer to somebody else: {subject}", subject=inQuotes(message.subject)
            )
            return True
        server, subject = found
        if server and not isFromMember:
            link = self._member(server, account)
            if link is not None:
                link.forward(message, ())
                return True
        bus: Any = self._buses.busOf(account)
        if bus is not None:
            answer = message.readdressed(subject, message.reply)
            bus.answer(answer.withReplyPrefix(message.via) if message.via else answer)
        return True
