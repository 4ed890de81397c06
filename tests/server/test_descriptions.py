"""
Tests of L{natsbroker.server.descriptions}.
"""

from __future__ import annotations

from natsbroker.clients.info import ServerInfo
from natsbroker.config.model import Settings
from natsbroker.server.descriptions import describing, identifying


def test_describing() -> None:
    """A description says who the broker is, when that is said, and how often it was said before."""
    now = 0.0
    info = ServerInfo("N1", "one", "2.15.1", "0.1", host="127.0.0.1")
    describe = describing(lambda: info, lambda: now)
    assert describe() == {
        "name": "one",
        "host": "127.0.0.1",
        "id": "N1",
        "ver": "2.15.1",
        "jetstream": False,
        "flags": 0,
        "seq": 1,
        "time": "1970-01-01T00:00:00Z",
    }
    now, info = 1.5, info.changed(server_name="two", cluster="C1")
    later = describe()
    assert list(later)[3] == "cluster" and later["cluster"] == "C1"
    assert (later["name"], later["seq"], later["time"]) == ("two", 2, "1970-01-01T00:00:01.5Z")


def test_identifying() -> None:
    """Services are told who asks, with its tags if it has any."""
    info = ServerInfo("N1", "one", "2.15.1", "0.1", host="127.0.0.1")
    named = {"name": "one", "host": "127.0.0.1", "id": "N1", "version": "2.15.1"}
    assert identifying(lambda: info, Settings)() == named
    tagged = Settings(server_tags=("a", "b"))
    assert identifying(lambda: info, lambda: tagged)() == {**named, "tags": ["a", "b"]}
