"""
Being asked to end, by a signal.

A handler runs between two steps of the main thread, also of one that holds a lock: a handler that
takes the same lock, as that of C{threading.Event}, waits for good. So the one here takes none.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: While it waits, whether to end is looked up this often, in seconds.
_SLICE = 0.1


class Stop:
    def __init__(self) -> None:
        self._isSet = False

    def isSet(self) -> bool:
        return self._isSet

    def wait(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self._isSet and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE))
        return self._isSet

    def take(self, number: int, frame: FrameType | None) -> None:
        self._isSet = True


@contextmanager
def stopping() -> Iterator[Stop]:
    """
    Have SIGTERM and SIGINT ask this process to end between two pieces of work; in the main thread
    only.
    """
    stop = Stop()
    before = {each: signal.signal(each, stop.take) for each in _SIGNALS}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
