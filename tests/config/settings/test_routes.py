"""
Tests for L{natsbroker.config.settings.routes}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.addresses import RemoteURL
from natsbroker.config.settings.routes import Cluster, splitRoute


@pytest.mark.parametrize(
    "url, place",
    [
        ("nats-route://u:p@host:6222", RemoteURL("host", 6222, "u", "p")),
        ("nats://host:6222", RemoteURL("host", 6222)),
        ("nats-route://[::1]:6222/", RemoteURL("::1", 6222)),
        ("host:6222", RemoteURL("host", 6222)),
        ("nats://a%40b:p%3Ax@h:1", RemoteURL("h", 1, "a@b", "p:x")),
        ("nats://h", RemoteURL("h", 0)),
        ("h:0", RemoteURL("h", 0)),
        ("nats://[::1]:65536", RemoteURL("::1", 0)),
        ("nats://h:99999999999999999999", RemoteURL("h", 0)),
    ],
)
def test_splitRoute(url: str, place: RemoteURL) -> None:
    """The URL of a route has the address of the other server, and our login."""
    assert splitRoute(url) == place


@pytest.mark.parametrize(
    "url", ["", "nats://", "nats://:1", "nats://u:canary@h:-1", "nats://canary@h:x"]
)
def test_noRoute(url: str) -> None:
    """
    A route URL without a host or with an invalid port is refused with an error that shows no
    password.
    """
    with pytest.raises(ValueError, match="error parsing route url") as raised:
        splitRoute(url)
    assert "canary" not in str(raised.value)


def test_secrets() -> None:
    """The repr of the settings hides passwords, also those in URLs."""
    cluster = Cluster(user="u", password="canary", routes=("nats://u:canary@h:1",))
    assert "canary" not in repr(cluster) + repr(splitRoute("nats://u:canary@h:1"))
