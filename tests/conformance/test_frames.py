"""
Frames of a server's output, and expectations for frames.
"""

from __future__ import annotations

import re

import pytest

from tests.conformance.frames import AnyOrder, Info, Like, OneOf, splitFrames
from tests.testing.texts import INFO


class TestSplitFrames:
    """Bytes as frames."""

    def test_linesAndPayloads(self) -> None:
        """A line ends at LF, and a message after its payload and CRLF."""
        frames = [
            b"+OK\r\n",
            b"MSG a 1 4\r\nx\r\ny\r\n",
            b"HMSG a 1 r 2 4\r\n\r\nhi\r\n",
            b"PONG\r\n",
        ]
        assert splitFrames(b"".join(frames)) == (frames, b"")

    @pytest.mark.parametrize(
        "rest", [b"PON", b"MSG a 1 2\r", b"MSG a 1 2\r\nh", b"MSG a 1 2\r\nhi"]
    )
    def test_unfinished(self, rest: bytes) -> None:
        """An incomplete frame is left over."""
        assert splitFrames(b"PONG\r\n" + rest) == ([b"PONG\r\n"], rest)

    def test_badSize(self) -> None:
        """A message line without a size is a frame of its own."""
        assert splitFrames(b"MSG a 1 x\r\nhi\r\n") == ([b"MSG a 1 x\r\n", b"hi\r\n"], b"")


class TestInfo:
    """Expectations of an INFO line."""

    def test_validInfo(self) -> None:
        """An INFO with the required keys in order is accepted."""
        want = Info({"version": re.compile(r"2\..*"), "port": int, "headers": True}, ("ldm",))
        assert want.complaint(INFO) is None

    @pytest.mark.parametrize(
        ("frame", "complaint"),
        [
            (INFO.replace(b"} \r\n", b"}\r\n"), "framed"),
            (b"PONG\r\n", "framed"),
            (INFO.replace(b'"go":"",', b""), "missing"),
            (INFO.replace(b'{"server_id":"N",', b'{"version":"1","server_id":"N",'), "order"),
        ],
    )
    def test_invalidInfo(self, frame: bytes, complaint: str) -> None:
        """Wrong framing, keys and order of keys are refused."""
        assert complaint in str(Info().complaint(frame))

    @pytest.mark.parametrize(
        "want",
        [
            Info({"port": 2}),
            Info({"proto": True}),
            Info({"port": str}),
            Info({"nonce": str}),
            Info({"version": re.compile("2")}),
            Info(absent=("client_id",)),
        ],
    )
    def test_otherValues(self, want: Info) -> None:
        """Wrong values, wrong types of values and unwanted keys are refused."""
        assert want.complaint(INFO) is not None


class TestChoices:
    """Expectations that permit several frames."""

    def test_like(self) -> None:
        """A pattern must match the whole frame, line ends included."""
        assert Like(rb"MSG a 1 \d\r\n.*").complaint(b"MSG a 1 2\r\nhi\r\n") is None
        assert Like(rb"MSG a").complaint(b"MSG a 1 2\r\nhi\r\n") is not None

    def test_oneOf(self) -> None:
        """Any of the frames is accepted."""
        assert OneOf(b"a\n", b"b\n").complaint(b"b\n") is None
        assert OneOf(b"a\n", b"b\n").complaint(b"c\n") is not None

    def test_anyOrder(self) -> None:
        """Frames are compared as a multiset, choices included."""
        want = AnyOrder(b"a\n", b"a\n", OneOf(b"b\n", b"c\n"), OneOf(b"c\n", b"d\n"))
        assert want.accepts([b"d\n", b"a\n", b"c\n", b"a\n"])
        assert want.accepts([b"c\n", b"c\n", b"a\n", b"a\n"])
        assert not want.accepts([b"a\n", b"b\n", b"c\n", b"e\n"])
        assert not want.accepts([b"b\n", b"d\n", b"c\n", b"a\n"])
