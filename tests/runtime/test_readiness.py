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
    """Waiting ends when readiness is reached, and at once afterwards."""
    readiness = Readiness()
    early = outcome(readiness.wait())
    assert early == []
    readiness.raiseFailure()
    readiness.reached()
    assert (early, outcome(readiness.wait())) == ([None], [None])
    readiness.raiseFailure()


def test_failed() -> None:
    """If a start fails, waiting fails with the reason, and the reason is not reported elsewhere."""
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
    """If a start fails while nobody waits, the failure is reported to the owner."""
    unheard: list[Failure] = []
    failure = Failure(ValueError("the place is taken"))
    Readiness(unheard.append).failed(failure)
    assert unheard == [failure]
