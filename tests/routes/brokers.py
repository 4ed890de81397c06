"""
A broker in a cluster, in memory.
"""

from __future__ import annotations

from typing import Any

from natsbroker.routes.service import RouteService
from natsbroker.testing.transport import MemoryTransport
from tests.links.linkhosts import LinkHost
from tests.routes.clusters import connect, info

CLUSTER = """
    server_name: n1, listen: "127.0.0.1:4222", accounts { A {} }
    cluster {
        name: C1, listen: "127.0.0.1:6222", pool_size: -1
        %s
    }
"""


class Member(LinkHost):
    """
    A broker that is in a cluster.
    """

    def __init__(self, text: str = "", **arguments: Any) -> None:
        super().__init__(CLUSTER % text, **arguments)

    def start(self) -> Member:
        super().start()
        return self

    @property
    def membership(self) -> RouteService:
        """The broker's route service."""
        assert self.broker.membership is not None
        return self.broker.membership

    def peer(self, **changes: Any) -> MemoryTransport:
        """Dial the broker as another member, and complete the handshake."""
        name = changes.get("server_id", "PEER")
        return self.accepted(6222, connect(name=name) + info(**changes))
