"""
The common part of decoders.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from natsbroker.spark.codecs.payloads import BadPayload, FramedCodec
from natsbroker.spark.errors import OptionError


class Counted:
    """A codec that accepts payloads of a given size."""

    def __init__(self, size: int) -> None:
        if size > 8:
            raise KeyError(size)
        if size > 5:
            raise OptionError(f"no schema is as long as {size}")
        self.columns = ["count"]
        self._size = size

    def decode(self, data: bytes) -> Mapping[str, Any]:
        """The payload, if its size is right."""
        if len(data) != self._size:
            raise BadPayload(f"it has {len(data)} bytes and not {self._size}")
        return {"own": data}


def test_framed() -> None:
    """A payload is decoded by the schema that it names. Each schema is read once."""
    made: list[int] = []

    def codecOf(size: int) -> Counted:
        made.append(size)
        return Counted(size)

    codec = FramedCodec(
        lambda data: (data[0], 1), codecOf, 3, lambda key, _, data: {f"{key}": data}
    )
    assert codec.columns == ["count"]
    assert codec.decode(b"\x03abc") == {"own": b"abc"}
    assert codec.decode(b"\x02ab") == {"2": b"ab"}
    assert codec.decode(b"\x02cd") == {"2": b"cd"}
    assert made == [3, 2]
    with pytest.raises(BadPayload, match="it has 3 bytes and not 2"):
        codec.decode(b"\x02abc")
    with pytest.raises(BadPayload, match="no schema is as long as 6"):
        codec.decode(b"\x06abcdef")
    with pytest.raises(BadPayload, match="its schema, 9, is not known"):
        codec.decode(b"\x09")
