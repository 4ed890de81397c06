"""
Who a broker is.
"""

from __future__ import annotations

import base64
import binascii

from natsbroker.hosting.identity import NATS_VERSION, newServerId, serverIdFor


class TestServerId:
    """The id of a server."""

    def test_looksLikeOne(self) -> None:
        """It is N and 55 more characters of base 32."""
        name = newServerId()
        assert len(name) == 56
        assert name.startswith("N")
        base64.b32decode(name)

    def test_isAnotherEachTime(self) -> None:
        """Two brokers have different ones."""
        assert newServerId() != newServerId()

    def test_holdsTheKey(self) -> None:
        """It is the kind, the key and their checksum, low byte first."""
        key = bytes(range(32))
        decoded = base64.b32decode(serverIdFor(key))
        assert decoded[1:33] == key
        assert int.from_bytes(decoded[33:], "little") == binascii.crc_hqx(decoded[:33], 0)

    def test_sameAsNatsServer(self) -> None:
        """The key of a nats-server that ran gives the id that it had."""
        known = "NAZ3MP4DRRFKIAUDJZ6WO2WX6K66XBFENZFJLY6XQUFV3DKBXE4DJNE2"
        assert serverIdFor(base64.b32decode(known)[1:33]) == known


def test_version() -> None:
    """The release that is matched is new enough for clients not to switch anything off."""
    assert tuple(int(part) for part in NATS_VERSION.split(".")) >= (2, 14, 0)
