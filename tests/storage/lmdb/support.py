"""
The contracts that a store on disk is held to, with and without encryption.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.contracts.stores import (
    DurableContract,
    ExportContract,
    GroupingContract,
    HeldContract,
    HistoryContract,
    LogContract,
    ReadersContract,
    RetainedContract,
    StateContract,
    SubjectContract,
)
from natsbroker.testing.pumped import PumpedReactor


class LMDBContracts(
    LogContract,
    StateContract,
    ReadersContract,
    RetainedContract,
    HeldContract,
    SubjectContract,
    ExportContract,
    GroupingContract,
    DurableContract,
    HistoryContract,
):
    """
    @cvar encryption: the key of the store; C{None} without one.
    """

    encryption: Encryption | None = None

    def setUp(self) -> None:
        """Make a directory and a reactor."""
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.reactor = PumpedReactor()

    def wait(self, deferred: Any) -> Any:
        """Turn the reactor until the Deferred has fired."""
        return self.reactor.wait(deferred)

    def makeStore(self) -> Any:
        """An empty store, or the one of this test again."""
        directory = self.directory / "store"
        opening = openLMDB(self.reactor, directory, now=self.now, encryption=self.encryption)
        return self.wait(opening)

    def reopen(self, store: Any) -> Any:
        """Close the store and open it again."""
        self.wait(store.close())
        return self.store()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        super().advance(seconds)
        self.reactor.advance(seconds)
