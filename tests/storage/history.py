"""
The required content of a store after a process that used it was killed.

Every acknowledged record is demanded, byte for byte, unless somebody asked to delete it; nothing
that was not asked for is allowed; no sequence may carry two records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zope.interface import implementer

from natsbroker.interfaces import IStoreWatcher
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.storage.workload import numberOf, payloadOf


class Lost(AssertionError):
    """
    The store does not have what it must have, or has what it must not have.
    """


@implementer(IStoreWatcher)
class Recorder:
    """
    Remembers the problems that a store reports.
    """

    def __init__(self) -> None:
        self.damaged: list[tuple[str, int, int, str]] = []
        self.states: list[tuple[str, bytes, str]] = []
        self.quarantined: list[str] = []
        self.writing: list[str] = []

    def recordsDamaged(self, log: str, start: int, stop: int, reason: str) -> None:
        self.damaged.append((log, start, stop, reason))

    def stateDamaged(self, space: str, key: bytes, reason: str) -> None:
        self.states.append((space, key, reason))

    def logQuarantined(self, log: str, reason: str) -> None:
        self.quarantined.append(log)

    def writesStopped(self, reason: str) -> None:
        self.writing.append(f"stopped: {reason}")

    def writesResumed(self) -> None:
        self.writing.append("resumed")

    def logLost(self, log: str) -> None:
        """Nothing to do: the history itself finds out whether a log is lost."""

    def covers(self, log: str, sequence: int) -> bool:
        """
        Whether the loss of a record was reported.
        """
        return any(
            name == log and start <= sequence < stop for name, start, stop, _ in self.damaged
        )


@dataclass
class LogHistory:
    """
    The knowledge of one log.

    @ivar acked: numbers by sequence, of records that must be there unless they may be gone.
    @ivar asked: numbers that were asked for and may be there.
    @ivar gone: sequences whose deletion was acknowledged.
    @ivar mayBeGone: sequences whose deletion was asked for.
    @ivar discarded: below it, everything is gone.
    @ivar mayBeDiscarded: below it, anything may be gone.
    @ivar highest: no sequence up to this one may be given again.
    @ivar keeps: the number of newest records that are kept; 0 for all.
    """

    acked: dict[int, int] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    mayBeGone: set[int] = field(default_factory=set)
    discarded: int = 0
    mayBeDiscarded: int = 0
    highest: int = 0
    keeps: int = 0

    def expected(self, last: int) -> dict[int, int]:
        """
        The records that must be there.

        @param last: the last sequence that was used.
        """
        floor = self.mayBeDiscarded
        if self.keeps:
            floor = last - self.keeps + 1
        return {
            sequence: number
            for sequence, number in self.acked.items()
            if sequence >= floor and sequence not in self.mayBeGone
        }


class History:
    """The reports of several runs of a workload on one store."""

    def __init__(self, isSynced: bool = True, encryption: Encryption | None = None) -> None:
        """
        @param isSynced: whether appends, and what is relaxed, are on disk when acknowledged. If
            not, they are when a change of state that is not relaxed is acknowledged after them.
        """
        self.encryption = encryption
        self._unsynced: list[tuple[dict[str, Any], Any]] | None = None if isSynced else []
        self.logs: dict[str, LogHistory] = {}
        self.state: dict[str, list[tuple[int, int | None, bool]]] = {}
        self.made: dict[str, bool] = {}
        self.mayBeDropped: set[str] = set()
        self.dropped: set[str] = set()
        self.acknowledged = 0

    def log(self, name: str) -> LogHistory:
        """The history of a log."""
        if name not in self.logs:
            self.logs[name] = LogHistory(keeps=500 if name == "kept" else 0)
        return self.logs[name]

    def learn(self, lines: Iterable[str | bytes]) -> None:
        """Take in the report of one run."""
        asked: dict[int, dict[str, Any]] = {}
        if self._unsynced:
            self._unsynced.clear()
        for line in lines:
            try:
                what = json.loads(line)
            except ValueError:
                continue  # the last line of a process that was killed
            if "ask" in what:
                asked[what["ask"]] = what
                self._asked(what)
            elif "done" in what:
                self.acknowledged += 1
                self._done(asked[what["done"]], what["result"])

    def _asked(self, what: dict[str, Any]) -> None:
        """Note a request that may be carried out."""
        if "append" in what:
            first = what["first"]
            self.log(what["append"]).asked.update(range(first, first + what["count"]))
        elif "delete" in what:
            self.log(what["delete"]).mayBeGone.update(what["sequences"])
        elif "discard" in what:
            log = self.log(what["discard"])
            log.mayBeDiscarded = max(log.mayBeDiscarded, what["before"])
        elif "state" in what:
            values = self.state.setdefault(what["state"], [])
            values.append((what["at"], what["value"], False))
        elif "make" in what:
            self.made.setdefault(what["make"], False)
        elif "drop" in what:
            self.mayBeDropped.add(what["drop"])

    def _done(self, what: dict[str, Any], result: Any) -> None:
        """Note an acknowledged request."""
        if "append" in what and result[0] <= self.log(what["append"]).highest:
            raise Lost(f"sequence {result[0]} of {what['append']} was given twice")
        isRelaxed = "append" in what or what.get("relaxed")
        if isRelaxed and self._unsynced is not None:
            self._unsynced.append((what, result))
            return
        self._demand(what, result)
        if self._unsynced and "state" in what:
            for before, outcome in self._unsynced:
                self._demand(before, outcome)
            self._unsynced.clear()

    def _demand(self, what: dict[str, Any], result: Any) -> None:
        """Require what is durable from now on."""
        if "append" in what:
            log = self.log(what["append"])
            for sequence in range(*result):
                log.acked[sequence] = what["first"] + sequence - result[0]
            log.highest = max(log.highest, result[1] - 1)
        elif "delete" in what:
            self.log(what["delete"]).gone.update(what["sequences"])
        elif "discard" in what:
            log = self.log(what["discard"])
            log.discarded = max(log.discarded, min(what["before"], result))
        elif "state" in what:
            self.state[what["state"]].append((what["at"], what["value"], True))
        elif "make" in what:
            self.made[what["make"]] = True
        elif "drop" in what:
            self.dropped.add(what["drop"])

    def check(self, directory: Path, mayLose: bool = False, mayReturn: bool = False) -> Recorder:
        """
        Open the store on disk and compare; see L{compare}.
        """
        reactor = PumpedReactor()
        store = reactor.wait(openLMDB(reactor, directory, encryption=self.encryption))
        return self.compare(reactor, store, mayLose, mayReturn)

    def compare(
        self, reactor: PumpedReactor, store: Any, mayLose: bool = False, mayReturn: bool = False
    ) -> Recorder:
        """
        Compare with a store, and close it. What is there and was not acknowledged is known from
        now on, because a reader of the store has seen it.

        @param mayLose: whether records may be missing whose loss the store reports.
        @param mayReturn: whether what was deleted may be there again, if the store reports damage.
        @raise Lost: if something is not as it must be.
        """
        recorder = Recorder()
        store.watch(recorder)
        mayReturn = mayReturn and any(not key for _, key, _ in recorder.states)
        try:
            logs: Any = store.logs()
            names: set[str] = set(reactor.wait(logs))
            self._checkNames(names, mayReturn)
            for name in sorted(names):
                log = reactor.wait(store.open(name))
                self._checkLog(reactor, name, log, recorder, mayLose, mayReturn)
            self._checkState(reactor, store, recorder if mayLose else None)
        finally:
            reactor.wait(store.close())
        return recorder

    def _checkNames(self, names: set[str], mayReturn: bool) -> None:
        """Compare the names of logs: made ones exist, dropped ones do not."""
        for name, acked in self.made.items():
            if acked and name not in self.mayBeDropped and name not in names:
                raise Lost(f"log {name} is gone")
        for name in set() if mayReturn else self.dropped & names:
            raise Lost(f"log {name} is there again")
        for name, log in self.logs.items():
            if log.expected(log.highest) and name not in names and name not in self.mayBeDropped:
                raise Lost(f"log {name} is gone")

    def _checkLog(
        self,
        reactor: PumpedReactor,
        name: str,
        log: Any,
        recorder: Recorder,
        mayLose: bool,
        mayReturn: bool,
    ) -> None:
        """
        Compare one log.
        """
        history = self.log(name)
        numbers: dict[int, int] = {}
        before = -1
        sequence = 1
        while records := reactor.wait(log.read(sequence, 1000)):
            for record in records:
                number = numberOf(name, record.payload)
                if number is None or number not in history.asked:
                    raise Lost(f"{name} {record.sequence} holds what nobody appended")
                if number <= before:
                    raise Lost(f"{name} {record.sequence} is out of order")
                numbers[record.sequence] = before = number
            sequence = records[-1].sequence + 1
        bounds = log.bounds()
        self._compare(name, history, numbers, bounds.last, recorder, mayLose, mayReturn)
        if log.nextSequence <= history.highest:
            raise Lost(f"{name} would give sequence {log.nextSequence} again")
        if not mayLose and (bounds.count != len(numbers) or bounds.last < max(numbers, default=0)):
            raise Lost(f"{name} counts {bounds.count} records, but has {len(numbers)}")
        if (
            not mayLose
            and sum(len(payloadOf(name, result)) for result in numbers.values()) > bounds.size
        ):
            raise Lost(f"{name} counts {bounds.size} bytes, but has more")
        history.acked.update(numbers)
        history.highest = max(history.highest, bounds.last)

    def _compare(
        self,
        name: str,
        history: LogHistory,
        numbers: dict[int, int],
        last: int,
        recorder: Recorder,
        mayLose: bool,
        mayReturn: bool,
    ) -> None:
        """
        Compare the records of one log.
        """
        for sequence, number in history.expected(last).items():
            if numbers.get(sequence) != number:
                if mayLose and sequence not in numbers and recorder.covers(name, sequence):
                    continue
                raise Lost(
                    f"{name} {sequence} should be record {number}, is {numbers.get(sequence)}"
                )
        for sequence, number in numbers.items():
            if history.acked.get(sequence, number) != number:
                raise Lost(f"{name} {sequence} was record {history.acked[sequence]} once")
            gone = sequence in history.gone or sequence < history.discarded
            if gone and not mayReturn:
                raise Lost(f"{name} {sequence} was deleted")

    def _checkState(self, reactor: PumpedReactor, store: Any, recorder: Recorder | None) -> None:
        """
        Compare the state: each value is the last that was acknowledged, or one asked for later.
        """
        loaded = reactor.wait(store.states("space").load())
        for key, values in self.state.items():
            data = loaded.get(key.encode())
            last = max((at for at, _, acked in values if acked), default=0)
            allowed = {value for at, value, _ in values if at >= last}
            if not last:
                allowed.add(None)
            texts = {None if allowance is None else b"%d" % allowance * 20 for allowance in allowed}
            if data not in texts:
                known = recorder.states if recorder is not None else []
                if not any(value in (key.encode(), b"") for _, value, _ in known):
                    raise Lost(f"state {key} is {data!r}, not one of {texts}")
