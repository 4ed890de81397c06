"""The connected clients by their identifiers."""

from __future__ import annotations

from natsbroker.mqtt.registry import ClientRegistry


class Holder:
    """A client that counts how often it lost its place."""

    def __init__(self) -> None:
        self.lost = 0

    def takenOver(self) -> None:
        self.lost += 1


def test_places() -> None:
    """A client takes the place of one of its name, which cannot give up a place it has not."""
    registry = ClientRegistry()
    first, second, other = Holder(), Holder(), Holder()
    registry.add("A", "x", first)
    registry.add("B", "x", other)
    registry.add("A", "x", second)
    assert (first.lost, second.lost, other.lost) == (1, 0, 0)
    registry.remove("A", "x", first)
    assert registry.find("A", "x") is second
    assert list(registry) == [second, other]
    registry.remove("A", "x", second)
    assert registry.find("A", "x") is None
    assert len(registry) == 1
