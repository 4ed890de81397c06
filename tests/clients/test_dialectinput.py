"""The input of a client with a dialect."""

from __future__ import annotations

from natsbroker import errors
from natsbroker.clients.dialectinput import OPERATION, DialectInput
from natsbroker.wire import ops


class Lines:
    """A dialect whose operations are lines; one with C{!} is wrong."""

    def __init__(self) -> None:
        self.data = b""

    def feed(self, data: bytes) -> None:
        self.data += data

    def next(self) -> bytes | None:
        line, end, rest = self.data.partition(b"\n")
        if not end:
            return None
        self.data = rest
        if b"!" in line:
            raise ValueError("wrong")
        return line


def reader(maxControlLine: int = 10, maxPayload: int = 100) -> DialectInput:
    given = DialectInput(maxControlLine, maxPayload)
    given.dialect = Lines()
    return given


def test_operations() -> None:
    """Operations come in order, whatever the chunks, and are what the dialect makes of them."""
    given = reader()
    for chunk in (b"a\nb", b"c\n", b"d"):
        given.append(chunk)
    assert [given.next() for _ in range(3)] == [(OPERATION, b"a"), (OPERATION, b"bc"), None]


def test_wrongInput() -> None:
    """Input that the dialect refuses is a fault."""
    given = reader()
    given.append(b"a!\n")
    assert given.next() == (ops.FAULT, errors.UNKNOWN_OPERATION)


def test_tooLong() -> None:
    """An operation without an end is a fault once it is longer than both limits together."""
    given = reader()
    for _ in range(11):
        given.append(b"x" * 10)
        assert given.next() is None
    given.append(b"x")
    assert given.next() == (ops.FAULT, errors.UNKNOWN_OPERATION)


def test_heldInput() -> None:
    """Nothing is taken, and the dialect is fed nothing, while the input is held."""
    given = reader()
    given.append(b"a\nb\n")
    given.isHeld = True
    assert given.next() is None
    assert given.dialect.data == b""
    given.isHeld = False
    assert given.next() == (OPERATION, b"a")
