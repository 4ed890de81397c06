"""
The same conversation, split into other packets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.conformance.transcripts import Send, Step

#: Packets up to this length are split at every byte; longer ones at the edges of lines and of the
#: packet. Byte by byte covers what is in between.
THOROUGH = 24

#: How many packets a long one is cut into at most, for byte by byte.
PIECES = 3000


def mainPacket(steps: Sequence[Step]) -> int | None:
    """
    @return: the index of the step with the longest packet.
    """
    sizes = [(len(step.data), at) for at, step in enumerate(steps) if isinstance(step, Send)]
    return max(sizes)[1] if sizes else None


def cuts(data: bytes) -> list[int]:
    """
    @return: the offsets at which a packet is split in two.
    """
    if len(data) <= THOROUGH:
        return list(range(1, len(data)))
    near = {at + offset for at, byte in enumerate(data) if byte == 10 for offset in (-1, 0, 1, 2)}
    near |= {*range(1, 16), *range(len(data) - 16, len(data))}
    return sorted(at for at in near if 0 < at < len(data))


def everySplit(steps: Sequence[Step]) -> Iterator[tuple[int, list[Step]]]:
    """
    @return: the conversations in which the longest packet is split in two, with the offset of the
        split.
    """
    if (index := mainPacket(steps)) is None:
        return
    whole = steps[index]
    assert isinstance(whole, Send)
    for at in cuts(whole.data):
        two = [Send(whole.data[:at], whole.on), Send(whole.data[at:], whole.on)]
        yield at, [*steps[:index], *two, *steps[index + 1 :]]


def byteByByte(steps: Sequence[Step]) -> list[Step]:
    """
    @return: the conversation in which every packet is one byte, or a few if it is very long.
    """
    small: list[Step] = []
    for step in steps:
        if not isinstance(step, Send):
            small.append(step)
            continue
        size = 1 + len(step.data) // PIECES
        small += [Send(step.data[at : at + size], step.on) for at in range(0, len(step.data), size)]
    return small
