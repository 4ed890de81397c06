"""
Tests of L{natsbroker.auth.octets}.
"""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.octets import decodeRaw, decodeSignature, encodeRaw


class TestRaw:
    """Base64 in the alphabet of URLs, without padding."""

    @given(st.binary())
    def test_readsWhatItWrites(self, data: bytes) -> None:
        """Whatever was written is read again."""
        assert decodeRaw(encodeRaw(data)) == data

    @given(st.text())
    def test_onlyOneText(self, text: str) -> None:
        """A text is refused unless it is the one that its bytes are written as."""
        try:
            data = decodeRaw(text)
        except ValueError:
            return
        assert encodeRaw(data) == text

    @pytest.mark.parametrize(
        "text",
        ["YQ==", "Y Q", "YQ\n", "\nYQ", "YR", "Y", "YWI=", "_/8", "é", "Y\0Q", "YQ=", "=", "*"],
    )
    def test_variantsAreRefused(self, text: str) -> None:
        """Padding, blanks, line ends, stray bits and foreign letters are refused."""
        with pytest.raises(ValueError):
            decodeRaw(text)


class TestSignature:
    """The two ways in which a signature may be written."""

    @given(st.binary(min_size=1))
    def test_bothWays(self, data: bytes) -> None:
        """Raw base64 of URLs and padded standard base64 are the same bytes."""
        assert decodeSignature(encodeRaw(data)) == data
        assert decodeSignature(base64.b64encode(data).decode()) == data

    @pytest.mark.parametrize("text", ["-/8=", "_w==", "/w", "/x==", " /w==", "/w==\n", "a", "é"])
    def test_mixturesAreRefused(self, text: str) -> None:
        """What is neither is refused."""
        with pytest.raises(ValueError):
            decodeSignature(text)
