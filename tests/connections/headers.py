"""
Valid and invalid headers of the PROXY protocol.
"""

from __future__ import annotations

import socket
import struct

from natsbroker.connections.proxyheader import SIGNATURE

FIRST = b"PROXY TCP4 1.2.3.4 5.6.7.8 1111 2222\r\n"

_IPV4 = socket.inet_aton("1.2.3.4") + socket.inet_aton("5.6.7.8") + struct.pack("!HH", 1111, 2222)

_IPV6 = bytes(15) + b"\1" + bytes(16) + struct.pack("!HH", 1, 2)

_MAPPED = bytes(10) + b"\xff\xff\1\2\3\4" + bytes(16) + struct.pack("!HH", 3, 4)


def second(command: int = 0x21, family: int = 0x11, body: bytes = _IPV4) -> bytes:
    """
    @return: a header of version 2.
    """
    return SIGNATURE + struct.pack("!BBH", command, family, len(body)) + body


#: Headers that name somebody.
NAMED = {
    FIRST: ("1.2.3.4", 1111),
    b"PROXY TCP6 ::1 2001:db8::5 1111 2222\r\n": ("::1", 1111),
    b"PROXY TCP6 ::ffff:1.2.3.4 ::ffff:9.9.9.9 1111 2222\r\n": ("1.2.3.4", 1111),
    b"PROXY TCP4 1.2.3.4 5.6.7.8 01111 2222\r\n": ("1.2.3.4", 1111),
    b"PROXY  TCP4   1.2.3.4 5.6.7.8 1111 2222 \r\n": ("1.2.3.4", 1111),
    second(): ("1.2.3.4", 1111),
    second(body=_IPV4 + b"\x03\0\4abcd"): ("1.2.3.4", 1111),
    second(family=0x21, body=_IPV6): ("::1", 1),
    second(family=0x21, body=_MAPPED): ("1.2.3.4", 3),
}

#: Headers that name nobody, and no header.
UNNAMED = (
    b"PROXY UNKNOWN\r\n",
    b"PROXY UNKNOWN a b c d\r\n",
    second(0x20, 0, b""),
    second(0x20, 0, b"abc"),
    second(family=0x01, body=b""),
    b"",
)

WRONG = (
    b"PROXY \r\n",
    b"PROXY TCP4 ::1 5.6.7.8 1111 2222\r\n",
    b"PROXY TCP6 ::1 5.6.7.8 1111 2222\r\n",
    b"PROXY TCP6 fe80::1%lo ::1 1111 2222\r\n",
    b"PROXY TCP4 foo 5.6.7.8 1111 2222\r\n",
    b"PROXY TCP4 1.2.3.4 5.6.7.8 70000 2222\r\n",
    b"PROXY TCP4 1.2.3.4 5.6.7.8 +1 2222\r\n",
    b"PROXY TCP4 1.2.3.4 5.6.7.8 1111 2222 3\r\n",
    b"PROXY UDP4 1.2.3.4 5.6.7.8 1111 2222\r\n",
    b"PROXY UNKNOWN " + b"x" * 200 + b"\r\n",
    b"PROXY TCP4 1.2.3.4 5.6.7.8 1111 2222\n",
    second(family=0x00, body=b""),
    second(family=0x12),
    second(family=0x31, body=b"x" * 216),
    second(command=0x22),
    second(command=0x11),
    second(body=b"abc"),
    SIGNATURE[:7] + b"xxxxxxxxx",
)
