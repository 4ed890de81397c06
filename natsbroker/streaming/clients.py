"""
The clients that are connected to the service.

Promises: one client for each client id; a connection id leads to the client that brought it, for as
long as it is registered.
Must never know: how a client gets in, or how it is found dead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from natsbroker.streaming.deadlines import Deadline
    from natsbroker.streaming.groups import Subscription

__all__ = ["Client", "Clients"]


class Client:
    """
    One client.

    @ivar clientID: what it calls itself.
    @ivar heartbeatInbox: where it answers heartbeats.
    @ivar connID: what tells its connection from others; no bytes for a client of protocol 0.
    @ivar protocol: of the connect request.
    @ivar owner: the user that connected it; see L{natsbroker.streaming.requests.access}.
    @ivar subscriptions: its active ones, in the order in which they were made.
    @ivar failures: heartbeats that were not answered, in a row.
    @ivar heartbeat: when the next one is sent; C{None} while an answer is waited for.
    @ivar isRegistered: whether it is still connected.
    """

    __slots__ = (
        "clientID",
        "connID",
        "failures",
        "heartbeat",
        "heartbeatInbox",
        "isRegistered",
        "owner",
        "protocol",
        "subscriptions",
    )

    def __init__(
        self, clientID: str, heartbeatInbox: str, connID: bytes, protocol: int, owner: str
    ) -> None:
        self.clientID = clientID
        self.heartbeatInbox = heartbeatInbox
        self.connID = connID
        self.protocol = protocol
        self.owner = owner
        self.subscriptions: dict[int, Subscription] = {}
        self.failures = 0
        self.heartbeat: Deadline | None = None
        self.isRegistered = False

    def __repr__(self) -> str:
        return f"<Client {self.clientID}>"


class Clients:
    """
    All of them.

    @ivar byID: by client id; to be read only.
    @ivar byConnection: by connection id; to be read only.
    """

    def __init__(self) -> None:
        self.byID: dict[str, Client] = {}
        self.byConnection: dict[bytes, Client] = {}

    def register(self, client: Client) -> None:
        """
        Let a client in.

        @raise KeyError: if there is one with its id.
        """
        if client.clientID in self.byID:
            raise KeyError(client.clientID)
        self.byID[client.clientID] = client
        if client.connID:
            self.byConnection[client.connID] = client
        client.isRegistered = True

    def unregister(self, client: Client) -> None:
        """
        Forget a client.
        """
        client.isRegistered = False
        del self.byID[client.clientID]
        if self.byConnection.get(client.connID) is client:
            del self.byConnection[client.connID]
        heartbeat, client.heartbeat = client.heartbeat, None
        if heartbeat is not None:
            heartbeat.cancel()

    def find(self, clientID: str, connID: bytes) -> Client | None:
        """
        The client that a request is of: a connection id, if there is one, decides.
        """
        return self.byConnection.get(connID) if connID else self.byID.get(clientID)

    def __len__(self) -> int:
        return len(self.byID)

    def __iter__(self) -> Iterator[Client]:
        return iter(list(self.byID.values()))
