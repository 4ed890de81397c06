"""
The store on disk: held to every contract, with real files and threads.

Promises: what goes beyond the contracts, locking and closing, is tested here; damage, crashes and
full disks have files of their own.
Must never know: how values look in the database.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from natsbroker.store.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor
from natsbroker.testing.storecontracts import (
    DurableContract,
    ExportContract,
    HeldContract,
    HistoryContract,
    LogContract,
    RetainedContract,
    StateContract,
    SubjectContract,
)


class LMDBStoreTests(
    LogContract,
    StateContract,
    RetainedContract,
    HeldContract,
    SubjectContract,
    ExportContract,
    DurableContract,
    HistoryContract,
    SynchronousTestCase,
):
    """L{natsbroker.store.lmdb.store.LMDBStore}."""

    def setUp(self) -> None:
        """Make a directory and a reactor."""
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.reactor = PumpedReactor()

    def wait(self, deferred: Any) -> Any:
        """Turn the reactor until it has fired."""
        return self.reactor.wait(deferred)

    def makeStore(self) -> Any:
        """An empty store, or the one of this test again."""
        return self.wait(openLMDB(self.reactor, self.directory / "store", now=self.now))

    def reopen(self, store: Any) -> Any:
        """Close and open."""
        self.wait(store.close())
        return self.store()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        super().advance(seconds)
        self.reactor.advance(seconds)
