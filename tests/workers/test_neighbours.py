"""The other workers, as one worker knows them."""

from __future__ import annotations

from natsbroker.workers.neighbours import Echo, neighboursOf
from tests.server.support import Host
from tests.workers.support import Neighbour


def test_alone() -> None:
    """A broker without a cluster has no routes to other workers."""
    assert neighboursOf(Host('listen: "127.0.0.1:4222"').start().broker) == []
    assert not Echo([]).isAwaited


def test_echo() -> None:
    """An answer is awaited from each worker that was asked, unless it has ended."""
    one, other = Neighbour(), Neighbour()
    echo = Echo([one, other])
    assert (one.pings, other.pings) == (1, 1)
    one.pongs += 1
    assert echo.isAwaited
    other.reason = "Client Closed"
    assert not echo.isAwaited
