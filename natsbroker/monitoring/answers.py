"""
What a page answers: a status, and a body that is made a little at a time.

Promises: making a body never takes long between two of its pieces, however many connections there
are, and the body of a list is never longer than L{LARGEST}: what does not fit is left out, and the
answer says so.
Must never know: who carries it to whom.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from natsbroker.monitoring.jsontext import compact, indented
from natsbroker.monitoring.queries import Query

__all__ = [
    "HTML",
    "JSON",
    "LARGEST",
    "PAUSE",
    "Answer",
    "Listing",
    "Page",
    "Steps",
    "bodyOf",
    "complete",
    "jsonAnswer",
    "textAnswer",
]

#: The longest body of a list, in bytes.
LARGEST = 4 << 20

#: What is left of that for all but the list.
_HEAD = 64 << 10

#: How many bits of text are joined at a time.
_JOINED = 256

#: How many rows are made between two pauses.
_ROWS = 16

#: The empty piece: there is more to come, and others may do something before.
PAUSE = b""

JSON = "application/json"
HTML = "text/html; charset=utf-8"
PLAIN = "text/plain; charset=utf-8"

#: Work in small steps: each C{yield} of L{PAUSE} lets others run; what it returns is the result.
Steps = Generator[bytes, None, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What a page answers.

    @ivar status: the HTTP status.
    @ivar contentType: what the body is.
    @ivar body: its pieces; some are empty, which means that others may do something now.
    @ivar isLong: whether the body may be long, so that not too many should be made at once.
    """

    status: int
    contentType: str
    body: Iterator[bytes]
    isLong: bool = False


#: A page: called with the parameters, it answers at once or raises L{BadQuery}; what takes long is
#: done while the body is taken.
Page = Callable[[Query], Answer]


class Listing:
    """
    A document that ends with a list which may be long.

    @ivar head: what stands before the list; never nothing.
    @ivar rows: what stands in the list; C{None} where others may do something.
    """

    def __init__(
        self,
        head: dict[str, Any],
        key: str,
        rows: Iterable[dict[str, Any] | None],
        countKey: str = "",
        isShownEmpty: bool = True,
    ) -> None:
        """
        @param key: what the list is called.
        @param countKey: the member of C{head} with the number of rows, if there is one.
        @param isShownEmpty: whether an empty list is shown.
        """
        self.head = head
        self.rows = rows
        self._key = key
        self._countKey = countKey
        self._isShownEmpty = isShownEmpty

    def body(self, largest: int = LARGEST) -> Iterator[bytes]:
        """
        The document as indented JSON. A list that would not fit ends early: C{limit} is then the
        number of rows that are there, and C{truncated} is true.

        @param largest: how many bytes it may have.
        """
        rows: list[str] = []
        room = largest - _HEAD
        for row in self.rows:
            if row is None or len(rows) % _ROWS == _ROWS - 1:
                yield PAUSE
            if row is None:
                continue
            text = "    " + "".join((yield from _paced(indented(row, 2))))
            room -= len(text.encode("utf-8")) + 2
            if room < 0:
                self.head["limit"] = len(rows)
                self.head["truncated"] = True
                break
            rows.append(text)
        yield from self._text(rows)

    def _text(self, rows: list[str]) -> Iterator[bytes]:
        if self._countKey:
            self.head[self._countKey] = len(rows)
        head = "".join(indented(self.head))[: -len("\n}")]
        if not rows:
            empty = f',\n  "{self._key}": []' if self._isShownEmpty else ""
            yield f"{head}{empty}\n}}".encode()
            return
        start = f'{head},\n  "{self._key}": [\n'
        for row in rows:
            yield (start + row).encode("utf-8")
            start = ",\n"
        yield b"\n  ]\n}"


def complete(steps: Generator[Any, None, Any]) -> Any:
    """
    Do all steps at once.

    @return: the result.
    """
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def bodyOf(steps: Steps) -> Iterator[bytes]:
    """
    The body for steps whose result is a document or a L{Listing}.
    """
    document = yield from steps
    if isinstance(document, Listing):
        yield from document.body()
        return
    pieces = indented(document)
    while joined := "".join(islice(pieces, _JOINED)):
        yield joined.encode("utf-8")


def jsonAnswer(document: Any, status: int = 200) -> Answer:
    """
    A short document on one line.
    """
    return Answer(status, JSON, iter([compact(document).encode("utf-8")]))


def textAnswer(status: int, text: str) -> Answer:
    """
    A sentence.
    """
    return Answer(status, PLAIN, iter([text.encode("utf-8", "replace")]))


def _paced(pieces: Iterator[str]) -> Generator[bytes, None, list[str]]:
    taken: list[str] = []
    while some := list(islice(pieces, _JOINED)):
        if taken:
            yield PAUSE
        taken += some
    return taken
