"""The types of fields of MQTT packets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.wire.mqtt.fields import LARGEST_VARINT, Reader, binary, text, varint, varintAt
from natsbroker.wire.mqtt.reasons import PacketError, ReasonCode

#: Integers at the limits of each length, as the standard has them.
VARINTS = [
    (0, b"\0"),
    (127, b"\x7f"),
    (128, b"\x80\1"),
    (16383, b"\xff\x7f"),
    (16384, b"\x80\x80\1"),
    (2097151, b"\xff\xff\x7f"),
    (2097152, b"\x80\x80\x80\1"),
    (LARGEST_VARINT, b"\xff\xff\xff\x7f"),
]


class TestVarint:
    """Variable byte integers."""

    @pytest.mark.parametrize(("value", "data"), VARINTS)
    def test_limits(self, value: int, data: bytes) -> None:
        """An integer has as many bytes as it needs, and each beginning of them is incomplete."""
        assert varint(value) == data
        assert varintAt(b"x" + data + b"y", 1) == (value, len(data))
        for size in range(len(data)):
            assert varintAt(data[:size], 0) == (0, 0)

    @given(st.integers(0, LARGEST_VARINT))
    def test_same(self, value: int) -> None:
        """An integer that is written can be read again."""
        data = varint(value)
        reader = Reader(data)
        assert reader.varint() == value
        assert reader.isAtEnd

    @pytest.mark.parametrize(
        "data", [b"\x80\0", b"\xff\x80\0", b"\x80\x80\x80\x80", b"\xff\xff\xff\xff\x7f"]
    )
    def test_malformed(self, data: bytes) -> None:
        """An integer with more than four bytes, or more than it needs, is malformed."""
        with pytest.raises(PacketError) as raised:
            varintAt(data, 0)
        assert raised.value.reason is ReasonCode.MALFORMED_PACKET

    def test_cut(self) -> None:
        """An integer that goes on behind its packet is malformed."""
        with pytest.raises(PacketError):
            Reader(b"\x80").varint()


class TestText:
    """Texts, and bytes with a length."""

    @given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
    def test_same(self, value: str) -> None:
        """A text that is written can be read again."""
        assert Reader(text(value)).text() == value

    def test_noMark(self) -> None:
        """U+FEFF at the beginning is a character like others."""
        assert Reader(b"\0\4\xef\xbb\xbfa").text() == "\ufeffa"

    @pytest.mark.parametrize("data", [b"\0", b"\0\2a", b"\0\1\xff", b"\0\3\xed\xbf\xbf", b"\0\1\0"])
    def test_malformed(self, data: bytes) -> None:
        """A text that is cut, is not UTF-8 or has U+0000 is malformed."""
        with pytest.raises(PacketError) as raised:
            Reader(data).text()
        assert raised.value.reason is ReasonCode.MALFORMED_PACKET

    def test_longest(self) -> None:
        """A field has at most 65,535 bytes."""
        assert len(binary(bytes(65535))) == 65537
        with pytest.raises(ValueError, match="65,535"):
            text("ä" * 32768)
