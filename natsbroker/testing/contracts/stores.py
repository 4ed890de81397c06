"""
Contract tests for stores.

Mix the classes that fit with a trial C{SynchronousTestCase}, and make a store::

    class MyStoreTests(LogContract, StateContract, SynchronousTestCase):
        def makeStore(self):
            return MyStore(..., now=self.now)

A store that works with threads or sockets overrides C{wait}; L{natsbroker.testing.pumped} has a
reactor for that. A durable store provides C{reopen}, and takes L{DurableContract} as well.

L{LogContract} and L{StateContract} are for all stores; L{RetainedContract}, L{HeldContract},
L{SubjectContract}, L{ExportContract} and L{GroupingContract} for those whose logs provide the
interface.
L{ReadersContract} is for those that provide L{ISubjectIndexedLog} and keep limits.
L{HistoryContract} compares all of them together with a model. Stores that several brokers share
have further contracts in L{natsbroker.testing.contracts.leases}.
"""

from __future__ import annotations

from natsbroker.testing.contracts.durability import DurableContract, HistoryContract
from natsbroker.testing.contracts.harness import StoreHarness, entry, numbered
from natsbroker.testing.contracts.indexes import ExportContract, SubjectContract
from natsbroker.testing.contracts.logs import GroupingContract, LogContract, StateContract
from natsbroker.testing.contracts.readers import ReadersContract
from natsbroker.testing.contracts.retention import HeldContract, RetainedContract

__all__ = [
    "DurableContract",
    "ExportContract",
    "GroupingContract",
    "HeldContract",
    "HistoryContract",
    "LogContract",
    "ReadersContract",
    "RetainedContract",
    "StateContract",
    "StoreHarness",
    "SubjectContract",
    "entry",
    "numbered",
]
