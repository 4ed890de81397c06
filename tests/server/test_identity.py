"""
The identity of a broker.
"""

from __future__ import annotations

import os

from natsbroker import NATS_VERSION
from natsbroker.auth.callout.xkeys import CurveKeys
from natsbroker.auth.nkeys import isSignature
from natsbroker.clients.info import FEATURE_FLAGS, ServerInfo
from natsbroker.config.model import Settings
from natsbroker.server.identity import ServerKeys, serverDescriber, serverIdentity
from natsbroker.wire.nkeys import Role, decodeKey


class TestServerKeys:
    """The keys of a server."""

    def test_id(self) -> None:
        """The id is N and 55 more characters: the public key of a server."""
        keys = ServerKeys()
        assert len(keys.id) == 56
        assert keys.id.startswith("N")
        assert len(decodeKey(keys.id, Role.SERVER)) == 32

    def test_differForEachBroker(self) -> None:
        """Each broker has its own id and key for encryption."""
        one, two = ServerKeys(), ServerKeys()
        assert one.id != two.id
        assert one.xkey != two.xkey

    def test_signs(self) -> None:
        """A signature of the broker is valid for its id."""
        keys = ServerKeys()
        key = decodeKey(keys.id, Role.SERVER)
        assert isSignature(keys.signer.sign(b"data"), b"data", key)

    def test_opens(self) -> None:
        """A text that others seal for the public xkey can be opened."""
        keys, other = ServerKeys(), CurveKeys()
        sealed = other.seal(b"data", keys.xkey, os.urandom)
        assert keys.curve.open(sealed, other.publicKey) == b"data"


def test_version() -> None:
    """The reported version is recent enough that clients use all their features."""
    assert tuple(int(part) for part in NATS_VERSION.split(".")) >= (2, 14, 0)


def test_sharedNumbers() -> None:
    """Sequence numbers of several processes of one server increase with time, over restarts too."""
    now, info = 7.0, ServerInfo("N1", "one", "2.15.1", "0.1")
    one = serverDescriber(lambda: info, lambda: now, isShared=True)
    numbers = [one()["seq"], one()["seq"]]
    now = 8.0
    other = serverDescriber(lambda: info, lambda: now, isShared=True)
    assert numbers == [7_000_000, 7_000_001]
    assert other()["seq"] == one()["seq"] == 8_000_000


def test_serverDescriber() -> None:
    """A description has the broker's names and id, the time, and a number that increases."""
    now = 0.0
    info = ServerInfo("N1", "one", "2.15.1", "0.1", host="127.0.0.1")
    describe = serverDescriber(lambda: info, lambda: now)
    assert describe() == {
        "name": "one",
        "host": "127.0.0.1",
        "id": "N1",
        "ver": "2.15.1",
        "feature_flags": dict(FEATURE_FLAGS),
        "jetstream": False,
        "flags": 0,
        "seq": 1,
        "time": "1970-01-01T00:00:00Z",
    }
    now, info = 1.5, info.changed(server_name="two", cluster="C1")
    later = describe()
    assert list(later)[3] == "cluster" and later["cluster"] == "C1"
    assert (later["name"], later["seq"], later["time"]) == ("two", 2, "1970-01-01T00:00:01.5Z")


def test_serverIdentity() -> None:
    """Services get the names and id of the broker, and its tags if there are any."""
    info = ServerInfo("N1", "one", "2.15.1", "0.1", host="127.0.0.1")
    named = {"name": "one", "host": "127.0.0.1", "id": "N1", "version": "2.15.1"}
    assert serverIdentity(info, ()) == named
    tagged = Settings(server_tags=("a", "b"))
    assert serverIdentity(info, tagged.server_tags) == {**named, "tags": ["a", "b"]}
