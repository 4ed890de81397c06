"""
The export service of a broker.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from twisted.internet import reactor
from twisted.internet.task import Clock

from natsbroker.export.configured import exportServiceFor
from tests.export.support import Stage


@pytest.mark.parametrize(("clock", "isReal"), [(reactor, True), (Clock(), False)])
def test_clocks(clock: Any, isReal: bool) -> None:
    """What jobs take is processor time, or with a clock of tests that clock's."""
    host: Any = SimpleNamespace(reactor=clock, settings=SimpleNamespace(max_payload=77))
    made = cast(Any, exportServiceFor(host, Stage().bus))
    assert (made._worked is time.process_time) == isReal
    assert made._maxPayload() == 77
    assert cast(Any, exportServiceFor(host, Stage().bus, lambda: 5))._maxPayload() == 5
