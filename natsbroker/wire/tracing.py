"""The headers that ask for a message's trace, by nats-server's rules (2.15.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from natsbroker.wire.text import decoded

DEST = b"Nats-Trace-Dest"
ONLY = b"Nats-Trace-Only"
HOP = b"Nats-Trace-Hop"
ORIGIN_ACCOUNT = b"Nats-Trace-Origin-Account"

#: The destination in the headers of a message that no other server is to trace.
DISABLED = b"trace disabled"

_BEGIN = b"NATS/1.0\r\n"
_END = b"\r\n"
_TRUE = frozenset({b"1", b"true", b"on"})
_PARENT = re.compile(rb"\ntraceparent[ \t]*:", re.IGNORECASE)
_FLAGS = re.compile(rb"[0-7][13579bdf]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """
    The request in the headers of one message.

    @ivar dest: the subject of the events; empty for the destination of the account, which a
        C{traceparent} header asks for.
    @ivar isOnly: whether the message is not delivered, because only the events are wanted.
    @ivar hop: the number of the hop, from the previous server; empty at the first server.
    @ivar isRefused: whether another header forbids the trace.
    @ivar headers: all of them, sorted by name.
    """

    dest: bytes
    isOnly: bool
    hop: bytes
    isRefused: bool
    headers: dict[str, list[str]]

    @property
    def encoding(self) -> str:
        """The encodings of events that the receiver takes; empty for no preference."""
        return ",".join(self.headers.get("Accept-Encoding", ()))


def asksForTrace(body: bytes, headerLength: int, hasDest: bool = False) -> bool:
    """Whether headers may ask for a trace; C{traceparent} counts if the account C{hasDest}."""
    if body.find(DEST, 0, headerLength) >= 0:
        return True
    return hasDest and _PARENT.search(body, 0, headerLength) is not None


def readRequest(block: bytes) -> TraceRequest | None:
    """The request in a header block; C{None} without."""
    if not block.startswith(_BEGIN):
        return None
    pairs = _pairsOf(block)
    dest = _valueOf(pairs, DEST)
    if dest == DISABLED or not (dest or _isSampled(pairs)):
        return None
    isOnly = bool(dest) and _valueOf(pairs, ONLY).lower() in _TRUE
    headers: dict[str, list[str]] = {}
    for name, value in sorted(pairs, key=lambda pair: pair[0]):
        headers.setdefault(decoded(name), []).append(decoded(value))
    isRefused = any(name == ORIGIN_ACCOUNT for name, _ in pairs)
    return TraceRequest(dest, isOnly, _valueOf(pairs, HOP), isRefused, headers)


def withHeader(block: bytes, name: bytes, value: bytes) -> bytes:
    """A header block with a header at its end, in place of those of the same name."""
    lines = block.split(_END)[:-2]
    kept = [line for line in lines if line.partition(b":")[0] != name]
    return _END.join([*kept, b"%b: %b" % (name, value), b"", b""])


def _pairsOf(block: bytes) -> list[tuple[bytes, bytes]]:
    pairs = []
    for line in block[len(_BEGIN) :].split(_END):
        name, _, value = line.partition(b":")
        if name and (value := value.strip(b" \t")):
            pairs.append((name, value))
    return pairs


def _valueOf(pairs: list[tuple[bytes, bytes]], name: bytes) -> bytes:
    return next((value for key, value in pairs if key == name), b"")


def _isSampled(pairs: list[tuple[bytes, bytes]]) -> bool:
    value = next((value for name, value in pairs if name.lower() == b"traceparent"), b"")
    parts = value.split(b"-")
    return len(parts) == 4 and _FLAGS.fullmatch(parts[3]) is not None
