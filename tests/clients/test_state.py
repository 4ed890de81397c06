"""Tests for L{natsbroker.clients.state}."""

from __future__ import annotations

from natsbroker.clients.state import BrokerState
from natsbroker.config.model import Settings
from tests.monitoring.staging import BEGIN, Stage


def state(settings: Settings) -> BrokerState:
    """
    The state of a broker in memory.
    """
    stage = Stage(settings)
    return BrokerState(stage.world.context, [], settings, BEGIN, BEGIN, stage.process)


def test_seconds() -> None:
    """The time is the reactor's."""
    assert state(Settings()).seconds() == BEGIN


def test_systemAccount() -> None:
    """The system account is that of the settings, or none if they disable it."""
    assert state(Settings()).systemAccount == "$SYS"
    assert state(Settings(system_account="OPS")).systemAccount == "OPS"
    assert state(Settings(no_system_account=True)).systemAccount == ""
