"""
The header of the PROXY protocol, version 1 or 2, in which a proxy names its client.

The header is trusted, so the settings have to ask for it. As with nats-server, a connection that
begins otherwise has no header, and its bytes are those of the client. (Twisted's parsers of the
header are private, refuse one that comes in two pieces, and take any text for an address.)
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple

from twisted.internet.interfaces import IReactorTime

TIMEOUT = 5.0
"""Seconds for a whole header to come."""

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
"""The beginning of a header of version 2."""

_PREFIX = b"PROXY "

#: The bytes of a header of version 1, its end included.
_LONGEST = 107

_PORT = re.compile(r"0*([0-9]{1,5})")

_LOCAL, _PROXY = 0x20, 0x21

#: By address family and protocol: the class, and the number of bytes of an address.
_FAMILIES: dict[int, tuple[Callable[[bytes], Any], int]] = {
    0x11: (IPv4Address, 4),
    0x21: (IPv6Address, 16),
}

_UNSPECIFIED_STREAM = 0x01


class ProxyHeaderError(ValueError):
    """Input that begins like a header, but is not a valid one."""


class ProxiedPeer(NamedTuple):
    host: str
    port: int


class ProxyHeader:
    """
    Takes input up to the client's own.

    @ivar peer: the client; C{None} if the proxy does not say, or there is no header.
    @ivar rest: the input of the client so far; C{None} while it has not begun.
    """

    def __init__(self) -> None:
        self.peer: ProxiedPeer | None = None
        self.rest: bytes | None = None
        self._input = b""

    def received(self, data: bytes) -> None:
        """Raise L{ProxyHeaderError} for a header that is wrong."""
        self._input = given = self._input + data
        if _isBegun(given, _PREFIX):
            if len(given) >= len(_PREFIX):
                self._readFirst(given)
        elif _isBegun(given, SIGNATURE[: len(_PREFIX)]):
            if not _isBegun(given, SIGNATURE):
                raise ProxyHeaderError("invalid signature")
            if len(given) >= 16:
                self._readSecond(given)
        else:
            self.rest = given

    def _readFirst(self, given: bytes) -> None:
        line, end, rest = given[:_LONGEST].partition(b"\r\n")
        if end:
            self.peer = _peerIn(line)
            self.rest = rest + given[_LONGEST:]
        elif len(given) >= _LONGEST:
            raise ProxyHeaderError("v1 line too long")

    def _readSecond(self, given: bytes) -> None:
        command, family, length = struct.unpack_from("!BBH", given, len(SIGNATURE))
        if command & 0xF0 != 0x20:
            raise ProxyHeaderError(f"invalid version 0x{command & 0xF0:02x}")
        if command not in (_LOCAL, _PROXY):
            raise ProxyHeaderError(f"unknown command 0x{command & 0x0F:02x}")
        isNamed = command == _PROXY and family != _UNSPECIFIED_STREAM
        if isNamed and family not in _FAMILIES:
            raise ProxyHeaderError(f"unsupported family and protocol 0x{family:02x}")
        make, size = _FAMILIES[family] if isNamed else _FAMILIES[0x11]
        if isNamed and length < 2 * size + 4:
            raise ProxyHeaderError(f"address data too short: {length} bytes")
        if len(given) < 16 + length:
            return
        if isNamed:
            (port,) = struct.unpack_from("!H", given, 16 + 2 * size)
            self.peer = ProxiedPeer(_text(make(given[16 : 16 + size])), port)
        self.rest = given[16 + length :]


def _isBegun(given: bytes, beginning: bytes) -> bool:
    return given[: len(beginning)] == beginning[: len(given)]


def _peerIn(line: bytes) -> ProxiedPeer | None:
    kind, *parts = line.decode("latin-1").split()[1:] or [""]
    if kind == "UNKNOWN":
        return None
    if len(parts) != 4:
        raise ProxyHeaderError("invalid v1 format")
    if kind not in ("TCP4", "TCP6"):
        raise ProxyHeaderError(f"invalid protocol {kind}")
    make = IPv4Address if kind == "TCP4" else IPv6Address
    source, target, *ports = parts
    try:
        # Python accepts a zone in an address, but the header of a proxy must not have one.
        host, _ = make(source.replace("%", " ")), make(target.replace("%", " "))
    except ValueError:
        raise ProxyHeaderError(f"invalid {kind} address") from None
    port, _ = map(_portIn, ports)
    return ProxiedPeer(_text(host), port)


def _portIn(text: str) -> int:
    match = _PORT.fullmatch(text)
    if match is None or int(match[1]) > 65535:
        raise ProxyHeaderError("invalid port")
    return int(match[1])


def _text(address: IPv4Address | IPv6Address) -> str:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


class HeaderStage:
    """The time of a connection before the input of its client begins."""

    def __init__(
        self,
        reactor: IReactorTime,
        done: Callable[[ProxiedPeer | None, bytes], None],
        failed: Callable[[str], None],
    ) -> None:
        """C{done} gets the client and its input so far; C{failed} gets the fault of the header."""
        self._header = ProxyHeader()
        self._done = done
        self._failed = failed
        self._timer: Any = reactor.callLater(TIMEOUT, self._late)

    def received(self, data: bytes) -> None:
        header = self._header
        try:
            header.received(data)
        except ProxyHeaderError as error:
            self.stop()
            self._failed(f"invalid PROXY protocol header: {error}")
            return
        if header.rest is not None:
            self.stop()
            self._done(header.peer, header.rest)

    def stop(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _late(self) -> None:
        self._timer = None
        self._failed("timeout reading PROXY protocol header")
