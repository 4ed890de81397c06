"""Parts of one worker's answers, of a broker in memory."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred

from natsbroker.advisories import ShutdownStarted
from natsbroker.clients.selection import Selection
from natsbroker.monitoring.answers import complete, textAnswer
from natsbroker.monitoring.healthz import HealthQuery
from natsbroker.monitoring.slices import Slices
from natsbroker.workers.neighbours import GLANCE
from natsbroker.workers.parts import partsOf
from tests.server.support import Host
from tests.support import Recorder
from tests.workers.support import Neighbour

HELLO = b'CONNECT {"verbose":false}\r\nPING\r\n'


class Stage:
    def __init__(self) -> None:
        self.host = Host('listen: "127.0.0.1:4222"').start()
        self.client = self.host.client(HELLO)
        self._parts = partsOf(self.host.broker)

    def steps(self, name: str, *arguments: Any) -> Any:
        return self._parts[name](*arguments)

    def part(self, name: str, *arguments: Any) -> Any:
        return complete(self.steps(name, *arguments))


def test_status() -> None:
    """Active accounts are named, because several workers may have connections of one account."""
    assert Stage().part("statsz")["active_accounts"] == ["$G"]


def test_subscribers() -> None:
    """Subscriptions of clients are counted by subject and queue group."""
    stage = Stage()
    stage.client.ask(b"SUB a 1\r\nSUB a q 2\r\nPING\r\n")
    assert stage.part("subscribers", "$G", "a", b"") == 2
    assert stage.part("subscribers", "$G", "a", b"q") == 1


def test_connections() -> None:
    """Connections have their ranks in the whole list; those of a page can be requested."""
    stage = Stage()
    others = [stage.host.client(HELLO) for _ in range(3)]
    part = stage.part("connections", Selection(offset=1, limit=2))
    assert part["total"] == 1 + len(others)
    assert [cid for _, cid in part["ranks"]] == [1, 2, 3]
    assert [rank for rank, _ in part["ranks"]] == [1, 2, 3]


def test_health() -> None:
    """The problems come with whether the worker has streams."""
    assert Stage().part("health", HealthQuery()) == (False, [])


def test_paths() -> None:
    """The paths include pages that were added to the broker's own."""
    stage = Stage()
    stage.host.broker.monitoring.pages["/more"] = lambda query: textAnswer(200, "")
    assert {"/varz", "/more"} <= set(stage.part("paths"))


def test_accounts() -> None:
    stage = Stage()
    [row] = stage.part("accounts", ["$G"])["account_statz"]
    assert (row["acc"], row["conns"]) == ("$G", 1)
    assert stage.part("account", "$G")["client_connections"] == 1
    assert stage.part("account", "nobody") is None
    assert stage.part("jetstream", "$G", {}) is None


def test_metrics() -> None:
    names = [series.name for series in Stage().part("metrics")]
    assert "connections" in names


def test_actions() -> None:
    """A connection of this worker is closed or told to leave."""
    stage = Stage()
    assert (stage.part("leave", 7), stage.part("kick", 7)) == (False, False)
    assert (stage.part("leave", 1), stage.part("kick", 1)) == (True, True)


def test_announce() -> None:
    """An event of the server is published."""
    stage, recorder = Stage(), Recorder()
    stage.host.broker.bus("$SYS").subscribe(b"$SYS.SERVER.*.SHUTDOWN", recorder)
    stage.part("announce", ShutdownStarted())
    assert len(recorder.got) == 1


def test_announceElsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event of the server is announced when clients of other workers have it, too."""
    stage, route = Stage(), Neighbour()
    monkeypatch.setattr("natsbroker.workers.parts.neighboursOf", lambda broker: [route])
    done: list[Any] = []
    announcing = Slices(stage.host.reactor).result(stage.steps("announce", ShutdownStarted()))
    Deferred.fromCoroutine(announcing).addCallback(done.append)
    for _ in range(3):
        stage.host.reactor.advance(GLANCE)
    assert (route.pings, done) == (1, [])
    route.pongs += 1
    for _ in range(3):
        stage.host.reactor.advance(GLANCE)
    assert done == [None]
