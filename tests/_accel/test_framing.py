"""
WebSocket frames between a socket and a session's buffers: which frames the lane takes, and which it
leaves to L{natsbroker.websocket.frames}.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from natsbroker import hot
from natsbroker.websocket.deflate import Inflation
from natsbroker.websocket.frames import ControlFrame, FrameReader, FrameWriter
from tests.support import needsCompiled

pytestmark = needsCompiled

MASKED = FrameWriter(isMasked=True)


class FramedEnd:
    """
    One end of a socket pair in a poller.

    @ivar came: the payload received.
    @ivar slow: how often the lane left a frame to the readable path.
    """

    def __init__(self, end: socket.socket, isMasked: bool = True) -> None:
        self.batch = hot.FlushBatch(lambda call: None)
        self.poller = hot.Poller(self.batch)
        self.input, self.target = hot.Decoder(), hot.Decoder()
        self.below = self._outbox()
        self.outbox: Any = self._outbox()
        self.outbox.frameInto(self.below)
        self.reader = FrameReader(isMasked, Inflation(lambda: 1 << 20))
        self.controls: list[ControlFrame] = []
        self.came = b""
        self.slow = 0
        self.blocked = 0
        self.connection = hot.Connection(
            self.poller,
            end.fileno(),
            self.input,
            self.below,
            self._proceed,
            self._nothing,
            self._nothing,
            self._nothing,
            self._nothing,
            self._nothing,
        )
        self.connection.framing = self.framing = hot.FrameLane(self.target, isMasked)
        self.connection.watch()

    def _outbox(self) -> Any:
        return hot.Outbox(self.batch, self, self._written, 1 << 30)

    def _written(self, data: bytes) -> None:
        raise RuntimeError("the lane sends")

    def outboxOverflowed(self) -> None:
        raise RuntimeError("there is no limit")

    def outboxFailed(self) -> None:
        raise RuntimeError("nothing fails")

    def _nothing(self) -> None:
        self.blocked += 1

    def _proceed(self) -> None:
        self.came += self.target.take()
        rest = self.input.take()
        if not rest:
            return
        self.slow += 1
        self.reader.feed(rest)
        while (frame := self.reader.next()) is not None:
            if isinstance(frame, bytes):
                self.came += frame
            else:
                self.controls.append(frame)
        self.framing.isOn = self.reader.isIdle


@contextmanager
def framed(isMasked: bool = True) -> Iterator[tuple[FramedEnd, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.settimeout(10)
        end = FramedEnd(ours, isMasked)
        yield end, theirs
        end.connection.forget()
        end.poller.close()


@pytest.mark.parametrize("seed", range(6))
def test_anyCut(seed: int) -> None:
    """The payload of frames arrives in order, wherever packets cut the frames."""
    random = Random(seed)
    compressing = FrameWriter(isMasked=True, isCompressed=True)
    data, whole, controls = b"", b"", 0
    for number in range(60):
        payload = random.randbytes(random.choice((0, 1, 5, 125, 126, 127, 900, 70_000)))
        kind = random.randrange(6)
        if kind == 0:
            data += MASKED.control(9, b"p")  # type: ignore[arg-type]  # a PING
            controls += 1
        elif kind == 1 and payload:
            data += compressing.frames(payload)
            whole += payload
        elif kind == 2 and len(payload) > 1:
            first, second = MASKED.frames(payload[:1]), MASKED.frames(payload[1:])
            data += bytes((first[0] & 0x7F,)) + first[1:] + bytes((second[0] & 0xF0,)) + second[1:]
            whole += payload
        else:
            data += MASKED.frames(payload + b"%d" % number)
            whole += payload + b"%d" % number
    with framed() as (end, theirs):
        place = 0
        while place < len(data):
            size = random.choice((1, 2, 3, 9, 14, 400, 50_000))
            theirs.sendall(data[place : place + size])
            place += size
            end.poller.run()
        assert end.came == whole
        assert len(end.controls) == controls


def test_plainFrames() -> None:
    """The lane takes all plain frames, also those whose payload comes in pieces."""
    with framed() as (end, theirs):
        theirs.sendall(MASKED.frames(b"abc") + MASKED.frames(bytes(300)))
        end.poller.run()
        large = MASKED.frames(bytes(70_000))
        for place in range(0, len(large), 997):
            theirs.sendall(large[place : place + 997])
            end.poller.run()
        assert end.came == b"abc" + bytes(70_300)
        assert (end.slow, end.framing.isOn) == (0, True)


def test_unmasked() -> None:
    """The lane takes frames without masks where the connection has agreed on these."""
    with framed(isMasked=False) as (end, theirs):
        theirs.sendall(FrameWriter().frames(b"abc") * 3)
        end.poller.run()
        assert (end.came, end.slow) == (b"abc" * 3, 0)


@pytest.mark.parametrize("size", [1, 125, 126, 65535, 65536, 1_500_000])
def test_output(size: int) -> None:
    """A batch puts one frame into the outbox, or several if it is large."""
    with framed() as (end, theirs):
        reader = FrameReader(False)
        data = b"x" * size
        end.batch.enter()
        end.outbox.write(data[: size // 2])
        end.outbox.write(data[size // 2 :])
        end.batch.leave()
        came = b""
        while len(came) < size:
            reader.feed(theirs.recv(1 << 20))
            while (item := reader.next()) is not None:
                assert isinstance(item, bytes)
                came += item
            end.poller.run()
        assert came == data
        assert end.outbox.sent == size


def test_laterFrameWaits() -> None:
    """A frame waits while an earlier frame was sent only in part."""
    with framed() as (end, theirs):
        reader = FrameReader(False)
        for data in (bytes(1_500_000), b"behind"):
            end.batch.enter()
            end.outbox.write(data)
            end.batch.leave()
        assert 0 < end.below.sent < 1_500_000
        came = b""
        while len(came) < 1_500_006:
            reader.feed(theirs.recv(1 << 20))
            while (item := reader.next()) is not None:
                assert isinstance(item, bytes)
                came += item
            end.poller.run()
        assert came == bytes(1_500_000) + b"behind"
        assert end.below.pending == 0


def test_peerGone() -> None:
    """A frame to a peer that has disconnected closes the outbox of the socket."""
    with framed() as (end, theirs):
        theirs.close()
        end.batch.enter()
        end.outbox.write(b"a")
        end.batch.leave()
        assert end.below.closed


def test_header() -> None:
    """A frame has the shortest header that its length permits."""
    with framed() as (end, theirs):
        end.outbox.write(b"x" * 126)
        end.batch.flush()
        assert theirs.recv(4) == struct.pack("!BBH", 0x82, 126, 126)


def test_ended() -> None:
    """An outbox sends nothing more after the outbox below it was closed."""
    with framed() as (end, _):
        end.outbox.write(b"a")
        end.below.close()
        end.batch.flush()
        assert end.outbox.pending == 0
