"""
The effects of the wall clock on streaming: a few of the histories that C{python -m
tests.streaming.clocks} plays.
"""

from __future__ import annotations

import pytest

from natsbroker.streaming.service import StreamingService
from tests.streaming.clocks import History
from tests.streaming.support import SECOND, Stage


@pytest.mark.parametrize("seed", range(4))
def test_history(seed: int) -> None:
    """Whatever the wall clock does, no message comes or expires at a wrong time."""
    history = History(seed)
    history.run(40)
    history.end()
    assert history.again > 0


class Careless(Stage):
    """A stage for a service that goes by the wall clock."""

    def _makeService(self) -> StreamingService:
        service = super()._makeService()
        service.monotonic = lambda: self.now() / SECOND
        return service


def test_noticesTheWallClock() -> None:
    """The histories notice a service that goes by the wall clock."""
    with pytest.raises(AssertionError, match="came after"):
        for seed in range(8):
            History(seed, Careless).run(40)
