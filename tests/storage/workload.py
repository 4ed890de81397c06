"""
A process that works a store and says what was acknowledged, to be killed at any moment.

Each line that it writes is JSON: first what it is about to ask, then that it was acknowledged.
L{tests.storage.history.History} reads the lines and knows what must be there afterwards.

Run as C{python -m tests.storage.workload DIRECTORY SEED STEPS INTERVAL}; with 0 steps it goes on
until it is killed, with 0 seconds everything is synced before it is acknowledged.

What it asks follows from the seed, the run's number and what was there before.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import Any

from twisted.internet.defer import Deferred

from natsbroker.interfaces.records import Retention
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor

LOGS = ("orders", "events", "kept")
KEYS = tuple(f"key{number}" for number in range(8))
MOST_WAITING = 12


def payloadOf(log: str, number: int) -> bytes:
    """The content of the record with a number in a log, which identifies it beyond doubt."""
    head = f"{log}/{number}/".encode()
    digest = blake2b(head, digest_size=16).hexdigest().encode()
    length = (0, 1, 3, 40)[number % 4] * (50 if number % 97 == 0 else 1)
    return head + digest * (1 + length // 3)


def numberOf(log: str, payload: bytes) -> int | None:
    """
    Which record a payload is; L{None} if it is none of this log.
    """
    name, _, rest = payload.partition(b"/")
    digits = rest.partition(b"/")[0]
    if name != log.encode() or not digits.isdigit():
        return None
    number = int(digits)
    return number if payload == payloadOf(log, number) else None


class Workload:
    """Sends one request after the other to a store."""

    def __init__(
        self,
        reactor: PumpedReactor,
        store: Any,
        seed: str,
        number: int,
        say: Callable[[dict[str, Any]], None],
    ) -> None:
        """
        @param number: below it are the numbers of records that were asked before.
        @param say: called with requests and acknowledgements.
        """
        self._reactor = reactor
        self._store = store
        self._random = Random(seed)
        self._say = say
        self._number = number
        self._operation = 0
        self._waiting: list[Deferred[Any]] = []
        self._logs: dict[str, Any] = {}

    def begin(self) -> None:
        """
        Open the logs that all steps use.
        """
        for name in LOGS:
            self._logs[name] = self._reactor.wait(self._store.open(name))
        self._logs["kept"].retain(Retention(count=500))

    def step(self) -> None:
        """Send one request; wait if too many are waiting."""
        choices = ["append"] * 10 + ["single"] * 6 + ["settle"] * 6 + ["state"] * 4
        choices += ["delete", "discard", "hold", "temporary", "wait", "skip"]
        getattr(self, "_" + self._random.choice(choices))()
        while len(self._waiting) > MOST_WAITING:
            self._reactor.wait(self._waiting.pop(0))

    def finish(self) -> None:
        """
        Wait until everything is acknowledged.
        """
        for deferred in self._waiting:
            self._reactor.wait(deferred)
        self._waiting = []

    def _ask(self, what: dict[str, Any], call: Callable[[], Deferred[Any]]) -> None:
        """Report a request, send it, and report when it is acknowledged."""
        self._operation += 1
        operation = self._operation
        self._say({"ask": operation, **what})
        deferred = call()
        deferred.addCallback(lambda result: self._said(operation, result))
        self._waiting.append(deferred)

    def _said(self, operation: int, result: Any) -> None:
        """Report an acknowledgement."""
        if isinstance(result, range):
            result = [result.start, result.stop]
        self._say({"done": operation, "result": result if isinstance(result, list | int) else 0})

    def _append(self, count: int = 0) -> None:
        """
        Append several records.
        """
        name = self._random.choice(LOGS)
        count = count or self._random.choice((1, 2, 7, 40, 200))
        first, self._number = self._number, self._number + count
        batch = [
            (b"s.%d" % (number % 3) if name == "events" else b"s", b"", payloadOf(name, number), 0)
            for number in range(first, first + count)
        ]
        self._ask(
            {"append": name, "first": first, "count": count},
            lambda: self._logs[name].append(batch),
        )

    def _single(self) -> None:
        """
        Append one record.
        """
        self._append(1)

    def _state(self, isRelaxed: bool = False) -> None:
        """Set or delete some values of state."""
        key = self._random.choice(KEYS)
        self._number += 1
        value = self._number if self._random.random() < 0.9 else None
        data = None if value is None else b"%d" % value * 20
        states = self._store.states("space")
        self._ask(
            {"state": key, "value": value, "at": self._number, "relaxed": isRelaxed},
            lambda: states.change({key.encode(): data}),
        )

    def _delete(self) -> None:
        """
        Delete some records.
        """
        name = self._random.choice(("orders", "events"))
        last = self._logs[name].bounds().last
        if last:
            chosen = sorted({self._random.randint(1, last) for _ in range(5)})
            self._ask(
                {"delete": name, "sequences": chosen}, lambda: self._logs[name].delete(chosen)
            )

    def _settle(self) -> None:
        """
        Delete a few of the newest records and change some state, as with an acknowledged job.
        """
        name = self._random.choice(("orders", "events"))
        if self._random.random() < 0.7:
            self.finish()  # So that they are known, and the journal takes it.
        isRelaxed = self._random.random() < 0.7
        if isRelaxed:
            self._logs[name].together(lambda: self._settleIn(name, True))
        else:
            self._settleIn(name, False)

    def _settleIn(self, name: str, isRelaxed: bool) -> None:
        last = self._logs[name].bounds().last
        chosen = {last - self._random.randrange(20) for _ in range(self._random.randint(1, 3))}
        if chosen := {sequence for sequence in chosen if sequence > 0}:
            sequences = sorted(chosen)
            self._ask(
                {"delete": name, "sequences": sequences, "relaxed": isRelaxed},
                lambda: self._logs[name].delete(sequences),
            )
        self._state(isRelaxed)

    def _discard(self) -> None:
        """
        Discard the oldest records.
        """
        bounds = self._logs["orders"].bounds()
        sequence = bounds.first + self._random.randint(0, max(bounds.count // 4, 1))
        self._ask(
            {"discard": "orders", "before": sequence},
            lambda: self._logs["orders"].discardBefore(sequence),
        )

    def _hold(self) -> None:
        """Hold the records of a log, or release them."""
        log = self._logs["events"]
        if self._random.random() < 0.5:
            floor = log.bounds().first
            self._ask({"hold": floor}, lambda: log.hold("archive", floor))
        else:
            self._ask({"hold": 0}, lambda: log.release("archive"))

    def _skip(self) -> None:
        """Skip a few sequences."""
        log = self._logs["events"]
        target = log.nextSequence + 3
        self._ask({"skip": "events", "to": target}, lambda: log.skipTo(target))

    def _temporary(self) -> None:
        """Make a log, append to it, and drop it sometimes."""
        self.finish()
        self._number += 1
        name = f"temporary{self._number}"
        opened: list[Any] = []
        self._ask({"make": name}, lambda: self._store.open(name).addCallback(opened.append))
        self.finish()
        number = self._number
        self._number += 1
        self._ask(
            {"append": name, "first": number, "count": 1},
            lambda: opened[0].append([(b"s", b"", payloadOf(name, number), 0)]),
        )
        if self._random.random() < 0.6:
            self.finish()
            self._ask({"drop": name}, lambda: self._store.drop(name))

    def _wait(self) -> None:
        """
        Wait until everything is acknowledged.
        """
        self.finish()


def say(what: dict[str, Any]) -> None:
    """
    Write a line, at once.
    """
    os.write(1, json.dumps(what).encode() + b"\n")


def work(
    directory: str,
    seed: str,
    steps: int,
    pause: Callable[[Any], None],
    syncInterval: float = 0,
    key: str = "",
) -> None:
    """
    Work a store on disk; see L{workOn}.

    @param key: with which it is encrypted; empty if it is not.
    """
    reactor = PumpedReactor()
    encryption = Encryption(key) if key else None
    opening = openLMDB(reactor, directory, syncInterval=syncInterval, encryption=encryption)
    store = reactor.wait(opening)
    workOn(reactor, store, seed, steps, pause)


def workOn(
    reactor: PumpedReactor, store: Any, seed: str, steps: int, pause: Callable[[Any], None]
) -> None:
    """
    Work a store.

    @param steps: how many; 0 for no end.
    @param pause: called with the store when it is open, before the first step.
    """
    say({"open": True})
    workload = Workload(reactor, store, seed, time.time_ns() // 1000, say)
    pause(store)
    workload.begin()
    done = 0
    while not steps or done < steps:
        workload.step()
        done += 1
    workload.finish()
    reactor.wait(store.close())
    say({"closed": True})


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]), lambda _: None, float(sys.argv[4]))
