"""
The parts of the service, introduced to each other.
"""

from __future__ import annotations

from natsbroker.streaming.names import Subjects
from natsbroker.streaming.parts import Components
from tests.streaming.support import Stage


def test_requests() -> None:
    """Every subject that a client is told of is served, each by something of its own."""
    stage = Stage()
    subjects = Subjects("test-cluster")
    served = Components(stage.service, stage.store, subjects).requests
    assert set(served) == {
        subjects.discover,
        subjects.pings,
        subjects.subscribe,
        subjects.unsubscribe,
        subjects.subClose,
        subjects.close,
    }
    assert len(set(served.values())) == len(served)


def test_quiet() -> None:
    """Making the parts does nothing by itself."""
    stage = Stage()
    before = len(stage.account), stage.clock.getDelayedCalls()
    Components(stage.service, stage.store, Subjects("test-cluster"))
    assert (len(stage.account), stage.clock.getDelayedCalls()) == before
