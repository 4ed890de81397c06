"""Tests for L{natsbroker.monitoring.model}."""

from __future__ import annotations

import pytest

from natsbroker.monitoring.answers import Answer, jsonAnswer
from natsbroker.monitoring.queries import BadQuery, Query
from tests.monitoring.staging import Stage, monitoring


class TestPaths:
    """Where the pages are."""

    @pytest.mark.parametrize("path", ["", "varz", "/varz/", "/VARZ", "//live/main.js", "/varz/x"])
    def test_unknown(self, path: str) -> None:
        """Unknown paths have no page. The empty path has the index."""
        answer = Stage().model.answer(path, {})
        assert (answer is None) == bool(path)

    @pytest.mark.parametrize("path", ["//varz", "///healthz"])
    def test_slashes(self, path: str) -> None:
        """Slashes may be doubled, as in nats-server."""
        assert Stage().answer(path).status == 200

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
        """With a base path, the index is at that path, and its links include it."""
        answer = Stage(monitoring(http_base_path="/mon")).answer(path)
        assert b'href="/mon/varz"' in b"".join(answer.body)

    def test_requestsAreNamedWithoutBase(self) -> None:
        """Requests are counted by the name of the page, without the base path."""
        stage = Stage(monitoring(http_base_path="/mon"))
        assert stage.page("/mon/varz")["http_req_stats"] == {"/varz": 1}


class TestExtension:
    """The additions of other rooms."""

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


class TestIndex:
    """The page C{/}."""

    def test_linksEveryPage(self) -> None:
        """The index links to every page, with the base path and escaped."""
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
