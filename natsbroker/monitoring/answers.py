"""
The answer of a page: a status, and a body in small pieces, so that long pages do not delay clients.
A list ends at L{LARGEST} bytes, and says that it is truncated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred

from natsbroker.monitoring.queries import Query
from natsbroker.wire.text import encoded

T = TypeVar("T")

#: The longest body of a list, in bytes.
LARGEST = 4 << 20

#: The part of it for the members before the list.
_HEAD = 64 << 10

#: The pieces of text that are joined at a time.
_JOINED = 256

#: The rows between two pauses.
_ROWS = 16

#: An empty piece: the reactor may run before the next one.
PAUSE = b""

JSON = "application/json"
HTML = "text/html; charset=utf-8"
PLAIN = "text/plain; charset=utf-8"

#: The values that work in steps yields: L{PAUSE}, or a Deferred after which it goes on.
Pause = Any

#: Work in small steps: the reactor may run at each C{yield}. The result is returned.
Steps = Generator[Pause, None, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """
    @ivar body: its pieces, some of them L{PAUSE}, or Deferreds for the next piece.
    @ivar isLong: whether it may be long; only a few of those are made at the same time.
    @ivar policy: the Content-Security-Policy.
    """

    status: int
    contentType: str
    body: Iterator[Any]
    isLong: bool = False
    policy: str = "default-src 'none'"


#: Called with the parameters, a page answers at once or raises L{BadQuery}. The work is done while
#: the body is iterated.
Page = Callable[[Query], Answer]


@dataclass
class Listing:
    """
    A document that ends with a list, which may be long.

    @ivar head: the members before the list; not empty.
    @ivar countKey: the member of C{head} for the number of rows; empty for none.
    """

    head: dict[str, Any]
    key: str
    rows: Iterable[Any]
    countKey: str = ""
    isShownEmpty: bool = True

    def body(self, largest: int = LARGEST) -> Iterator[bytes]:
        """
        Indented JSON. For a list that ends early C{limit} is the number of its rows, and
        C{truncated} is set.
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
        if self.countKey:
            self.head[self.countKey] = len(rows)
        head = "".join(indented(self.head))[: -len("\n}")]
        if not rows:
            empty = f',\n  "{self.key}": []' if self.isShownEmpty else ""
            yield f"{head}{empty}\n}}".encode()
            return
        start = f'{head},\n  "{self.key}": [\n'
        for row in rows:
            yield (start + row).encode("utf-8")
            start = ",\n"
        yield b"\n  ]\n}"


def complete(steps: Generator[Any, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def waited(awaitable: Coroutine[Any, Any, T]) -> Generator[Pause, None, T]:
    """Wait for a coroutine's result."""
    results: list[T] = []
    waiting = ensureDeferred(awaitable)
    waiting.addCallback(results.append)
    if not results:
        yield waiting
    return results[0]


def bodyOf(steps: Steps) -> Iterator[Any]:
    document = yield from steps
    if isinstance(document, Listing):
        yield from document.body()
        return
    pieces = indented(document)
    while joined := "".join(islice(pieces, _JOINED)):
        yield joined.encode("utf-8")


def collected(pieces: Iterable[Any], made: list[bytes]) -> Iterator[Deferred[Any] | None]:
    """Move pieces into C{made} for a Cooperator, which waits for the Deferreds."""
    for piece in pieces:
        if isinstance(piece, Deferred):
            yield piece
        else:
            made.append(piece)
            yield None


def jsonAnswer(document: Any, status: int = 200) -> Answer:
    return Answer(status, JSON, iter([compact(document).encode("utf-8")]))


def textAnswer(status: int, text: str) -> Answer:
    return Answer(status, PLAIN, iter([encoded(text)]))


def _paced(pieces: Iterator[str]) -> Generator[bytes, None, list[str]]:
    taken: list[str] = []
    while some := list(islice(pieces, _JOINED)):
        if taken:
            yield PAUSE
        taken += some
    return taken


_SPECIAL = re.compile("[<>&\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_INDENTED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=2)
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def indented(document: Any, level: int = 0) -> Iterator[str]:
    """A document of JSON's types with two spaces of indentation, in small pieces."""
    newline = "\n" + "  " * level
    for piece in _pieces(_INDENTED, document):
        yield piece.replace("\n", newline) if level else piece


def compact(document: Any) -> str:
    return "".join(_pieces(_COMPACT, document))


def _pieces(encoder: json.JSONEncoder, document: Any) -> Iterator[str]:
    """The pieces of a value. Each scalar ends a piece. As in Go, a whole float has no fraction."""
    for piece in encoder.iterencode(document):
        if piece.endswith(".0"):
            piece = piece[:-2]
        yield _SPECIAL.sub(_escaped, piece) if _SPECIAL.search(piece) else piece


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"
