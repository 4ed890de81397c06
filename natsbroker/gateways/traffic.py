"""Makes the traffic of connections between clusters."""

from __future__ import annotations

from typing import Any

from natsbroker.gateways.inbound import InboundTraffic
from natsbroker.gateways.outbound import OutboundTraffic
from natsbroker.links.gatewayreplies import GatewayDependencies, GatewayReplyRouter


class GatewayTraffic:
    def __init__(self, dependencies: GatewayDependencies) -> None:
        self._dependencies = dependencies
        self.replyRouter = GatewayReplyRouter(dependencies)

    def arriving(self, link: Any) -> InboundTraffic:
        return InboundTraffic(self._dependencies, self.replyRouter, link)

    def leaving(self, link: Any) -> OutboundTraffic:
        return OutboundTraffic(self._dependencies, link)
