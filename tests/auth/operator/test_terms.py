"""
Tests of L{natsbroker.auth.operator.terms}.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.auth.fields import FieldError, Fields
from natsbroker.auth.operator.terms import (
    NO_LIMIT,
    PermissionClaims,
    UserPermissionLimits,
    check,
    networkOf,
    readTerms,
    zoneOf,
)


def termsOf(value: dict[str, Any], absent: int = 0) -> UserPermissionLimits:
    """
    Terms read from JSON.
    """
    return readTerms(Fields.parse(json.dumps(value).encode()), absent)


class TestReading:
    """Terms as they stand in a JWT."""

    def test_nothing(self) -> None:
        """Where nothing is said, terms equal those of nobody in particular."""
        assert termsOf({}) == UserPermissionLimits()
        assert termsOf({"pub": {}, "sub": {}, "src": [], "times": []}) == UserPermissionLimits()
        assert termsOf({"resp": {}}) != UserPermissionLimits()
        assert termsOf({}, NO_LIMIT).payload == NO_LIMIT

    def test_everything(self) -> None:
        """Every term is read."""
        terms = termsOf(
            {
                "pub": {"allow": ["a"], "deny": ["b"]},
                "sub": {"allow": ["c q"], "deny": ["d"]},
                "resp": {"max": 2, "ttl": 5},
                "src": ["10.0.0.0/8"],
                "times": [{"start": "01:00:00", "end": "02:00:00"}],
                "times_location": "Europe/Berlin",
                "subs": 1,
                "data": 2,
                "payload": 3,
                "bearer_token": True,
                "proxy_required": True,
                "allowed_connection_types": ["websocket"],
            }
        )
        rules = PermissionClaims(("a",), ("b",), ("c q",), ("d",), (2, 5))
        assert terms == UserPermissionLimits(
            rules,
            ("10.0.0.0/8",),
            (("01:00:00", "02:00:00"),),
            "Europe/Berlin",
            1,
            2,
            3,
            True,
            True,
            ("WEBSOCKET",),
        )
        check(terms)

    def test_sourcesAsText(self) -> None:
        """Networks may stand in one text, with commas and blanks between."""
        assert termsOf({"src": " 10.0.0.0/8, FE80::/10 ,"}).sources == ("10.0.0.0/8", "fe80::/10")


class TestChecking:
    """Terms that have no meaning."""

    @pytest.mark.parametrize("subject", ["", " ", "  ", "\t", "a b", "a..b", ".a", "a.", "a\r\nb"])
    def test_publishSubjects(self, subject: str) -> None:
        """Blank and malformed subjects are refused, where they are denied too."""
        for name in ("allow", "deny"):
            with pytest.raises(FieldError):
                check(termsOf({"pub": {name: [subject]}}))

    @pytest.mark.parametrize("scope", ["", " ", "   ", "a  b", "a b c", "a ", " a", "a ..", "a\tb"])
    def test_subscribeScopes(self, scope: str) -> None:
        """What is neither a subject nor a subject and a queue is refused."""
        for name in ("allow", "deny"):
            with pytest.raises(FieldError):
                check(termsOf({"sub": {name: [scope]}}))

    @pytest.mark.parametrize(
        "source",
        [
            "",
            "10.0.0.1",
            "10.0.0.0/33",
            "10.0.0.0/255.0.0.0",
            "10.0.0/8",
            "::/129",
            "x/8",
            "/8",
            "10.0.0.0/ 8",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
        ],
    )
    def test_sources(self, source: str) -> None:
        """What is not an address and the length of a prefix is refused."""
        with pytest.raises(FieldError):
            check(UserPermissionLimits(sources=(source,)))

    def test_hostBits(self) -> None:
        """A network may be written as any of its addresses."""
        assert str(networkOf("10.1.2.3/8")) == "10.0.0.0/8"

    @pytest.mark.parametrize(
        "time", ["", "24:00:00", "08:00", "8:0:0", "08:60:00", "x", "\u0661\u0660:00:00"]
    )
    def test_times(self, time: str) -> None:
        """What is no time of a day is refused."""
        for each in ((time, "10:00:00"), ("10:00:00", time)):
            with pytest.raises(FieldError):
                check(UserPermissionLimits(times=(each,)))

    @pytest.mark.parametrize(
        "zone", ["Nowhere/City", "../../etc/passwd", "/etc/localtime", "\0", "."]
    )
    def test_zones(self, zone: str) -> None:
        """What is no time zone is refused, and no other file is opened for one."""
        with pytest.raises(FieldError):
            check(UserPermissionLimits(zone=zone))

    def test_knownZones(self) -> None:
        """A time zone is found by its name; no name is the machine's."""
        assert str(zoneOf("Asia/Tokyo")) == "Asia/Tokyo"
        assert zoneOf("") is None
