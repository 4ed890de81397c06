"""
A hub and a spoke in memory, with their configurations.
"""

from __future__ import annotations

from typing import Any

from natsbroker.testing.transport import MemoryTransport
from tests.leafnodes.leaves import connect, info
from tests.links.linkhosts import LinkHost
from tests.server.support import settingsOf

TEXT = """
    server_name: n1, listen: "127.0.0.1:4222"
    accounts { A { users: [ {user: a, password: a} ] }, B { users: [ {user: b, password: b} ] } }
    leafnodes { %s }
"""


HUB = 'listen: "127.0.0.1:7422"'


SPOKE = 'remotes: [ {url: "nats-leaf://u:p@10.0.0.1:7422", account: B} ]'


class Leafy(LinkHost):
    """
    A broker with leafnodes.
    """

    def __init__(self, text: str, **arguments: Any) -> None:
        super().__init__(TEXT % text, **arguments)

    def start(self) -> Leafy:
        super().start()
        self.settle()
        return self

    def peer(self, **changes: Any) -> MemoryTransport:
        """A leafnode that connects to the broker."""
        return self.accepted(7422, connect(**{"user": "a", "pass": "a", **changes}))

    def answer(self, place: int = -1, **changes: Any) -> MemoryTransport:
        """Accept a connection that the broker has dialled, as its hub."""
        return self.answered(place, info(**changes) + info(connect_info=True, **changes))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.reactor.pump([seconds / 10] * 10)
        self.settle()

    def reload(self, text: str) -> None:
        """Reload another leafnodes block."""
        self.broker.reload(settingsOf(TEXT % text))
        self.settle()
