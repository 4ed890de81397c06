"""
Who a broker is.
"""

from __future__ import annotations

import os

from natsbroker import NATS_VERSION
from natsbroker.auth.callout.xkeys import CurveKeys
from natsbroker.auth.nkeys import Role, decodeKey, isSignature
from natsbroker.server.identity import ServerKeys


class TestServerKeys:
    """The keys of a server."""

    def test_id(self) -> None:
        """The id is N and 55 more characters: the public key of a server."""
        keys = ServerKeys()
        assert len(keys.id) == 56
        assert keys.id.startswith("N")
        assert len(decodeKey(keys.id, Role.SERVER)) == 32

    def test_areOthersEachTime(self) -> None:
        """Two brokers have different ones."""
        one, two = ServerKeys(), ServerKeys()
        assert one.id != two.id
        assert one.xkey != two.xkey

    def test_signs(self) -> None:
        """What is signed in the broker's name can be verified with its id."""
        keys = ServerKeys()
        key = decodeKey(keys.id, Role.SERVER)
        assert isSignature(keys.signer.sign(b"data"), b"data", key)

    def test_opens(self) -> None:
        """What others seal for the public xkey can be opened."""
        keys, other = ServerKeys(), CurveKeys()
        sealed = other.seal(b"data", keys.xkey, os.urandom)
        assert keys.curve.open(sealed, other.publicKey) == b"data"


def test_version() -> None:
    """The release that is matched is new enough for clients not to switch anything off."""
    assert tuple(int(part) for part in NATS_VERSION.split(".")) >= (2, 14, 0)
