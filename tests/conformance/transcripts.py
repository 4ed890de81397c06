"""
Conversations with a broker, written down and replayed.

A transcript is a list of steps: bytes that a client sends, bytes that it must receive, and how
the conversation goes on or ends.  The same list can be replayed against anything that hands out
connections: sockets to a process, or transports in memory.

    >>> steps = parseTranscript('''
    ...     C: PING
    ...     S: PONG
    ...     [open]
    ... ''')
    >>> steps[0]
    Send(data=b'PING\\r\\n', on='a')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.conformance.frames import AnyOrder, Info, Like, OneOf, Part, splitFrames
from tests.conformance.replay import Peer, Replay, Stage, Step, TranscriptMismatch

__all__ = [
    "Alive",
    "AnyOrder",
    "Closed",
    "Drop",
    "Expect",
    "Info",
    "Like",
    "OneOf",
    "Open",
    "Part",
    "Peer",
    "Replay",
    "Send",
    "Sleep",
    "Stage",
    "Step",
    "TranscriptMismatch",
    "Wait",
    "parseTranscript",
    "splitFrames",
]


@dataclass(frozen=True)
class Open:
    """
    The client connects and reads INFO.  Steps that name a connection for the first time do this
    by themselves; write it where the time of connecting or the INFO matters.

    @ivar info: what to expect of the INFO; C{None}: do not read one yet.
    """

    on: str = "a"
    info: Info | None = field(default_factory=Info)

    def perform(self, replay: Replay) -> None:
        replay.open(self.on, self.info)


@dataclass(frozen=True)
class Send:
    """The client sends these bytes as one packet."""

    data: bytes
    on: str = "a"

    def perform(self, replay: Replay) -> None:
        replay.send(self.on, self.data)


@dataclass(frozen=True, init=False)
class Expect:
    """The client receives exactly these frames next."""

    parts: tuple[Part, ...]
    on: str

    def __init__(self, *parts: Part, on: str = "a") -> None:
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "on", on)

    def perform(self, replay: Replay) -> None:
        for part in self.parts:
            replay.compare(self.on, part)


@dataclass(frozen=True)
class Alive:
    """
    The connection is open and has no more output: a PING is answered by PONG and nothing else.
    """

    on: str = "a"

    def perform(self, replay: Replay) -> None:
        replay.send(self.on, b"PING\r\n")
        replay.compare(self.on, b"PONG\r\n")


@dataclass(frozen=True)
class Closed:
    """The broker closes the connection and sends nothing before that."""

    on: str = "a"

    def perform(self, replay: Replay) -> None:
        replay.end(self.on)


@dataclass(frozen=True)
class Drop:
    on: str = "a"

    def perform(self, replay: Replay) -> None:
        replay.drop(self.on)


@dataclass(frozen=True)
class Wait:
    """Advance to the time after this many seconds (see L{Stage.wait})."""

    seconds: float

    def perform(self, replay: Replay) -> None:
        replay.stage.wait(self.seconds)


@dataclass(frozen=True)
class Sleep:
    """Let this many seconds pass."""

    seconds: float

    def perform(self, replay: Replay) -> None:
        replay.stage.sleep(self.seconds)


_LINE = re.compile(
    r"(?P<side>[CS])(?P<on>\w*)(?P<raw>[:|]) ?(?P<text>.*)"
    r"|\[(?P<end>open|EOF)(?: (?P<what>\w+))?\]"
)


def parseTranscript(text: str) -> list[Step]:
    """
    Read the notation of the protocol documents.

    C{C: text} is a line that the client sends, C{S: text} one that it receives; CRLF is added.
    With C{|} for the colon, CRLF is not added.  The escapes of a Python string are understood.
    Neighbouring lines of one side are one packet.  A name after the letter (C{Cbob:}) is another
    connection.  C{S: INFO} stands for any INFO of a new connection.  C{[open]}, C{[EOF]},
    C{[EOF bob]} show whether the connection is open.  Comments and empty lines are ignored.

    @raise ValueError: with the number of a line that is none of these.
    """
    steps: list[Step] = []
    for side, on, data in _packets(text):
        if side == "C":
            steps.append(Send(data, on))
        elif side == "S" and data == b"INFO\r\n":
            steps.append(Open(on))
        elif side == "S":
            steps.append(Expect(data, on=on))
        else:
            steps.append(Alive(on) if side == "open" else Closed(on))
    return steps


def _packets(text: str) -> Iterator[tuple[str, str, bytes]]:
    pending: tuple[str, str, bytes] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.lstrip()
        if not line or line.startswith("#"):
            continue
        if (match := _LINE.fullmatch(line)) is None:
            raise ValueError(f"line {number} of the transcript is not understood: {line!r}")
        packet = _packet(match)
        if pending is None or pending[:2] != packet[:2] or b"INFO\r\n" in (pending[2], packet[2]):
            if pending is not None:
                yield pending
            pending = packet
        else:
            pending = (*packet[:2], pending[2] + packet[2])
    if pending is not None:
        yield pending


def _packet(match: re.Match[str]) -> tuple[str, str, bytes]:
    if match["end"]:
        return match["end"], match["what"] or "a", b""
    data = match["text"].encode().decode("unicode_escape").encode("latin-1")
    return match["side"], match["on"] or "a", data + (b"\r\n" if match["raw"] == ":" else b"")
