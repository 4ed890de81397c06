"""
Reading a range of a log, some milliseconds' worth at a time.

The same from every log, whether it exports by itself or can only be read; a page is
bounded in rows and bytes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks

from natsbroker.interfaces import IExportableLog, IStreamLog
from natsbroker.interfaces.records import Columns, Record
from natsbroker.storage.exports import columnsOf

__all__ = ["ROWS", "page"]

#: How many sequences a page has at most.
ROWS = 4096


def page(log: IStreamLog, start: int, stop: int, size: int) -> Deferred[Columns]:
    """
    The next columns of a range.

    @param stop: where the range ends; not beyond the log's end.
    @param size: about how many bytes.
    """
    stop = min(stop, start + ROWS)
    if IExportableLog.providedBy(log):
        exporting: Deferred[Columns] = log.exportRange(start, stop, size)
        return exporting
    return _read(log, start, stop, size)


@inlineCallbacks
def _read(
    log: IStreamLog, start: int, stop: int, size: int
) -> Generator[Deferred[Any], Any, Columns]:
    """
    Columns from a log that can only be read. It passes over damaged records without a word, as it
    does over deleted ones; whoever watches its store is told of them.
    """
    records: list[Record] = yield log.read(start, ROWS, size)
    kept = [each for each in records if each.sequence < stop]
    isWhole = not records or len(kept) < len(records)
    following = stop if isWhole else records[-1].sequence + 1
    return columnsOf(kept, following, ())
