"""
Whether a broker has started.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from natsbroker.hosting.readiness import Readiness
from tests.hosting.support import logLines


def outcome(deferred: Deferred[Any]) -> list[Any]:
    """
    What comes of a Deferred.
    """
    found: list[Any] = []
    deferred.addBoth(found.append)
    return found


def test_reached() -> None:
    """Who waits is told when it has started; who asks later, at once."""
    readiness = Readiness()
    early = outcome(readiness.wait())
    assert early == []
    readiness.raiseFailure()
    readiness.reached()
    assert (early, outcome(readiness.wait())) == ([None], [None])
    readiness.raiseFailure()


def test_failed() -> None:
    """Who waits is told why it cannot; then it is not in the log."""
    readiness = Readiness()
    early = outcome(readiness.wait())
    with logLines() as lines:
        readiness.failed(Failure(ValueError("no")))
    late = outcome(readiness.wait())
    assert [type(each.value) for each in (*early, *late)] == [ValueError, ValueError]
    assert not any("no" in line for line in lines)
    with pytest.raises(ValueError, match="no"):
        readiness.raiseFailure()


def test_nobodyWaits() -> None:
    """What nobody waits for is in the log."""
    with logLines() as lines:
        Readiness().failed(Failure(ValueError("the place is taken")))
    assert any("the place is taken" in line for line in lines)
