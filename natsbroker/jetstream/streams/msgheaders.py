"""
The headers of published messages that JetStream understands.
"""

from __future__ import annotations

from natsbroker.jetstream.model.metadata import isSupportedLevel
from natsbroker.wire.clientinfo import HEADER

_FOR_ORIGIN = (b"Nats-Expected-", b"Nats-Batch-")
_VERSION = b"NATS/1.0"
_EMPTY = _VERSION + b"\r\n\r\n"
_WITHOUT_STATUS = (_VERSION + b"\r\n", _VERSION + b"\n")

#: Bytes of a header block up to which it is quicker to take it apart.
_LONG = 4096


class MessageHeaders:
    """The headers of one message. Names are case sensitive; of several values the first counts."""

    __slots__ = ("_long", "_values")

    def __init__(self, block: bytes) -> None:
        """The headers of a block. A long block is not parsed but searched for each name."""
        self._values: dict[bytes, bytes | None] = {}
        self._long = b""
        if len(block) > _LONG:
            self._long = block
            return
        for line in block.split(b"\r\n")[1:]:
            name, colon, value = line.partition(b":")
            if colon and name not in self._values:
                self._values[name] = value.lstrip(b" \t")

    def get(self, name: bytes) -> bytes:
        """The value; empty if there is none."""
        if self._long:
            self._search(name)
        return self._values.get(name) or b""

    def __contains__(self, name: bytes) -> bool:
        if self._long:
            self._search(name)
        return self._values.get(name) is not None

    def _search(self, name: bytes) -> None:
        if name in self._values:
            return
        line = b"\r\n%b:" % name
        place = self._long.find(line)
        if place < 0:
            self._values[name] = None
            return
        begin = place + len(line)
        end = self._long.find(b"\r\n", begin)
        self._values[name] = self._long[begin : end if end >= 0 else None].lstrip(b" \t")


def expectedSequence(text: bytes) -> int:
    """
    The number in a header that expects a sequence. For anything else it is -1, which equals no
    sequence.
    """
    return int(text) if text.isdigit() else -1


def withHeader(block: bytes, name: bytes, value: bytes) -> bytes:
    """The header block in which a name has a value. A new name is added at the end."""
    line = b"%b: %b" % (name, value)
    lines = block.split(b"\r\n") if block else [b"NATS/1.0", b"", b""]
    for place, other in enumerate(lines[1:], 1):
        if other.startswith(name + b":"):
            lines[place] = line
            return b"\r\n".join(lines)
    lines.insert(len(lines) - 2, line)
    return b"\r\n".join(lines)


def needsNewerApi(headers: bytes) -> bool:
    """Whether the header block of a request asks for a newer API."""
    if b"Nats-Required-Api-Level" not in headers:
        return False
    level = MessageHeaders(headers).get(b"Nats-Required-Api-Level")
    return not isSupportedLevel(level.decode("latin-1"))


def withoutExpectations(block: bytes) -> bytes:
    """
    The header block that a mirror, or a stream with sources, stores. It lacks the headers that the
    publisher meant for the origin only; names are case sensitive. Empty if nothing is left.
    """
    if b"Nats-" not in block:
        return block
    lines = block.split(b"\r\n")
    left = b"\r\n".join(line for line in lines if not line.startswith(_FOR_ORIGIN))
    return b"" if left == _EMPTY else left


def withoutHeader(block: bytes, name: bytes) -> bytes:
    """A header block without the headers of a name."""
    lines = block.split(b"\r\n")
    return b"\r\n".join(line for line in lines if not line.startswith(name + b":"))


def storable(block: bytes) -> bytes:
    """
    The header block that a stream stores of a published one. It lacks the header that names a
    publisher in another account, which is for services (L{natsbroker.wire.clientinfo}), and a
    status, which only the broker sends: clients of consumers would believe it. Empty if nothing is
    left.
    """
    left = withoutHeader(block, HEADER) if HEADER in block else block
    if left.startswith(_VERSION) and not left.startswith(_WITHOUT_STATUS) and left != _VERSION:
        end = left.find(b"\r\n")
        left = b"" if end < 0 else _VERSION + left[end:]
    return b"" if left == _EMPTY and left is not block else left
