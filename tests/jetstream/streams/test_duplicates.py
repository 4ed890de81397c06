"""
The duplicate window.
"""

from __future__ import annotations

from natsbroker.jetstream.streams.duplicates import DuplicateWindow


def test_window() -> None:
    """An id is known until the window has passed."""
    window = DuplicateWindow(100)
    window.add(b"a", 1, 1000)
    assert window.find(b"a", 1099) == 1
    assert window.find(b"b", 1099) is None
    assert window.find(b"a", 1100) is None
    assert len(window) == 0


def test_failed() -> None:
    """Ids of messages that the store refused are forgotten."""
    window = DuplicateWindow(100)
    window.add(b"a", 1, 0)
    window.add(b"b", 2, 0)
    window.add(b"c", 3, 0)
    window.forgetFrom(2)
    assert [window.find(msgId, 0) for msgId in (b"a", b"b", b"c")] == [1, None, None]


def test_none() -> None:
    """Without a duplicate window, no id is remembered."""
    window = DuplicateWindow(0)
    window.add(b"a", 1, 0)
    assert window.find(b"a", 0) is None
