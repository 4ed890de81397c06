"""
Being asked to end, by a signal.

A handler runs between two steps of the main thread, also of one that holds a lock: a handler that
takes the same lock waits for good. So the one here takes none: it notes the signal, and writes a
byte into a pipe, which wakes the waiting thread.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    def __init__(self) -> None:
        self._isSet = False
        self._awake, self._waker = os.pipe()
        os.set_blocking(self._waker, False)

    def isSet(self) -> bool:
        return self._isSet

    def wait(self, seconds: float) -> bool:
        if not self._isSet:
            select.select([self._awake], [], [], seconds)
        return self._isSet

    def take(self, number: int, frame: FrameType | None) -> None:
        self._isSet = True
        # A full pipe wakes as well.
        with suppress(BlockingIOError):
            os.write(self._waker, b"\0")

    def close(self) -> None:
        os.close(self._awake)
        os.close(self._waker)


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
        stop.close()
