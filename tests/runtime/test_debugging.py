"""
Whether debug events are made.
"""

from __future__ import annotations

from natsbroker.runtime.debugging import Debugging


def test_shownAtFirst() -> None:
    """Debug events are made until a log declares that it does not write them."""
    assert Debugging().isShown
