"""
Messages to mapped reply subjects: each goes to the member of our cluster that mapped the subject.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

from natsbroker.connections.labels import inQuotes
from natsbroker.gateways.replies import ReplyNames
from natsbroker.interfaces import ILinkSubscriber
from natsbroker.routes.interest import AccountBuses
from natsbroker.wire.mapped import prefixOf
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker")


class GatewayReplyRouter:
    """
    Delivers answers under the subject that the request named. The member that sent the request
    delivers its answer, or this one if that member is out of reach.
    """

    def __init__(
        self,
        buses: AccountBuses,
        replies: ReplyNames,
        member: Callable[[bytes, str], ILinkSubscriber | None],
    ) -> None:
        """
        @param buses: to the accounts, which are L{natsbroker.accounts.gateways.IGatewayBus}es.
        @param member: gives the route for an account to the member of our cluster with a hash;
            C{None} if there is none.
        """
        self._buses = buses
        self._replies = replies
        self._member = member

    def take(self, account: str, message: Message, isFromMember: bool) -> bool:
        """
        Deliver a message if its subject is mapped.

        @param isFromMember: a member of our cluster sent the message: it is delivered here.
        @return: whether the subject is mapped.
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
