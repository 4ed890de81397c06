"""
Tests for L{natsbroker.routes.overrides}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.commandline import invocationFrom
from natsbroker.config.errors import ConfigError
from natsbroker.config.model import Settings
from natsbroker.routes.overrides import withCluster
from natsbroker.routes.settings import Cluster

FILES = {
    "s.conf": """port: 5
        cluster {
            name: file, listen: "127.0.0.1:1", pool_size: 2
            authorization { user: f, password: x }
        }"""
}


def settings(*arguments: str) -> Settings:
    """What a command line comes to."""

    def read(path: str) -> str:
        if path not in FILES:
            raise FileNotFoundError(path)
        return FILES[path]

    made = invocationFrom(arguments, {}, read).settings
    assert made is not None
    return made


def test_nothing() -> None:
    """Without the flags nothing changes."""
    assert withCluster(Settings(), {"p": 1}) == Settings()


def test_alone() -> None:
    """A cluster can be asked for with flags alone."""
    made = settings(
        "--cluster",
        "nats://u:p@127.0.0.1:6222",
        "--cluster_name",
        "C1",
        "--routes",
        "nats-route://a:1, nats-route://b:2",
        "--no_advertise",
        "--connect_retries",
        "3",
        "--cluster_advertise",
        "h:7",
    )
    assert made.cluster == Cluster(
        name="C1",
        host="127.0.0.1",
        port=6222,
        user="u",
        password="p",
        routes=("nats-route://a:1", "nats-route://b:2"),
        no_advertise=True,
        connect_retries=3,
        advertise="h:7",
    )


def test_overFile() -> None:
    """Flags win over the file; whom only the file lets in is not let in then."""
    cluster = settings("-c", "s.conf", "--cluster_listen", "nats://localhost:-1").cluster
    assert cluster is not None
    assert (cluster.name, cluster.pool_size) == ("file", 2)
    assert (cluster.host, cluster.port, cluster.user) == ("localhost", -1, "")


def test_off() -> None:
    """An empty URL leaves the cluster."""
    cluster = settings("-c", "s.conf", "--cluster", "").cluster
    assert cluster is not None and cluster.port == 0


@pytest.mark.parametrize(
    "url, message",
    [
        ("nonsense", "--cluster: not the URL of a listener: it needs a host and a port"),
        ("nats://h", "--cluster: not the URL of a listener: it needs a host and a port"),
        ("nats://h:x", "--cluster: not the URL of a listener"),
        ("nats://u@h:1", "--cluster: expected cluster password to be set"),
        ("nats://h:99999", "--cluster: not the URL of a listener"),
        ("nats://:@h:1", "--cluster: the login is empty: everybody would be let in"),
        ("nats://u:@h:1", "--cluster: the login is empty: everybody would be let in"),
    ],
)
def test_nonsense(url: str, message: str) -> None:
    """A URL that is none is refused; nothing of it is shown."""
    with pytest.raises(ConfigError) as raised:
        settings("--cluster", url)
    assert str(raised.value) == message


def test_open() -> None:
    """What holds for the file holds for flags."""
    with pytest.raises(ConfigError, match="insecure_listen"):
        settings("--cluster", "nats://0.0.0.0:6222")
    with pytest.raises(ConfigError, match="solicited routes require cluster"):
        settings("--routes", "nats://a:1")
