"""
What goes wrong in the store, in words for the log.
"""

from __future__ import annotations

import pytest
from twisted.logger import capturedLogs, formatEvent
from zope.interface.verify import verifyObject

from natsbroker.interfaces import IStoreWatcher
from natsbroker.streaming.storewatch import StoreWatch


def test_provides() -> None:
    """It is a store watcher."""
    assert verifyObject(IStoreWatcher, StoreWatch())


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("recordsDamaged", ("l", 3, 5, "r"), "Messages 3 to 4 of l are damaged and lost: r"),
        ("stateDamaged", ("s", b"k\xff", "r"), "State k\\xff of s is lost: r"),
        ("stateDamaged", ("", b"", "see r"), "State may be lost: see r"),
        ("logQuarantined", ("l", "r"), "l can only be read: r"),
        ("writesStopped", ("r",), "The store takes no writes: r"),
        ("writesResumed", (), "The store takes writes again"),
        ("logLost", ("l",), "l is served by another broker now"),
    ],
)
def test_words(name: str, arguments: tuple[object, ...], text: str) -> None:
    """Everything is logged, with what it concerns."""
    with capturedLogs() as events:
        getattr(StoreWatch(), name)(*arguments)
    assert [formatEvent(each) for each in events] == [text]


def test_stopped() -> None:
    """It remembers why the store takes no writes, until it does again."""
    watch = StoreWatch()
    watch.writesStopped("")
    assert watch.stopped
    watch.writesStopped("full")
    assert watch.stopped == "full"
    watch.writesResumed()
    assert watch.stopped == ""
