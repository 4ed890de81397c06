"""
The decision to move streams to another broker although their leader is well. This is done after a
broker has joined. At other times leaders stay, because an operator may have chosen them by stepping
others down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from natsbroker.jetstream.model.members import JetStreamPeers
from natsbroker.jetstream.streams.stream import Stream

AT_ONCE = 8
"""The most streams that move before the brokers are looked at again."""


@dataclass(frozen=True, slots=True)
class Move:
    """The move of some streams from the broker that leads most to the one that leads least."""

    source: str
    target: str
    count: int


class LeaderBalance:
    """Notices brokers that join. Moves streams until all brokers lead equally many."""

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()
        self._isDue = False

    def seen(self, members: JetStreamPeers, loads: Mapping[str, int]) -> Move | None:
        """
        The next move, given the number of streams that each broker leads, C{loads}; C{None} for
        none.
        """
        alive = members.alive
        if self._known and not self._known.issuperset(alive):
            self._isDue = True
        self._known = frozenset(alive)
        if not self._isDue:
            return None
        source = max(alive, key=lambda peer: loads.get(peer, 0))
        target = min(alive, key=lambda peer: loads.get(peer, 0))
        count = min((loads.get(source, 0) - loads.get(target, 0)) // 2, AT_ONCE)
        if not count:
            self._isDue = False
            return None
        return Move(source, target, count)

    def settled(self) -> None:
        """End a move because no more streams can move."""
        self._isDue = False


def movable(streams: Iterable[Stream], members: JetStreamPeers, target: str) -> list[Stream]:
    """The streams that a broker may lead. Those with the fewest consumers to disturb come first."""
    fitting = [stream for stream in streams if target in members.fitting(stream.config.placement)]
    return sorted(fitting, key=lambda stream: (len(stream.consumers), stream.name))
