"""
Replays transcripts over connections, and compares frame by frame, byte for byte.

Only parts that an expectation names as variable may differ. A mismatch shows the whole
conversation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NoReturn, Protocol

from tests.conformance.frames import AnyOrder, Info, Part, splitFrames

__all__ = ["Peer", "Replay", "Stage", "Step", "TranscriptMismatch"]


class TranscriptMismatch(AssertionError):
    """
    The output of the broker differs from the transcript.

    The text has the expectation, the actual output and the conversation so far.
    """


class Peer(Protocol):
    """The client's end of one connection, as returned by a L{Stage}."""

    def send(self, data: bytes) -> None:
        """Hand bytes to the broker.  Never raises because the broker has closed: reading tells."""

    def read(self) -> bytes:
        """
        Wait for output.

        @return: at least one byte, or C{b""} when the broker has closed the connection and
            everything that it wrote before has been returned.
        @raise TimeoutError: when nothing came and nothing more is to be expected.
        """

    def close(self) -> None:
        """Close the client's end at once."""


class Stage(Protocol):
    """The server's side of a transcript, which accepts connections and has a clock."""

    def dial(self) -> Peer:
        """
        Open one more connection.

        @raise ConnectionRefusedError: when the broker does not accept connections.
        """

    def wait(self, seconds: float) -> None:
        """
        Wait for an event that is due in C{seconds}. A virtual clock is advanced. With real time the
        next read waits longer instead.
        """

    def sleep(self, seconds: float) -> None:
        """Let C{seconds} of real time pass."""


class Step(Protocol):
    def perform(self, replay: Replay) -> None:
        """
        Carry out the step.

        @raise TranscriptMismatch: if the broker does not behave as the step expects.
        """


class _Conversation:
    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.frames: deque[bytes] = deque()
        self.rest = b""

    def read(self) -> bool:
        """
        @return: whether output came; if not, the broker has closed.
        @raise TimeoutError: when no output came.
        """
        data = self.peer.read()
        frames, self.rest = splitFrames(self.rest + data)
        self.frames.extend(frames)
        return bool(data)


class Replay:
    """
    @ivar stage: the stage of the replay; steps of your own may use more of it than L{Stage} has.
    @ivar countPings: whether the broker's own keep-alive PINGs are part of the conversation. If
        not, they are skipped anywhere.
    """

    def __init__(self, stage: Stage, countPings: bool = False) -> None:
        self.stage = stage
        self.countPings = countPings
        self._conversations: dict[str, _Conversation] = {}
        self._said: list[str] = []

    def run(self, steps: Sequence[Step]) -> None:
        try:
            for step in steps:
                step.perform(self)
        finally:
            for name in list(self._conversations):
                self.drop(name)

    def open(self, name: str, info: Info | None) -> None:
        self._conversations[name] = _Conversation(self.stage.dial())
        self.note(f"{name} connects")
        if info is not None:
            self.compare(name, info)

    def drop(self, name: str) -> None:
        self._conversations.pop(name).peer.close()
        self.note(f"{name} drops")

    def peer(self, name: str) -> Peer:
        return self._conversation(name).peer

    def substitute(self, name: str, peer: Peer) -> None:
        """Continue with another transport on the same connection (after a TLS handshake)."""
        self._conversation(name).peer = peer

    def send(self, name: str, data: bytes) -> None:
        peer = self.peer(name)
        self.note(f"{name} C: {_short(data)}")
        peer.send(data)

    def compare(self, name: str, part: Part) -> None:
        if isinstance(part, bytes):
            frames, rest = splitFrames(part)
            for wanted in [*frames, *([rest] if rest else [])]:
                if (frame := self.frame(name, part)) != wanted:
                    self.fail(name, wanted, repr(frame))
        elif isinstance(part, AnyOrder):
            taken = [self.frame(name, part) for _ in part.frames]
            if not part.accepts(taken):
                self.fail(name, part, repr(taken))
        elif complaint := part.complaint(frame := self.frame(name, part)):
            self.fail(name, part, f"{frame!r}: {complaint}")

    def frame(self, name: str, wanted: object) -> bytes:
        conversation = self._conversation(name)
        while True:
            while conversation.frames:
                frame = conversation.frames.popleft()
                self.note(f"{name} S: {_short(frame)}")
                if frame != b"PING\r\n" or self.countPings:
                    return frame
            try:
                if not conversation.read():
                    self.fail(name, wanted, f"the connection's end, after {conversation.rest!r}")
            except TimeoutError:
                self.fail(name, wanted, f"silence, after {conversation.rest!r}")

    def end(self, name: str) -> None:
        left = self.remainder(name)
        if not self.countPings:
            left = left.replace(b"PING\r\n", b"")
        if left:
            self.fail(name, "nothing but the connection's end", repr(left))

    def remainder(self, name: str) -> bytes:
        conversation = self._conversation(name)
        try:
            while conversation.read():
                pass
        except TimeoutError:
            left = b"".join(conversation.frames) + conversation.rest
            self.fail(name, "the connection's end", f"an open connection that says {left!r}")
        left = b"".join(conversation.frames) + conversation.rest
        self.note(f"{name} S: {_short(left)}, then closed by the broker")
        return left

    def note(self, text: str) -> None:
        self._said.append(text)

    def fail(self, name: str, wanted: object, got: str) -> NoReturn:
        said = "\n  ".join(self._said)
        raise TranscriptMismatch(f"on {name}: expected {wanted!r}\n  got {got}\nso far:\n  {said}")

    def _conversation(self, name: str) -> _Conversation:
        if name not in self._conversations:
            self.open(name, Info())
        return self._conversations[name]


def _short(data: bytes) -> str:
    if len(data) <= 400:
        return repr(data)
    return f"{data[:200]!r} ... {data[-100:]!r} ({len(data)} bytes)"
