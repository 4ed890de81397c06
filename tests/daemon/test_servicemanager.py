"""
Notifications to systemd.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from natsbroker.daemon.servicemanager import ServiceManager
from tests.server.managers import listeningManager
from tests.server.support import Host, logLines


class Managed:
    """
    A broker that notifies a service manager.

    @ivar problems: the errors of the next reload.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.host = Host("port: 4222")
        self.problems: Sequence[str] = []
        self.service = ServiceManager(
            self.host.broker, lambda: self.problems, environment, lambda: 5_000_999
        )
        self.service.setServiceParent(self.host.broker)  # type: ignore[no-untyped-call]


def test_life(tmp_path: Path) -> None:
    """
    Each change from start to end is one datagram. That of a reload has the time of its beginning.
    """
    with listeningManager(tmp_path) as manager:
        managed = Managed(manager.environment)
        assert manager.received() == []
        managed.host.start()
        assert manager.received() == ["READY=1"]
        managed.problems = ["a mistake"]
        assert managed.service.reload() == ["a mistake"]
        assert manager.received() == ["RELOADING=1\nMONOTONIC_USEC=5000", "READY=1"]
        managed.host.broker.stopService()
        assert manager.received() == ["STOPPING=1"]


def test_failedReload(tmp_path: Path) -> None:
    """The end of a reload is notified also if it fails."""
    with listeningManager(tmp_path) as manager:
        managed = Managed(manager.environment)
        managed.host.start()
        manager.received()
        managed.service._reload = lambda: 1 / 0  # type: ignore[assignment, return-value]
        with pytest.raises(ZeroDivisionError):
            managed.service.reload()
        assert manager.received()[-1] == "READY=1"
        managed.host.broker.stopService()


def test_lameDuck(tmp_path: Path) -> None:
    """Lame duck mode is notified as stopping, and a reload during it is not notified."""
    with listeningManager(tmp_path) as manager:
        managed = Managed(manager.environment)
        managed.service.reload()
        assert manager.received() == []
        managed.host.start()
        managed.host.client()
        managed.host.broker.lameDuck()
        assert manager.received() == ["READY=1", "STOPPING=1"]
        managed.service.reload()
        assert manager.received() == []
        managed.host.broker.stopService()


def test_abstractName(tmp_path: Path) -> None:
    """A name that begins with an at sign is in the abstract namespace."""
    with listeningManager(tmp_path, f"@natsbroker-test-{os.getpid()}") as manager:
        managed = Managed(manager.environment)
        managed.host.start()
        assert manager.received() == ["READY=1"]
        managed.host.broker.stopService()


def test_nobodyAsks() -> None:
    """Without a service manager no notification is sent, and no error is logged."""
    managed = Managed({})
    with logLines() as lines:
        managed.host.start()
        managed.host.broker.stopService()
    assert not any("service manager" in line for line in lines)


def test_unusableSocket(tmp_path: Path) -> None:
    """A socket that cannot be reached is logged as an error, and the broker runs."""
    managed = Managed({"NOTIFY_SOCKET": f"{tmp_path}/missing"})
    with logLines() as lines:
        managed.host.start()
    why = f"{tmp_path}/missing: no such file or directory"
    assert f"[ERR] Could not notify the service manager at {why}" in lines
    managed.host.broker.stopService()
