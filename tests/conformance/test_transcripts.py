"""
The notation of transcripts.
"""

from __future__ import annotations

import doctest

import pytest

from tests.conformance import transcripts
from tests.conformance.transcripts import Alive, Closed, Expect, Open, Send, parseTranscript


def test_linesBecomePackets() -> None:
    """Adjacent lines of one side are one packet, with CRLF after each line."""
    text = """
        # A client talks to itself.
        S: INFO
        C: SUB foo 1
        C: PUB foo 2
        C: hi

        S: +OK
        S: +OK
        [open]
        [EOF]
    """
    assert parseTranscript(text) == [
        Open(),
        Send(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n"),
        Expect(b"+OK\r\n+OK\r\n"),
        Alive(),
        Closed(),
    ]


def test_namesAndRawBytes() -> None:
    """
    A name stands for another connection. A bar instead of the colon adds no line end. Escapes are
    bytes.
    """
    text = "S: INFO\nSbob: INFO\nCbob| PING\\n\\xff\\x00 \nC: \\tx\nSbob: é\n[EOF bob]\n[open bob]"
    assert parseTranscript(text) == [
        Open(),
        Open("bob"),
        Send(b"PING\n\xff\x00 ", "bob"),
        Send(b"\tx\r\n"),
        Expect("é\r\n".encode(), on="bob"),
        Closed("bob"),
        Alive("bob"),
    ]


def test_infoStandsAlone() -> None:
    """Lines after INFO are a separate packet."""
    assert parseTranscript("S: INFO\nS: +OK") == [Open(), Expect(b"+OK\r\n")]


def test_unknownLine() -> None:
    """A line that belongs to neither side is refused with its number."""
    with pytest.raises(ValueError, match="line 2 of the transcript is not understood: 'PING'"):
        parseTranscript("C: PING\nPING")


def test_example() -> None:
    """The example in the documentation runs as printed."""
    assert doctest.testmod(transcripts).failed == 0
