"""
The watchdog of the reactor: a thread that notices when one call keeps the reactor busy for long.

No client is served meanwhile, and only another thread can see where the reactor is. The log names
the place when it goes on, and the health page fails while it happens again and again. Time in which
the reactor's thread waited for a processor of a busy machine does not count.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import zope.interface
from twisted.application.service import Service
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

import twisted
from natsbroker.runtime.process import threadTimes

if TYPE_CHECKING:
    from natsbroker.system.pages import ServerPages

_log = Logger(namespace="natsbroker")

LIMIT = 0.5
"""The seconds without a sign of life from which the reactor counts as held."""

INTERVAL = 0.25
"""Seconds between two signs of life, and between two looks for them."""

WINDOW = 10.0
"""
The length of the period, in seconds, that the health page looks at. It fails if the reactor was
held for more than half of it.
"""

_OURS = tuple(
    str(Path(file).resolve().parent)
    for file in (str(Path(__file__).parent), twisted.__file__, zope.interface.__file__)
)
"""The folders of code that calls plugins; what it waits for is the plugin's."""


class Watchdog(Service):
    """
    @ivar held: how many times the reactor was held.
    @ivar seconds: the seconds of all these times together.
    @ivar longest: the longest of these times, in seconds.
    @ivar place: the place of the last one.
    """

    name = "watchdog"

    def __init__(
        self,
        reactor: Any,
        clock: Callable[[], float] = time.monotonic,
        limit: float = LIMIT,
        times: Callable[[], tuple[float, float]] = threadTimes,
    ) -> None:
        self.held = 0
        self.seconds = self.longest = 0.0
        self.place = ""
        self._clock = clock
        self._limit = limit
        self._times = times
        self._beat, self._waited = clock(), times()[1]
        self._seen = ""
        self._recent: deque[tuple[float, float]] = deque()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._watched = 0
        self._loop = LoopingCall(self.beat)
        self._loop.clock = reactor

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._beat, self._waited = self._clock(), self._times()[1]
        self._watched = threading.get_ident()
        self._loop.start(INTERVAL, now=False)
        self._ended.clear()
        self._thread = threading.Thread(target=self._watch, name="natsbroker-watch", daemon=True)
        self._thread.start()

    def stopService(self) -> None:
        super().stopService()  # type: ignore[no-untyped-call]
        if self._loop.running:
            self._loop.stop()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ended.set()
            thread.join()

    def beat(self) -> None:
        """Show, in the reactor's thread, that the reactor is running."""
        now, seen, waited = self._clock(), self._seen, self._times()[1]
        # The reactor was held for the delay beyond INTERVAL, less the time in which its thread
        # waited for a processor: no code is to blame for that.
        late = now - self._beat - INTERVAL - (waited - self._waited)
        self._beat, self._seen, self._waited = now, "", waited
        if seen and late >= self._limit:
            self.held += 1
            self.seconds += late
            self.longest, self.place = max(self.longest, late), seen
            self._recent.append((now, late))
            _log.warn("The reactor was held for {late:.1f} seconds: {place}", late=late, place=seen)

    def look(self) -> None:
        """Note, in another thread, where the reactor's thread is if it shows no sign of life."""
        if self._clock() - self._beat - INTERVAL >= self._limit and not self._seen:
            frame = sys._current_frames().get(self._watched)
            if frame is not None:
                self._seen = placeOf(frame)

    def trouble(self) -> str:
        """
        The place that holds the reactor again and again, in a sentence; empty if there is none.
        """
        since = self._clock() - WINDOW
        while self._recent and self._recent[0][0] < since:
            self._recent.popleft()
        seconds = sum(late for _, late in self._recent)
        if seconds < WINDOW / 2:
            return ""
        return f"held for {seconds:.1f} of the last {WINDOW:.0f} seconds: {self.place}"

    def show(self, monitoring: ServerPages) -> None:
        from natsbroker.monitoring.healthz import pollingCheck

        monitoring.healthz.checks.append(pollingCheck(self.trouble))
        monitoring.varz.contributions["reactor"] = self.varz
        monitoring.metrics.contributions.append(self.series)

    def series(self) -> Generator[Any, None, list[Any]]:
        from natsbroker.monitoring.metrics import MetricSeries

        yield from ()
        number = MetricSeries("reactor_held", "Times the reactor was held.", isCounter=True)
        number.add(self.held)
        seconds = MetricSeries(
            "reactor_held_seconds", "Seconds for which the reactor was held.", isCounter=True
        )
        seconds.add(self.seconds)
        return [number, seconds]

    def varz(self) -> dict[str, Any] | None:
        """The member of C{/varz}. It is missing as long as nothing has held the reactor."""
        if not self.held:
            return None
        return {
            "held": self.held,
            "seconds": round(self.seconds, 3),
            "longest": round(self.longest, 3),
            "place": self.place,
        }

    def _watch(self) -> None:
        before = self._clock()
        while not self._ended.wait(INTERVAL):
            now = self._clock()
            # A machine that stood still holds this thread too, and nobody is to blame.
            if now - before - INTERVAL < self._limit:
                self.look()
            before = now


def placeOf(frame: FrameType) -> str:
    """
    The place of a thread: the first call that leaves the broker and Twisted, or the last one if
    none does.
    """
    frames: list[FrameType] = []
    caller: FrameType | None = frame
    while caller is not None:
        frames.append(caller)
        caller = caller.f_back
    frames.reverse()
    inside = [number for number, frame_ in enumerate(frames) if _isOurs(frame_)]
    behind = frames[inside[0] :] if inside else []
    outer = next((frame_ for frame_ in behind if not _isOurs(frame_)), frame)
    return f"{outer.f_code.co_filename}:{outer.f_lineno} in {outer.f_code.co_name}"


def _isOurs(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_OURS)
