"""
Tests for L{natsbroker.accounts.clocks}.
"""

from __future__ import annotations

import pytest

from natsbroker.accounts.clocks import Timeless


def test_timeless() -> None:
    """Whoever has no clock learns that when time matters, and not before."""
    clock = Timeless()
    with pytest.raises(RuntimeError, match="without a clock"):
        clock.seconds()
    with pytest.raises(RuntimeError, match="without a clock"):
        clock.callLater(1.0, lambda: None)
