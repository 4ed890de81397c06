"""
What the processes do that strace kills or fails.

Promises: the thread that touches the store's files says its number and waits before it begins.
Must never know: where it will be hit.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from natsbroker._istore import StoreError, StoreFailed
from natsbroker.store.lmdb.store import _openBlocking, openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.store.workload import payloadOf, say, work


def _waitFor(order: dict[str, Any], thread: int) -> None:
    """
    Say which thread is of interest, and wait until strace has it.
    """
    say({"thread": thread})
    with open(order["go"], "rb") as go:
        go.readline()


def opening(order: dict[str, Any]) -> None:
    """
    Open a store, in the only thread.
    """
    _waitFor(order, threading.get_native_id())
    lock, opened = _openBlocking(Path(order["directory"]), 0)
    opened.close()
    lock.release()
    say({"opened": True})


def committing(order: dict[str, Any]) -> None:
    """
    Work a store; the thread that commits is of interest.
    """

    def pause(store: Any) -> None:
        thread = store._committer._thread.native_id
        _waitFor(order, thread)

    work(order["directory"], order["seed"], order["steps"], pause)


def failing(order: dict[str, Any]) -> None:
    """
    Append again and again, and say how each append ended; after a failure, wait until the store
    was opened again, or has failed to be.
    """
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, order["directory"]))
    log = reactor.wait(store.open("orders"))
    _waitFor(order, store._committer._thread.native_id or 0)
    number = order["first"]
    for operation in range(order["steps"]):
        say({"ask": operation, "append": "orders", "first": number, "count": 5})
        batch = [(b"s", b"", payloadOf("orders", each), 0) for each in range(number, number + 5)]
        number += 5
        try:
            sequences = reactor.wait(log.append(batch))
        except StoreError as error:
            say({"failed": operation, "error": type(error).__name__})
            records = reactor.wait(log.read(1))
            say({"read": len(records)})
            if isinstance(error, StoreFailed):
                reactor.advance(20)
                reactor.turn()
                say({"reopened": True})
        else:
            say({"done": operation, "result": [sequences.start, sequences.stop]})
    reactor.wait(store.close())
