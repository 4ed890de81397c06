"""
Tests for L{natsbroker.config.addresses}.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.config.addresses import RemoteURL, checkPort, isLoopback, splitAddress, splitURL

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
    """The last colon separates host and port, and an IPv6 address is in brackets."""
    assert splitAddress(text) == expected


@pytest.mark.parametrize(
    "text", ["", "a", "::1:4222", "[::1]", "[::1", "[::1]x:1", "a]:1", "a:[1]"]
)
def test_noAddress(text: str) -> None:
    """A text without a port, or with colons but no brackets, is not an address."""
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
    """Valid ports of a listener are accepted."""
    assert checkPort(port) == port


@pytest.mark.parametrize("port", [-2, 65536, 2**62])
def test_badPorts(port: int) -> None:
    """Invalid ports of a listener are refused."""
    with pytest.raises(ValueError, match="invalid port"):
        checkPort(port)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("nats://h", RemoteURL("h", 4222)),
        ("h:5", RemoteURL("h", 5)),
        ("tls://u:p%40@h:1", RemoteURL("h", 1, "u", "p@", True)),
        ("nats://token@[::1]:6", RemoteURL("::1", 6, "token")),
    ],
)
def test_splitURL(url: str, expected: RemoteURL) -> None:
    """The URL of a server has a host, and may have a port, a user and a scheme for TLS."""
    assert splitURL(url, "server", ("nats",), 4222) == expected


@pytest.mark.parametrize("url", ["nats://", "nats://h:0", "http://h", "nats://h:x", "wss://h"])
def test_splitURL_noServer(url: str) -> None:
    """Other texts are refused, with errors that hide possible passwords."""
    with pytest.raises(ValueError, match="server") as raised:
        splitURL(url.replace("://", "://u:secret@"), "server", ("nats",), 4222)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LocalHost"])
def test_here(host: str) -> None:
    """A loopback address cannot be reached by other machines."""
    assert isLoopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "example.com", "127.0.0"])
def test_anywhere(host: str) -> None:
    """An address for all interfaces, or an unknown one, may be reached by others."""
    assert not isLoopback(host)
