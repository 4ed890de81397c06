"""
Transcripts replayed against objects that imitate a broker.
"""

from __future__ import annotations

from collections import deque

import pytest

from tests.conformance.frames import AnyOrder, Info
from tests.conformance.replay import Replay, TranscriptMismatch
from tests.conformance.transcripts import Alive, Closed, Drop, Expect, Open, Send, Sleep, Wait
from tests.testing.texts import INFO


class ScriptedPeer:
    """A peer whose output is given by the test. C{None} stands for the end of the output."""

    def __init__(self, *output: bytes | None) -> None:
        self.output = deque(output)
        self.heard: list[bytes] = []
        self.closed = False

    def send(self, data: bytes) -> None:
        """Record the bytes."""
        self.heard.append(data)

    def read(self) -> bytes:
        """Return the next piece."""
        if not self.output:
            raise TimeoutError
        return self.output.popleft() or b""

    def close(self) -> None:
        """Record the call."""
        self.closed = True


class ScriptedStage:
    """A stage that returns peers in order and records its waits."""

    def __init__(self, *peers: ScriptedPeer) -> None:
        self.peers = deque(peers)
        self.waits: list[tuple[str, float]] = []

    def dial(self) -> ScriptedPeer:
        """Return the next peer."""
        return self.peers.popleft()

    def wait(self, seconds: float) -> None:
        """Record the time."""
        self.waits.append(("wait", seconds))

    def sleep(self, seconds: float) -> None:
        """Record the time."""
        self.waits.append(("sleep", seconds))


class TestReplay:
    """Whole conversations."""

    def test_conversation(self) -> None:
        """Connections are opened when they are first named, and closed at the end."""
        one = ScriptedPeer(INFO[:9], INFO[9:], b"+OK\r\nPO", b"NG\r\n")
        two = ScriptedPeer(INFO, b"-ERR 'x'\r\n", None)
        stage = ScriptedStage(one, two)
        Replay(stage).run(
            [
                Send(b"SUB a 1\r\n"),
                Expect(b"+OK\r\n"),
                Alive(),
                Wait(2),
                Expect(b"-ERR 'x'\r\n", on="b"),
                Closed("b"),
                Sleep(3),
            ]
        )
        assert one.heard == [b"SUB a 1\r\n", b"PING\r\n"]
        assert (one.closed, two.closed) == (True, True)
        assert stage.waits == [("wait", 2), ("sleep", 3)]

    def test_keepAliveIsPassedOver(self) -> None:
        """The broker's own PING is skipped by default."""
        peer = ScriptedPeer(INFO, b"PING\r\n+OK\r\nPING\r\n", b"PING\r\n", None)
        Replay(ScriptedStage(peer)).run([Expect(b"+OK\r\n"), Closed()])

    def test_keepAliveCounts(self) -> None:
        """The broker's own PING is part of the conversation if the row is about it."""
        replay = Replay(ScriptedStage(ScriptedPeer(INFO, b"PING\r\n+OK\r\n")), countPings=True)
        with pytest.raises(TranscriptMismatch):
            replay.run([Expect(b"+OK\r\n")])

    def test_dropAndOpenAgain(self) -> None:
        """A dropped connection is closed, and its name is free."""
        peers = [ScriptedPeer(INFO), ScriptedPeer(INFO)]
        Replay(ScriptedStage(*peers)).run([Open(), Drop(), Open()])
        assert [peer.closed for peer in peers] == [True, True]

    def test_noInfoYet(self) -> None:
        """A connection may be opened without reading its INFO."""
        Replay(ScriptedStage(ScriptedPeer(INFO))).run([Open(info=None), Expect(Info())])

    @pytest.mark.parametrize(
        ("output", "step"),
        [
            ([b"PONG\r\n"], Expect(b"+OK\r\n")),
            ([b"+OK\n"], Expect(b"+OK\r\n")),
            ([b"+O"], Expect(b"+OK\r\n")),
            ([b"+O", None], Expect(b"+OK\r\n")),
            ([None], Expect(b"+OK\r\n")),
            ([b"a\n", b"c\n"], Expect(AnyOrder(b"a\n", b"b\n"))),
            ([b"PONG\r\n"], Expect(Info())),
            ([b"+OK\r\nPONG\r\n"], Alive()),
            ([None], Alive()),
            ([b"+OK\r\n", None], Closed()),
            ([b"+O", None], Closed()),
            ([], Closed()),
        ],
    )
    def test_mismatch(self, output: list[bytes | None], step: Expect | Alive | Closed) -> None:
        """
        Wrong bytes, silence, an early end and a missing end all fail, with the conversation in the
        error.
        """
        with pytest.raises(TranscriptMismatch, match="so far:\n  a connects"):
            Replay(ScriptedStage(ScriptedPeer(INFO, *output))).run([step])

    def test_connectionsAreClosedAfterFailure(self) -> None:
        """A failed replay leaves no connection behind."""
        peer = ScriptedPeer(INFO)
        with pytest.raises(TranscriptMismatch):
            Replay(ScriptedStage(peer)).run([Alive()])
        assert peer.closed

    def test_remainder(self) -> None:
        """All remaining output up to the end can be read at once."""
        replay = Replay(ScriptedStage(ScriptedPeer(INFO, b"MSG a 1 2\r\nh", b"i\r\nMS", None)))
        assert replay.remainder("a") == b"MSG a 1 2\r\nhi\r\nMS"
