"""
Conversations split into other packets.
"""

from __future__ import annotations

from tests.conformance.splits import byteByByte, cuts, everySplit, mainPacket
from tests.conformance.transcripts import Alive, Send, Step

STEPS: list[Step] = [Send(b"ab"), Alive(), Send(b"cdef", "x"), Send(b"g")]


def sent(steps: list[Step]) -> list[bytes]:
    """
    @return: the packets of the steps.
    """
    return [step.data for step in steps if isinstance(step, Send)]


def test_everySplit() -> None:
    """The longest packet is split in two, at every offset."""
    assert mainPacket(STEPS) == 2
    assert [sent(steps) for _, steps in everySplit(STEPS)] == [
        [b"ab", b"c", b"def", b"g"],
        [b"ab", b"cd", b"ef", b"g"],
        [b"ab", b"cde", b"f", b"g"],
    ]
    assert list(everySplit([Alive()])) == []


def test_byteByByte() -> None:
    """
    Every packet is split into single bytes, on the same connection, and other steps are unchanged.
    """
    steps = byteByByte(STEPS)
    assert b"".join(sent(steps)) == b"abcdefg"
    assert {len(data) for data in sent(steps)} == {1}
    assert [step.on for step in steps if isinstance(step, Send)] == ["a"] * 2 + ["x"] * 4 + ["a"]
    assert steps[2] == Alive()


def test_longPackets() -> None:
    """A long packet is split only near its line ends and at its own ends."""
    data = b"x" * 1000 + b"\r\n" + b"y" * 1000
    assert len(cuts(data)) < 100
    assert {1, 1000, 1001, 1002, 2001} <= set(cuts(data))
    pieces = sent(byteByByte([Send(b"z" * 100_000)]))
    assert len(pieces) <= 3000
    assert b"".join(pieces) == b"z" * 100_000
