"""
A broker with gateways in memory.
"""

from __future__ import annotations

from typing import Any

from natsbroker.gateways.service import GatewayService
from natsbroker.testing.transport import MemoryTransport
from tests.gateways.gatewaypeers import connect, info
from tests.links.linkhosts import LinkHost

GATEWAY = """
    server_name: n1, listen: "127.0.0.1:4222", accounts { A {} }
    gateway {
        name: A, listen: "127.0.0.1:7222"
        %s
    }
    %s
"""


REMOTES = 'gateways: [ {name: A, url: "a:1"}, {name: B, urls: ["nats://127.0.0.1:7001"]} ]'


class Edge(LinkHost):
    """
    A broker with a gateway.
    """

    def __init__(self, text: str = "", more: str = "", **arguments: Any) -> None:
        super().__init__(GATEWAY % (text, more), **arguments)

    def start(self) -> Edge:
        super().start()
        return self

    @property
    def service(self) -> GatewayService:
        """The gateway service of the broker."""
        assert self.broker.gateways is not None
        return self.broker.gateways

    def peer(self, **changes: Any) -> MemoryTransport:
        """A gateway that has connected to the broker and was accepted."""
        name = changes.get("gateway", "B")
        return self.accepted(7222, connect(gateway=name) + info(**changes))
