"""
Tests for L{natsbroker.config.model}.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from natsbroker.config import model
from natsbroker.config.model import JetStream, Settings
from natsbroker.config.settings.authorization import AccountSettings, AuthorizationSettings, User
from natsbroker.config.settings.gateways import Gateway
from natsbroker.config.settings.routes import Cluster


def test_defaults() -> None:
    """Without a file the settings are those of nats-server, with monitoring on loopback."""
    settings = Settings()
    assert (settings.host, settings.port) == ("0.0.0.0", 4222)
    assert (settings.max_payload, settings.max_pending) == (1024**2, 64 * 1024**2)
    assert (settings.max_control_line, settings.max_connections) == (4096, 65536)
    assert (settings.ping_interval, settings.ping_max) == (120.0, 2)
    assert (settings.lame_duck_duration, settings.lame_duck_grace_period) == (120.0, 10.0)
    assert settings.monitoring.http_host == "127.0.0.1"
    assert settings.logging.logtime


def test_frozen() -> None:
    """Settings do not change."""
    with pytest.raises(FrozenInstanceError):
        Settings().port = 1  # type: ignore[misc]


def test_fileIsNotCompared() -> None:
    """Equal settings from different files are equal."""
    assert replace(Settings(), config_file="a", config_digest="b") == Settings()


def test_users() -> None:
    """All users are found, those of the authorization block first."""
    settings = Settings(
        authorization=AuthorizationSettings(users=(User("a"),)),
        accounts={"X": AccountSettings("X", (User("b", account="X"),)), "Y": AccountSettings("Y")},
    )
    assert [user.user for user in settings.users()] == ["a", "b"]


@pytest.mark.parametrize(
    ("cluster", "gateway", "name"),
    [
        (None, None, ""),
        (Cluster(name="C"), None, "C"),
        (Cluster(), None, ""),
        (None, Gateway(name="G"), "G"),
        (Cluster(name="G"), Gateway(name="G"), "G"),
    ],
)
def test_clusterName(cluster: Cluster | None, gateway: Gateway | None, name: str) -> None:
    """The default cluster name of a broker with a gateway is that of the gateway."""
    assert Settings(cluster=cluster, gateway=gateway).clusterName == name


def test_secretsStayOut() -> None:
    """The repr of the settings hides the sections of plugins."""
    settings = Settings(
        plugins={"p": {"k": "canary"}},
        services={"s": {"k": "canary"}},
        deferred={"cluster": {"pass": "canary"}},
    )
    assert "canary" not in repr(settings)


@pytest.mark.parametrize("name", model.__all__)
def test_everyNameLoads(name: str) -> None:
    """
    Each public name of the module exists, also those of modules that are loaded at their first use.
    """
    assert getattr(model, name) is not None


@pytest.mark.parametrize(
    "jetstream",
    [JetStream(domain="hub"), JetStream(will_extend=True), JetStream(default_domains={"A": ""})],
)
def test_jetStreamIsSet(jetstream: JetStream) -> None:
    """JetStream counts as configured if any of its keys is set."""
    assert jetstream.isSet
    assert not JetStream().isSet
