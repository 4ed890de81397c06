"""
The work of processes that are killed, or whose disk fails. Each function begins when the disk is
watched; its report is in the order in which it happened.

The careless ones are those that the tests must notice.
"""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path
from typing import Any

import lmdb

from natsbroker.interfaces.records import StoreError, StoreFailed
from natsbroker.storage.committing import Holder
from natsbroker.storage.lmdb import environment, files, journal, opening
from natsbroker.storage.lmdb.store import _openBlocking, openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.storage.shim import Orders, Plan
from tests.storage.workload import Workload, payloadOf, say, work


def open(order: dict[str, Any]) -> None:
    """
    Open a store and close it, in the only thread.
    """
    lock, opened = _openBlocking(Path(order["directory"]), 0, True, None)
    opened.close()
    lock.release()
    say({"opened": True})


def tryOpening(order: dict[str, Any]) -> None:
    """
    Open a store, and say how that failed.
    """
    try:
        open(order)
    except StoreError as error:
        say({"failed": type(error).__name__})


def commit(order: dict[str, Any]) -> None:
    """Work on a store, perhaps carelessly."""
    CARELESS[order.get("careless", "")]()
    interval = order.get("syncInterval", 0)
    work(
        order["directory"],
        order["seed"],
        order["steps"],
        lambda _: _later(order),
        interval,
        order.get("key", ""),
    )


def append(order: dict[str, Any]) -> None:
    """
    Append again and again, and say how each append ended; after a failure, read, and wait until the
    store was opened again, or has failed to be.
    """
    reactor = PumpedReactor()
    interval = order.get("syncInterval", 0)
    store = reactor.wait(openLMDB(reactor, order["directory"], syncInterval=interval))
    # What it reads would be taken for the answer to opening the store again.
    store._scrubber.stop()
    log = reactor.wait(store.open("orders"))
    # What the thread notes of that log belongs to no append.
    while store._committer._holder is not Holder.NOBODY:
        time.sleep(0.001)
    _later(order)
    orders = Orders(Path(order["control"]))
    number, count = order["first"], order["count"]
    for operation in range(order["steps"]):
        asked, hits = reactor.seconds(), orders.hits
        say({"ask": operation, "append": "orders", "first": number, "count": count})
        sequences = range(number, number + count)
        batch = [(b"s", b"", payloadOf("orders", sequence), 0) for sequence in sequences]
        number += count
        try:
            sequences = reactor.wait(log.append(batch))
        except StoreError as error:
            how = {"passed": reactor.seconds() - asked, "hits": orders.hits - hits}
            say({"failed": operation, "error": type(error).__name__, **how})
            records = reactor.wait(log.read(1, 100000, 1 << 30))
            say({"read": len(records)})
            if isinstance(error, StoreFailed):
                reactor.advance(20)
                reactor.turn()
                say({"reopened": True})
        else:
            say({"done": operation, "result": [sequences.start, sequences.stop]})
    reactor.wait(store.close())


def _later(order: dict[str, Any]) -> None:
    """From now on, when the store is open, let the disk follow its later orders."""
    plan = Plan(**order["later"])
    if plan != Plan():
        Orders(Path(order["control"])).give(plan)


def _nothing(self: Any, *_: Any) -> None:
    """
    Take the place of a method, and do nothing.
    """


def _withoutSync(**how: Any) -> None:
    """
    Open databases so that LMDB does not wait for the disk.
    """
    made = functools.partial(lmdb.Environment, **how)
    environment.lmdb.Environment = made  # type: ignore[attr-defined]
    environment.Environment.sync = _nothing  # type: ignore[method-assign]


def _withoutAnySync() -> None:
    """
    Sync neither databases nor the journal.
    """
    _withoutSync(sync=False)
    _withoutJournalSync()


def _withoutJournalSync() -> None:
    """
    Acknowledge what is in the journal before it is on disk.
    """
    journal._FLAGS = os.O_WRONLY | os.O_CLOEXEC


def _withoutNames() -> None:
    """
    Never make names in a directory durable.
    """
    for module in (files, journal, opening):
        module.syncDirectory = lambda _: None  # type: ignore[attr-defined]


def _early() -> None:
    """Acknowledge batches when they are requested, before they are stored."""
    ask = Workload._ask

    def early(self: Workload, what: dict[str, Any], call: Any) -> None:
        log = self._logs.get(what.get("append", ""))
        following = log.nextSequence if log is not None else 0
        ask(self, what, call)
        if following:
            result = [following, following + what["count"]]
            say({"done": self._operation, "result": result})

    Workload._ask = early  # type: ignore[method-assign]
    Workload._said = _nothing  # type: ignore[method-assign,assignment]


CARELESS = {
    "": lambda: None,
    "nothing synced": _withoutAnySync,
    "journal not synced": _withoutJournalSync,
    "roots not synced": lambda: _withoutSync(metasync=False),
    "names not synced": _withoutNames,
    "acknowledged early": _early,
}
"""Ways to work that lose what was acknowledged."""
