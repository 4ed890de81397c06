"""
Tests for L{natsbroker.websocket.origins}.
"""

from __future__ import annotations

import pytest

from natsbroker.websocket.origins import Origin, OriginCheck, originOf


class TestOriginOf:
    @pytest.mark.parametrize(
        ("url", "origin"),
        [
            ("http://Example.COM", Origin("http", "example.com", "80")),
            ("https://example.com", Origin("https", "example.com", "443")),
            ("https://example.com:8443/path", Origin("https", "example.com", "8443")),
            ("http://[::1]:8080", Origin("http", "::1", "8080")),
        ],
    )
    def test_parts(self, url: str, origin: Origin) -> None:
        """An origin without a port has the default port of its scheme."""
        assert originOf(url) == origin

    @pytest.mark.parametrize(
        ("url", "problem"),
        [
            ("example.com", "must be absolute URLs with http or https scheme"),
            ("ftp://example.com", "must be absolute URLs with http or https scheme"),
            ("http://", "host is required"),
            ("http://a:b:c", "could not parse address"),
            ("http://[::1", "is not a URL"),
        ],
    )
    def test_refusesOthers(self, url: str, problem: str) -> None:
        """A malformed origin is an error with the reason."""
        with pytest.raises(ValueError, match=problem):
            originOf(url)


class TestOriginCheck:
    def test_anyWithoutRules(self) -> None:
        """Without rules, every origin may connect, even a malformed one."""
        assert OriginCheck().problem("nonsense", "h", False) == ""

    def test_programsHaveNone(self) -> None:
        """A request without an origin comes from a program and may connect under every rule."""
        check = OriginCheck.fromSettings(True, ["http://a.com"])
        assert check.problem("", "b.com", False) == ""

    @pytest.mark.parametrize(
        ("origin", "host", "isTLS", "problem"),
        [
            ("http://a.com", "a.com", False, ""),
            ("http://A.com:80", "a.com:80", False, ""),
            ("https://a.com", "a.com", True, ""),
            ("http://a.com", "a.com", True, "not same origin"),
            ("http://a.com:81", "a.com", False, "not same origin"),
            ("http://b.com", "a.com", False, "not same origin"),
        ],
    )
    def test_same(self, origin: str, host: str, isTLS: bool, problem: str) -> None:
        """With the rule of the same origin, scheme, host and port must be those of the request."""
        assert OriginCheck(isSame=True).problem(origin, host, isTLS) == problem

    def test_allowed(self) -> None:
        """Only listed origins may connect."""
        check = OriginCheck.fromSettings(False, ["https://a.com", "http://b.com:8080"])
        assert check.problem("https://a.com", "x", True) == ""
        assert check.problem("http://b.com:8080", "x", True) == ""
        assert check.problem("http://a.com", "x", True) == "not in the allowed list"

    def test_bothRules(self) -> None:
        """With both rules, an origin must satisfy both."""
        check = OriginCheck.fromSettings(True, ["http://a.com"])
        assert check.problem("http://b.com", "b.com", False) == "not in the allowed list"

    def test_unreadable(self) -> None:
        """With a rule, a malformed origin is refused."""
        assert "http or https" in OriginCheck(isSame=True).problem("null", "a.com", False)
