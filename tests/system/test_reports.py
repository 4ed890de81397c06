"""The sides of a broker in the system account, alone and as one of several."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from natsbroker.advisories import ClientConnected
from natsbroker.links.hostcluster import HostCluster
from natsbroker.system.reports import SystemReports, systemReports
from natsbroker.wire.values import Kind
from tests.support import Recorder, World


class Stage:
    """
    One of two brokers that are a server.

    @ivar asked: its questions about the server.
    """

    def __init__(self, isSpeaking: bool) -> None:
        self.asked: list[Any] = []
        world, self.clock, self.heard = World(), Clock(), Recorder()
        bus = world.accounts["$SYS"].busFor(Kind.INTERNAL)
        for subject in (b"$SYS.SERVER.ID.STATSZ", b"$SYS.ACCOUNT.A.SERVER.CONNS"):
            bus.subscribe(subject, self.heard)
        self.reports: SystemReports = systemReports(
            lambda: bus,
            bus,
            "ID",
            dict,
            self._never,
            self._never,
            lambda: 1.0,
            HostCluster("", 1, 2, True, self._ask, lambda: isSpeaking),
            self.clock,
            Random(1),
        )

    def _never(self) -> Any:
        raise AssertionError("the server's answers are elsewhere")

    def _ask(self, method: str, *arguments: Any) -> Deferred[Any]:
        self.asked.append((method, *arguments))
        return succeed([{"acc": "A", "conns": 5}] if method == "accountRows" else b"status")


@pytest.mark.parametrize("isSpeaking", [True, False])
def test_status(isSpeaking: bool) -> None:
    """Only the broker that speaks for the server publishes its status."""
    stage = Stage(isSpeaking)
    stage.reports.status.startService()
    stage.clock.advance(1.0)
    assert stage.heard.bodies == [b"status"] * isSpeaking
    assert stage.reports.isShared


def test_counts() -> None:
    """An account's connections are counted over the whole server."""
    stage = Stage(False)
    stage.reports.counts.observe(ClientConnected(1, "A", "u"))
    stage.clock.advance(1.0)
    assert stage.asked == [("accountRows", ("A",))]
    [body] = stage.heard.bodies
    assert b'"conns":5' in body
