"""
The definition of a row in the table of measurements.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.figures import Bound, Unit

__all__ = ["Figure", "Row"]


@dataclass(frozen=True)
class Figure:
    """
    One number that a row yields, and what it should be.

    @ivar key: its name in the row's measurement.
    @ivar title: what it is, for a reader; empty where the row has only this one.
    @ivar fast: bound of the ratio to the base, with the compiled lane.
    @ivar pure: the same without it.
    @ivar old: bound of the ratio to the older nats-server, with the compiled lane.
    @ivar limit: bound of the figure itself, whatever it is compared with, with either lane.
    """

    key: str
    unit: Unit
    title: str = ""
    fast: Bound | None = None
    pure: Bound | None = None
    old: Bound | None = None
    limit: Bound | None = None


@dataclass(frozen=True)
class Row:
    """
    One thing to measure.

    @ivar kind: which function of L{benchmarks.measure} measures it.
    @ivar load: the load generator's arguments.
    @ivar setting: the servers' configuration, a name of L{benchmarks.settings}.
    @ivar against: the setting of our own server to compare with, or C{None} to compare with
        nats-server.
    @ivar fresh: whether each round needs a newly started server.
    @ivar isRelayed: whether ours is compared with the relay, which reads no configuration.
    @ivar quick: the load where it is to be quick; empty if that is the same.
    """

    key: str
    title: str
    kind: str
    load: tuple[str, ...]
    figures: tuple[Figure, ...]
    setting: str = "plain"
    against: str | None = None
    fresh: bool = False
    isRelayed: bool = False
    quick: tuple[str, ...] = ()

    @property
    def settings(self) -> tuple[str, ...]:
        """
        The settings that our own server is measured with.
        """
        return (self.setting,) if self.against is None else (self.setting, self.against)
