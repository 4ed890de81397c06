"""Tests for L{natsbroker.system.pages}."""

from __future__ import annotations

import pytest

from natsbroker.clients.state import BrokerState
from natsbroker.monitoring.healthz import HealthProblem
from natsbroker.runtime.process import ProcessUsage
from natsbroker.system.pages import ServerPages
from tests.monitoring.staging import BEGIN, Stage, monitoring


@pytest.mark.parametrize("path", ["/", "/varz", "/connz", "/subsz", "/healthz", "/accountz"])
def test_pages(path: str) -> None:
    """Each page is there."""
    assert Stage().answer(path).status == 200


def test_alias() -> None:
    """The page of subscriptions also has its older name."""
    stage = Stage()
    assert stage.page("/subscriptionsz") == stage.page("/subsz")


def test_attributes() -> None:
    """The model has the configured address, path and clock, also after a reload."""
    stage = Stage(monitoring(http_host="127.0.0.2", http_base_path="/"))
    model = stage.model
    assert (model.host, model.basePath) == ("127.0.0.2", "")
    model.reloaded(monitoring(http_base_path="/new"))
    assert model.basePath == "/new"
    assert model.clock.seconds() == BEGIN


def stateOf(stage: Stage, process: ProcessUsage) -> BrokerState:
    """The monitoring state of a broker without accounts."""
    return BrokerState(stage.world.context, [], stage.settings, BEGIN, BEGIN, process)


def test_healthChecks() -> None:
    """The broker's health checks are called."""
    stage = Stage()
    checks = [lambda query: [HealthProblem("bad")]]
    model = ServerPages(stateOf(stage, stage.process), checks)
    answer = model.answer("/healthz", {})
    assert answer is not None and answer.status == 503


def test_process() -> None:
    """The figures of the process are those of the current process."""
    stage = Stage()
    model = ServerPages(stateOf(stage, ProcessUsage(stage.world.clock.seconds)))
    answer = model.answer("/varz", {})
    assert answer is not None
    assert b'"mem": 0,' not in b"".join(answer.body)
