"""
Finding and opening stores.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker.hosting.plugins import PluginError, Plugins
from natsbroker.hosting.stores import (
    LMDBOpener,
    MemoryOpener,
    monotonicOf,
    storeOpener,
    wallClockOf,
)
from natsbroker.interfaces import IStoreOpener, IStreamStore
from natsbroker.testing.pumped import PumpedReactor


class Host:
    """What an opener needs of a host."""

    def __init__(self, reactor: Any) -> None:
        self.reactor = reactor


@implementer(IStoreOpener)
class Foreign:
    """Somebody else's stores."""

    name = "foreign"

    def openStore(self, host: Any, section: Any) -> Any:
        """Never."""


class WallReactor:
    """A reactor whose clock is the wall clock."""

    seconds = staticmethod(time.time)


@pytest.mark.parametrize("opener", [MemoryOpener(), LMDBOpener()])
def test_provides(opener: Any) -> None:
    """Our stores are opened as those of others are."""
    assert verifyObject(IStoreOpener, opener)


def test_memory() -> None:
    """A store in memory opens at once, and is as large as it may be."""
    store: Any = MemoryOpener().openStore(Host(Clock()), {"max_size": 10}).result  # type: ignore[arg-type]
    assert verifyObject(IStreamStore, store)
    log = store.open("x").result
    assert log.append([(b"s", b"", b"x" * 100, 0)]).addErrback(str).result


def test_lmdb(tmp_path: Path) -> None:
    """A store on disk is made in its folder."""
    reactor = PumpedReactor()
    opening = LMDBOpener().openStore(Host(reactor), {"dir": str(tmp_path / "a" / "b")})  # type: ignore[arg-type]
    store = reactor.wait(opening)
    assert verifyObject(IStreamStore, store)
    reactor.wait(store.close())
    assert (tmp_path / "a" / "b" / "data.mdb").exists()


@pytest.mark.parametrize(
    "section", [{}, {"dir": ""}, {"dir": 5}, {"dir": "x", "max_size": -1}, {"dir": "x", "y": 1}]
)
def test_sections(section: dict[str, object]) -> None:
    """Options that make no sense are refused."""
    with pytest.raises(ValueError, match=r"dir|max_size|unknown"):
        LMDBOpener().openStore(Host(Clock()), section)  # type: ignore[arg-type]


def test_storeOpener() -> None:
    """A store is found by its name, ours and those of plugins."""
    plugins = Plugins(lambda interface: [Foreign()])
    assert storeOpener("memory", plugins).name == "memory"
    assert storeOpener("lmdb", plugins).name == "lmdb"
    assert isinstance(storeOpener("foreign", plugins), Foreign)
    with pytest.raises(PluginError, match='no IStoreOpener named "other"'):
        storeOpener("other", plugins)


def test_clocks() -> None:
    """A reactor that goes by the wall clock is given a clock that nobody sets; one of a test is
    asked for both."""
    assert monotonicOf(WallReactor) is time.monotonic
    assert wallClockOf(WallReactor) is time.time_ns
    clock = Clock()
    clock.advance(2)
    assert (monotonicOf(clock)(), wallClockOf(clock)()) == (2, 2_000_000_000)
