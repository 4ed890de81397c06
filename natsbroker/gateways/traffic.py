"""
Makes the traffic of connections between clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from natsbroker.advisories import Advisory
from natsbroker.gateways.inbound import InboundTraffic
from natsbroker.gateways.outbound import OutboundTraffic
from natsbroker.gateways.replies import ReplyNames
from natsbroker.gateways.replyrouter import GatewayReplyRouter
from natsbroker.interfaces import IGatewayInterestPolicy, ILinkSubscriber
from natsbroker.routes.interest import AccountBuses


class GatewayTraffic:
    """
    Makes the traffic of connections that start.

    @ivar replyRouter: also takes the answers that members of our cluster send us.
    """

    def __init__(
        self,
        ourName: str,
        buses: AccountBuses,
        policy: IGatewayInterestPolicy,
        replies: ReplyNames,
        member: Callable[[bytes, str], ILinkSubscriber | None],
        now: Callable[[], float],
        headers: bool = True,
        notify: Callable[[Advisory], None] = lambda advisory: None,
    ) -> None:
        """
        @param ourName: the name of our gateway.
        @param buses: to the accounts, which are L{natsbroker.accounts.gateways.IGatewayBus}es.
        @param member: see L{GatewayReplyRouter}.
        @param now: the time in seconds since the epoch.
        @param headers: whether we understand headers.
        @param notify: gets an advisory for each unwanted message.
        """
        self._notify = notify
        self._ourName = ourName
        self._buses = buses
        self._policy = policy
        self._replies = replies
        self._now = now
        self._headers = headers
        self.replyRouter = GatewayReplyRouter(buses, replies, member)

    def arriving(self, link: Any) -> InboundTraffic:
        document = link.document
        return InboundTraffic(
            link,
            link.gateway,
            document,
            self._buses,
            self._policy,
            self._ourName,
            self.replyRouter,
            self._now,
            self._notify,
        )

    def leaving(self, link: Any) -> OutboundTraffic:
        document, replies = link.document, self._replies
        return OutboundTraffic(
            link,
            link.gateway,
            document,
            self._buses,
            self._policy,
            replies.prefix if document.gateway_nrp else replies.oldPrefix,
            replies.answersOf(link.gateway),
            self._headers,
        )
