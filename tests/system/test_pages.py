"""Tests for L{natsbroker.monitoring.model}."""

from __future__ import annotations

import pytest

from natsbroker.clients.state import BrokerState
from natsbroker.monitoring.answers import Answer, jsonAnswer
from natsbroker.monitoring.healthz import HealthProblem
from natsbroker.monitoring.queries import BadQuery, Query
from natsbroker.runtime.process import ProcessUsage
from natsbroker.system.pages import ServerPages
from tests.monitoring.staging import BEGIN, Stage, monitoring


class TestPaths:
    """Where the pages are."""

    @pytest.mark.parametrize("path", ["/", "/varz", "/connz", "/subsz", "/healthz", "/accountz"])
    def test_pages(self, path: str) -> None:
        """Each page is there."""
        assert Stage().answer(path).status == 200

    @pytest.mark.parametrize("path", ["", "varz", "/varz/", "/VARZ", "//live/main.js", "/varz/x"])
    def test_unknown(self, path: str) -> None:
        """Nothing else is, save for the index where no path is given."""
        answer = Stage().model.answer(path, {})
        assert (answer is None) == bool(path)

    @pytest.mark.parametrize("path", ["//varz", "///healthz"])
    def test_slashes(self, path: str) -> None:
        """Slashes may be doubled, as in nats-server."""
        assert Stage().answer(path).status == 200

    def test_alias(self) -> None:
        """The subscriptions have an older name."""
        stage = Stage()
        assert stage.page("/subscriptionsz") == stage.page("/subsz")

    @pytest.mark.parametrize("base", ["/mon", "/mon/"])
    def test_basePath(self, base: str) -> None:
        """With a base path the pages are below it, and only there."""
        stage = Stage(monitoring(http_base_path=base))
        assert stage.page("/mon/varz")["http_base_path"] == "/mon"
        assert stage.answer("/mon/healthz").status == 200
        for path in ("/varz", "/monvarz", "/", "/mon/mon/varz"):
            assert stage.model.answer(path, {}) is None

    @pytest.mark.parametrize("path", ["/mon", "/mon/"])
    def test_indexBelowBasePath(self, path: str) -> None:
        """The index is at the base path and links to what is below."""
        answer = Stage(monitoring(http_base_path="/mon")).answer(path)
        assert b'href="/mon/varz"' in b"".join(answer.body)

    def test_requestsAreNamedWithoutBase(self) -> None:
        """Requests are counted by the page's own name."""
        stage = Stage(monitoring(http_base_path="/mon"))
        assert stage.page("/mon/varz")["http_req_stats"] == {"/varz": 1}


class TestExtension:
    """What others add."""

    def test_page(self) -> None:
        """A page that was added is served, counted and linked, and may refuse."""

        def routez(query: Query) -> Answer:
            if query:
                raise BadQuery("no parameters")
            return jsonAnswer({"num_routes": 0})

        stage = Stage()
        stage.model.pages["/routez"] = routez
        assert stage.page("/routez") == {"num_routes": 0}
        assert stage.refusal("/routez", x="y") == "no parameters"
        assert stage.model.requests == {"/routez": 2}
        assert b"/routez" in b"".join(stage.answer("/").body)


def test_attributes() -> None:
    """The model says where it is to be listened for and which clock holds, after a reload, too."""
    stage = Stage(monitoring(http_host="127.0.0.2", http_base_path="/"))
    model = stage.model
    assert (model.host, model.basePath) == ("127.0.0.2", "")
    model.reloaded(monitoring(http_base_path="/new"))
    assert model.basePath == "/new"
    assert model.clock.seconds() == BEGIN


def stateOf(stage: Stage, process: ProcessUsage) -> BrokerState:
    """A broker with no accounts."""
    return BrokerState(stage.world.context, [], stage.settings, BEGIN, BEGIN, process)


def test_healthChecks() -> None:
    """Checks that were given are asked."""
    stage = Stage()
    checks = [lambda query: [HealthProblem("bad")]]
    model = ServerPages(stateOf(stage, stage.process), checks)
    answer = model.answer("/healthz", {})
    assert answer is not None and answer.status == 503


def test_process() -> None:
    """The figures of the process are those of this one."""
    stage = Stage()
    model = ServerPages(stateOf(stage, ProcessUsage(stage.world.clock.seconds)))
    answer = model.answer("/varz", {})
    assert answer is not None
    assert b'"mem": 0,' not in b"".join(answer.body)


class TestIndex:
    """The page C{/}."""

    def test_linksEveryPage(self) -> None:
        """Every page is linked with its path at that moment, escaped."""
        stage = Stage(monitoring(http_base_path="/mon"))
        stage.model.pages["/<&"] = stage.model.varz
        answer = stage.answer("/mon")
        page = b"".join(answer.body).decode()
        assert (answer.status, answer.contentType) == (200, "text/html; charset=utf-8")
        assert '<a href="/mon/varz">/mon/varz</a>' in page
        assert '<a href="/mon/&lt;&amp;">' in page
        assert stage.world.context.info.natsbroker in page

    def test_loadsNothing(self) -> None:
        """The page has no scripts and loads nothing."""
        page = b"".join(Stage().answer("/").body).decode()
        assert "script" not in page
        assert "src" not in page
        assert "//" not in page
