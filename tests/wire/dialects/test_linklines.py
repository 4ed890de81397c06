"""
The common part of the dialects of links.
"""

from __future__ import annotations

import pytest

from natsbroker.wire.dialects.linklines import frameOf, parseWeight, splitTargets
from natsbroker.wire.values import Message


@pytest.mark.parametrize(
    "text, weight", [(b"0", 1), (b"7", 7), (b"999999999", 999999999), (b"x", -1), (b"", -1)]
)
def test_weight(text: bytes, weight: int) -> None:
    """A weight is a number of at least one."""
    assert parseWeight(text) == weight


@pytest.mark.parametrize(
    "middle, targets",
    [
        ([], (b"", None)),
        ([b"r"], (b"r", None)),
        ([b"|"], (b"|", None)),
        ([b"|", b"q"], (b"", (b"q",))),
        ([b"+", b"r"], (b"r", ())),
        ([b"+", b"r", b"q", b"p"], (b"r", (b"q", b"p"))),
        ([b"x", b"y"], None),
    ],
)
def test_targets(
    middle: list[bytes], targets: tuple[bytes, tuple[bytes, ...] | None] | None
) -> None:
    """A mark decides whether a reply subject precedes the queue groups."""
    assert splitTargets(middle) == targets


@pytest.mark.parametrize(
    "headerLength, headers, isSized, line",
    [
        (0, True, False, b"LMSG s r 4"),
        (0, True, True, b"LMSG s r 0 4"),
        (2, True, False, b"HMSG s r 2 4"),
        (2, True, True, b"LMSG s r 2 4"),
        (2, False, False, b"LMSG s r 2"),
        (2, False, True, b"LMSG s r 0 2"),
    ],
)
def test_frame(headerLength: int, headers: bool, isSized: bool, line: bytes) -> None:
    """The operation and the sizes of a message depend on its headers."""
    body = b"abcd" if headers or not headerLength else b"cd"
    frame = frameOf(b"LMSG", b"s", Message(b"s", b"abcd", b"r", headerLength), (), headers, isSized)
    assert frame == line + b"\r\n" + body + b"\r\n"
