"""Tests for L{natsbroker.monitoring.index}."""

from __future__ import annotations

from natsbroker.monitoring.index import Index


def test_links() -> None:
    """Every page is linked, with the paths as they are at that moment."""
    paths = ["/mon/varz"]
    index = Index("1.2", lambda: paths)
    paths.append("/mon/<&")
    answer = index({})
    page = b"".join(answer.body).decode()
    assert (answer.status, answer.contentType) == (200, "text/html; charset=utf-8")
    assert '<a href="/mon/varz">/mon/varz</a>' in page
    assert '<a href="/mon/&lt;&amp;">' in page
    assert "natsbroker 1.2" in page


def test_nothingFromElsewhere() -> None:
    """The page has no scripts and loads nothing."""
    page = b"".join(Index("1", lambda: ["/varz"])({}).body).decode()
    assert "script" not in page
    assert "src" not in page
    assert "//" not in page
