"""
Memory does not grow with the length of a channel, with the store on disk.

What the service and the store can reach is counted, object by object, so the outcome is the same
every time and does not depend on the allocator.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from natsbroker.accounts.account import Account, Bus
from natsbroker.storage.lmdb.cache import BlockCache
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.streaming.support import Client, Listener, Stage

#: What leads out of the service and its store, and the cache that has its own bound in bytes.
OUTSIDE = (Account, BlockCache, Bus, FunctionType, ModuleType, Stage, type)

#: What may be on its way at one moment and not at another: a batch, a piece that was read.
SLACK = 2500


def reachable(*roots: object) -> int:
    """The number of objects that can be reached."""
    seen: dict[int, object] = {}
    rest = list(roots)
    while rest:
        item = rest.pop()
        if id(item) in seen or isinstance(item, OUTSIDE) or IReactorTime.providedBy(item):
            continue
        seen[id(item)] = item
        rest += gc.get_referents(item)
    return len(seen)


class DiskStage(Stage):
    """
    A stage whose store is on disk.
    """

    def __init__(self, directory: Path) -> None:
        self.reactor = PumpedReactor()

        def openStore(stage: Stage) -> Any:
            return self.reactor.wait(openLMDB(self.reactor, str(directory), 0, stage.now))

        super().__init__(makeStore=openStore, clock=self.reactor)

    def start(self) -> None:
        """Start the service, and wait until it is ready."""
        self.service.startService()
        self._outcome(self.service.whenPrepared())

    def stop(self) -> None:
        """Stop the service properly."""
        self._outcome(self.service.stopService())

    def _outcome(self, deferred: Deferred[None]) -> None:
        outcome: list[Any] = []
        deferred.addBoth(outcome.append)
        while not outcome:
            self.settle()
        assert outcome == [None], outcome

    def settle(self) -> None:
        """Run the calls that are due now, the disk's part included."""
        for _ in range(5):
            # Whatever was written before this is durable when it is.
            self.reactor.wait(self.store.states("tests").put(b"settling", b""))
            self.reactor.catchUp()
            super().settle()


def publish(client: Client, count: int, listener: Listener) -> None:
    """
    Publish messages, and wait for the last to arrive; a listener forgets its earlier messages.
    """
    for _ in range(count // 500):
        answers = client.publishMany("foo", [b"x" * 100] * 500)
        while len(answers.got) < 500:
            client.stage.settle()
        answers.close()
        listener.got.clear()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[DiskStage]:
    """
    A stage whose store is closed at the end.
    """
    stage = DiskStage(tmp_path)
    yield stage
    stage.stop()
    stage.reactor.wait(stage.store.close())


@pytest.mark.slow
def test_bounded(stage: DiskStage) -> None:
    """
    The service keeps no more objects after 15,000 messages than after 5,000, with a current, a late
    and an idle subscriber.
    """
    parts, store = stage.service.context, stage.store
    client = stage.client()
    listener = client.subscribe("foo")
    client.subscribe("foo", maxInFlight=1, isAcking=False, durableName="slow")
    client.subscribe("foo", durableName="gone").close()
    publish(client, 5000, listener)
    before = reachable(parts, store)
    # It would be more if something were kept for each message.
    assert before < 15_000
    publish(client, 10_000, listener)
    assert stage.model.channel("foo").msgs == 15_000
    assert reachable(parts, store) <= before + SLACK
    late = client.subscribe("foo", maxInFlight=10_000)
    while not late.got or late.got[-1].sequence < 15_000:
        late.got = late.got[-1:]
        stage.settle()
    assert reachable(parts, store) <= before + SLACK
