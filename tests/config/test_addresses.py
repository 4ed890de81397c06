"""
Tests for L{natsbroker.config.addresses}.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.config.addresses import checkPort, splitAddress

READABLE = [
    ("127.0.0.1:4222", ("127.0.0.1", 4222)),
    ("localhost:-1", ("localhost", -1)),
    (":4222", ("", 4222)),
    ("[::1]:4222", ("::1", 4222)),
    ("[fe80::1%eth0]:0", ("fe80::1%eth0", 0)),
    ("a:+5", ("a", 5)),
]


@pytest.mark.parametrize(("text", "expected"), READABLE)
def test_readable(text: str, expected: tuple[str, int]) -> None:
    """A host and a port stand around the last colon; brackets protect those of IPv6."""
    assert splitAddress(text) == expected


@pytest.mark.parametrize(
    "text", ["", "a", "::1:4222", "[::1]", "[::1", "[::1]x:1", "a]:1", "a:[1]"]
)
def test_noAddress(text: str) -> None:
    """What has no port, or colons without brackets, is no address."""
    with pytest.raises(ValueError, match="could not parse address string"):
        splitAddress(text)


@pytest.mark.parametrize("text", ["a:", "a:b", "a:1_0", "a:\u0663", "a:" + "9" * 30])
def test_noPort(text: str) -> None:
    """A port is a number in plain digits."""
    with pytest.raises(ValueError, match="could not parse port"):
        splitAddress(text)


@given(st.text("[]:.0a-", max_size=10))
def test_anyText(text: str) -> None:
    """Any text is an address or a C{ValueError}."""
    try:
        splitAddress(text)
    except ValueError as error:
        assert "could not parse" in str(error)


@pytest.mark.parametrize("port", [-1, 0, 1, 65535])
def test_ports(port: int) -> None:
    """A listener can have these ports."""
    assert checkPort(port) == port


@pytest.mark.parametrize("port", [-2, 65536, 2**62])
def test_badPorts(port: int) -> None:
    """A listener cannot have these."""
    with pytest.raises(ValueError, match="invalid port"):
        checkPort(port)
