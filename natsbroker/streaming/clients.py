"""
The clients that are connected to the service.
"""

from __future__ import annotations

from collections.abc import Iterator

from natsbroker.streaming.model import Client

__all__ = ["Clients"]


class Clients:
    """
    The clients by client id and by connection id.
    """

    def __init__(self) -> None:
        self.byID: dict[str, Client] = {}
        self.byConnection: dict[bytes, Client] = {}

    def register(self, client: Client) -> None:
        """
        Add a client.

        @raise KeyError: if its client id is in use.
        """
        if client.clientID in self.byID:
            raise KeyError(client.clientID)
        self.byID[client.clientID] = client
        if client.connID:
            self.byConnection[client.connID] = client
        client.isRegistered = True

    def unregister(self, client: Client) -> None:
        """
        Remove a client.
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
        The client of a request: by its connection id, or by its client id if it has none.
        """
        return self.byConnection.get(connID) if connID else self.byID.get(clientID)

    def __len__(self) -> int:
        return len(self.byID)

    def __iter__(self) -> Iterator[Client]:
        return iter(list(self.byID.values()))
