"""
Answering with ranges of a log as columnar frames.

Frames that follow each other without a gap, the last one marked; an answer is bounded,
and says where to go on; nothing is sent to somebody who is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

from natsbroker.export.asking import ApiRequest
from natsbroker.export.paging import page
from natsbroker.export.questions import LARGEST, RequestFields
from natsbroker.export.texts import FAILED, STORE, Refusal
from natsbroker.interfaces import IStreamLog
from natsbroker.interfaces.records import Columns, StoreError
from natsbroker.wire.columnar import HEADERS, PAYLOADS, SUBJECTS, VERSION, Place, encodeFrame

__all__ = ["FIELDS", "FRAME_BYTES", "MOST_BYTES", "RangeAnswer", "RangeRequest"]

FIELDS = ("start", "stop", "identity", "max_bytes", "columns", "version")

#: How large an answer is, if nobody says, and at most.
BYTES = 4 << 20
MOST_BYTES = 16 << 20

#: About how many bytes of records a frame has.
FRAME_BYTES = 512 << 10

_COLUMNS = (SUBJECTS, HEADERS, PAYLOADS)


@dataclass(frozen=True)
class RangeRequest:
    """
    What an export is to give.

    @ivar start: from where.
    @ivar stop: to before where.
    @ivar size: how many bytes, about: the record that goes beyond it is the last.
    @ivar left: columns to leave out.
    """

    start: int
    stop: int
    size: int
    left: frozenset[str]

    @classmethod
    def read(cls, question: RequestFields) -> RangeRequest:
        """
        What a request says.
        """
        question.number("version", 1, VERSION, VERSION)
        return cls(
            question.number("start", 1),
            question.number("stop", 1, default=LARGEST),
            question.number("max_bytes", 1, MOST_BYTES, BYTES),
            frozenset(_COLUMNS) - question.words("columns", _COLUMNS),
        )


class RangeAnswer:
    """
    One answer, made step by step.
    """

    def __init__(
        self, log: IStreamLog, wanted: RangeRequest, asker: ApiRequest, maxPayload: int
    ) -> None:
        """
        @param maxPayload: how large a message may be.
        """
        self._log = log
        self._wanted = wanted
        self._asker = asker
        self._cursor = self._told = wanted.start
        self._left = wanted.size
        # A page of rows takes up to 40 bytes a row besides what is in them.
        self._page = max(min(FRAME_BYTES, maxPayload * 3 // 4), 1)

    async def step(self) -> bool:
        """
        Send the next frame.
        """
        if not self._asker.isThere:
            return True
        log, cursor = self._log, self._cursor
        stop = min(self._wanted.stop, log.bounds().last + 1)
        try:
            columns = await page(log, cursor, stop, min(self._left, self._page))
        except StoreError as error:
            self._asker.say(Refusal(STORE, why=error).answer())
            return True
        self._cursor = max(columns.next, cursor)
        self._left -= _sizeOf(columns)
        isLast = self._cursor >= stop or self._left <= 0
        if not isLast and not len(columns.sequences) and not columns.damaged:
            self._cursor = max(self._cursor, min(log.bounds().first, stop))
            return False
        bounds = log.bounds()
        place = Place(self._told, self._cursor, bounds.first, bounds.last)
        self._told = self._cursor
        frame = encodeFrame(columns, place, self._wanted.left, isLast)
        return not self._asker.send(frame) or isLast

    def failed(self) -> None:
        """
        Something unforeseen happened.
        """
        self._asker.say(Refusal(FAILED).answer())


def _sizeOf(columns: Columns) -> int:
    return len(columns.subjects) + len(columns.headers) + len(columns.payloads)
