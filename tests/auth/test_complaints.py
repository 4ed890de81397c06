"""
Tests of L{natsbroker.auth.complaints}.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.python.failure import Failure as UntypedFailure
from twisted.web.client import ResponseNeverReceived

from natsbroker.auth.complaints import RateLimitedLog, reasonOf
from tests.server.support import logLines

Failure: Any = UntypedFailure


def test_nowAndThen() -> None:
    """The first trouble is told at once; others are counted, and told after a while."""
    clock = Clock()
    complaints = RateLimitedLog(clock, "It failed")
    with logLines() as lines:
        for _ in range(3):
            complaints.log(Failure(ValueError("x")))
        clock.advance(complaints.INTERVAL)
        complaints.log(Failure(KeyError("y")))
        clock.advance(complaints.INTERVAL)
        complaints.log(Failure(KeyError("z")))
    assert lines == [
        "[ERR] It failed: ValueError x",
        "[ERR] It failed: KeyError 'y' (and 2 times more before)",
        "[ERR] It failed: KeyError 'z'",
    ]


def test_reasons() -> None:
    """Of a request that failed for several reasons, all are told."""
    both = [Failure(OSError("one")), Failure(ValueError("two"))]
    failure = Failure(ResponseNeverReceived(both))
    assert reasonOf(failure) == "OSError one; ValueError two"


def test_short() -> None:
    """A reason is a short one."""
    assert len(reasonOf(Failure(ValueError("x" * 10_000)))) == 300
