"""
Frames of any dialect, from input in pieces, up to the first fault.
"""

from __future__ import annotations

from typing import Any

from natsbroker.wire import ops
from tests.support import Names, pieces

__all__ = ["framesOf"]


def framesOf(
    names: Names, dialect: Any, data: bytes, cuts: tuple[int, ...]
) -> list[tuple[Any, ...]]:
    """The frames of some input that arrives in pieces."""
    decoder = names.Decoder(4096, 1 << 20, dialect)
    frames = []
    for piece in pieces(data, cuts):
        decoder.append(piece)
        while (frame := decoder.next()) is not None:
            frames.append(frame)
            if frame[0] == ops.FAULT:
                return frames
    return frames
