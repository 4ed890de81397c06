"""
Tests for L{natsbroker.config.settings.leafnodes}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.addresses import RemoteURL
from natsbroker.config.settings.leafnodes import Leafnodes, RemoteLeaf, splitRemote


@pytest.mark.parametrize(
    "url, expected",
    [
        ("nats-leaf://h:1", RemoteURL("h", 1)),
        ("nats://u:p%40@h:1", RemoteURL("h", 1, "u", "p@")),
        ("tls://u@h", RemoteURL("h", 7422, "u", None, True)),
        ("h:5", RemoteURL("h", 5)),
        ("nats://[::1]:6", RemoteURL("::1", 6)),
    ],
)
def test_url(url: str, expected: RemoteURL) -> None:
    """A URL has a host, with nats-server's default port, and a user may have no password."""
    assert splitRemote(url) == expected


@pytest.mark.parametrize("url", ["nats://", "nats://u:secret@:1", "nats://h:secret"])
def test_badUrl(url: str) -> None:
    """An invalid URL is refused with an error that contains no possible password."""
    with pytest.raises(ValueError, match="error parsing leafnode url") as caught:
        splitRemote(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_webSocket(scheme: str) -> None:
    """A remote may use WebSocket with a path, and its default port is still that of leafnodes."""
    isTLS = scheme == "wss"
    expected = RemoteURL("h", 7422, isTLS=isTLS, isWebSocket=True, path="/a")
    assert splitRemote(f"{scheme}://h/a") == expected


def test_secrets() -> None:
    """The repr of the settings hides passwords and seeds."""
    remote = RemoteLeaf(("nats://u:p4ss@h:1",), nkey="SU4SEED")
    shown = repr(Leafnodes(password="s3cret", remotes=(remote,)))
    assert not any(secret in shown for secret in ("p4ss", "SU4SEED", "s3cret"))


def test_distinctRemotes() -> None:
    """Remotes are distinguished by addresses and logins, whatever the order of the addresses."""
    names = {
        RemoteLeaf(("a", "b")).name,
        RemoteLeaf(("b", "a")).name,
        RemoteLeaf(("a", "b"), account="A").name,
        RemoteLeaf(("a", "b"), credentials="f").name,
    }
    assert len(names) == 3
