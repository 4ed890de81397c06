"""
Whether something has started.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from natsbroker.runtime.readiness import Readiness


def outcome(deferred: Deferred[Any]) -> list[Any]:
    """The outcome of a Deferred."""
    results: list[Any] = []
    deferred.addBoth(results.append)
    return results


def test_reached() -> None:
    """Waiting ends when the broker has started. Later waiting ends at once."""
    readiness = Readiness()
    early = outcome(readiness.wait())
    assert early == []
    readiness.raiseFailure()
    readiness.reached()
    assert (early, outcome(readiness.wait())) == ([None], [None])
    readiness.raiseFailure()


def test_failed() -> None:
    """Waiting fails with the reason, which then goes nowhere else."""
    unheard: list[Failure] = []
    readiness = Readiness(unheard.append)
    early = outcome(readiness.wait())
    readiness.failed(Failure(ValueError("no")))
    late = outcome(readiness.wait())
    assert [type(ended.value) for ended in (*early, *late)] == [ValueError, ValueError]
    assert unheard == []
    with pytest.raises(ValueError, match="no"):
        readiness.raiseFailure()


def test_nobodyWaits() -> None:
    """A failure without a waiting caller goes to the owner."""
    unheard: list[Failure] = []
    failure = Failure(ValueError("the place is taken"))
    Readiness(unheard.append).failed(failure)
    assert unheard == [failure]
