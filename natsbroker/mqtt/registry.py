"""The clients of MQTT that are connected to this broker, by account and client identifier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Connected(Protocol):
    """A connected client."""

    def takenOver(self) -> None:
        """Close the connection: another one has the same client identifier."""


class ClientRegistry:
    def __init__(self) -> None:
        self._clients: dict[tuple[str, str], Connected] = {}

    def add(self, account: str, clientID: str, client: Connected) -> None:
        """Add a client, in the place of one of the same name."""
        key = account, clientID
        before = self._clients.get(key)
        self._clients[key] = client
        if before is not None:
            before.takenOver()

    def remove(self, account: str, clientID: str, client: Connected) -> None:
        """Remove a client, if no other one has its place."""
        key = account, clientID
        if self._clients.get(key) is client:
            del self._clients[key]

    def find(self, account: str, clientID: str) -> Connected | None:
        return self._clients.get((account, clientID))

    def __iter__(self) -> Iterator[Connected]:
        return iter(list(self._clients.values()))

    def __len__(self) -> int:
        return len(self._clients)
