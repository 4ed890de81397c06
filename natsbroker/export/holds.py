"""
Holds on logs. They end by themselves unless they are renewed, even after a restart. The end is
stored before a hold is in force, so a job that dies does not fill the disk for ever.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.export.logs import ILogDirectory
from natsbroker.interfaces import IHeldLog
from natsbroker.interfaces.records import StoreError

_log = Logger(namespace="natsbroker.export")

_SECOND = 1_000_000_000

_PAUSE = 5.0
"""The least time between two searches for holds that have ended, in seconds."""


def _keyOf(log: IHeldLog, name: str) -> bytes:
    return b"%016x/%b" % (log.identity, name.encode("utf-8"))


class HoldTable:
    """The holds on all logs, with the times at which they end."""

    def __init__(
        self, catalogue: ILogDirectory, reactor: IReactorTime, now: Callable[[], int]
    ) -> None:
        self._catalogue = catalogue
        self._states = catalogue.states()
        self._reactor = reactor
        self._now = now
        self._ends: dict[bytes, int] = {}
        self._timer: IDelayedCall | None = None
        self._ending: Deferred[None] | None = None

    async def load(self) -> None:
        logs = {}
        for name in self._catalogue.names():
            log = self._catalogue.find(name)
            if IHeldLog.providedBy(log):
                logs.update({_keyOf(log, space): log for space in log.holds()})
        gone = []
        for key, value in (await self._states.load()).items():
            if key in logs:
                self._ends[key] = int(json.loads(value)["end"])
            else:
                gone.append(key)
        if gone:
            await self._states.change(dict.fromkeys(gone))
        self._plan()

    def stop(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        ending, self._ending = self._ending, None
        if ending is not None:
            ending.cancel()

    async def set(self, log: IHeldLog, name: str, floor: int, seconds: int) -> None:
        key = _keyOf(log, name)
        if seconds:
            end = self._now() + seconds * _SECOND
            self._ends[key] = end
            await self._states.put(key, json.dumps({"end": end}).encode())
        try:
            await log.hold(name, floor)
        except (StoreError, ValueError):
            if name not in log.holds():
                await self._forget(key)
            raise
        if not seconds:
            await self._forget(key)
        self._plan()

    async def release(self, log: IHeldLog, name: str) -> None:
        await log.release(name)
        await self._forget(_keyOf(log, name))
        self._plan()

    async def _forget(self, *keys: bytes) -> None:
        """
        Delete the ends of holds, now or later, because they would end later holds with the same
        names.
        """
        ends = {key: self._ends.pop(key) for key in keys if key in self._ends}
        if not ends:
            return
        try:
            await self._states.change(dict.fromkeys(ends))
        except StoreError:
            self._ends = {**ends, **self._ends}
            self._plan()
            raise

    def rows(self, log: IHeldLog) -> list[dict[str, Any]]:
        return [self.row(log, name, floor) for name, floor in sorted(log.holds().items())]

    def row(self, log: IHeldLog, name: str, floor: int) -> dict[str, Any]:
        end = self._ends.get(_keyOf(log, name))
        row: dict[str, Any] = {"name": name, "floor": floor}
        if end is not None:
            row["seconds"] = max(end - self._now(), 0) // _SECOND
        return row

    def _plan(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if self._ends and self._ending is None:
            left = (min(self._ends.values()) - self._now()) / _SECOND
            self._timer = self._reactor.callLater(max(left, _PAUSE), self._look)

    def _look(self) -> None:
        self._timer = None
        self._ending = ensureDeferred(self._end())
        self._ending.addBoth(self._ended)

    def _ended(self, result: Failure | None) -> None:
        isStopped, self._ending = self._ending is None, None
        if isStopped:
            return
        if isinstance(result, Failure) and not result.check(StoreError):
            _log.failure("Ending holds failed", result)
        self._plan()

    async def _end(self) -> None:
        held = set()
        for channel in self._catalogue.names():
            log = self._catalogue.find(channel)
            if not IHeldLog.providedBy(log):
                continue
            for name in list(log.holds()):
                key = _keyOf(log, name)
                end = self._ends.get(key)
                held.add(key)
                if end is not None and end <= self._now():
                    await self._endOne(log, channel, name)
        await self._forget(*(key for key in self._ends if key not in held))

    async def _endOne(self, log: Any, channel: str, name: str) -> None:
        try:
            await self.release(log, name)
        except StoreError as error:
            _log.error(
                "Hold {name} of {channel} has ended and cannot be released: {why}",
                name=name,
                channel=channel,
                why=str(error),
            )
            return
        _log.info(
            "Hold {name} of {channel} ended, because it was not renewed", name=name, channel=channel
        )
