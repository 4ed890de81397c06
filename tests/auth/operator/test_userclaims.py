"""
Tests of L{natsbroker.auth.operator.userclaims}.
"""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.fields import FieldError, Fields
from natsbroker.auth.operator.userclaims import (
    NO_LIMIT,
    PermissionClaims,
    UserClaims,
    UserPermissionLimits,
    check,
    isFrom,
    networkOf,
    readTerms,
    validUntil,
    zoneOf,
)
from tests.auth.operator.chain import Account, KeyPair, Operator, claimsOf, oldToken, token
from tests.auth.operator.claimvalues import KNOWN, VALUES


def termsOf(value: dict[str, Any], absent: int = 0) -> UserPermissionLimits:
    """
    Terms read from JSON.
    """
    return readTerms(Fields.parse(json.dumps(value).encode()), absent)


class TestReading:
    """Terms as they stand in a JWT."""

    def test_defaultsAreThoseOfScopedUsers(self) -> None:
        """Without terms, a user has the default terms of scoped users."""
        assert termsOf({}) == UserPermissionLimits()
        assert termsOf({"pub": {}, "sub": {}, "src": [], "times": []}) == UserPermissionLimits()
        assert termsOf({"resp": {}}) != UserPermissionLimits()
        assert termsOf({}, NO_LIMIT).payload == NO_LIMIT

    def test_allTerms(self) -> None:
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
        """Networks may be one text, separated by commas and blanks."""
        assert termsOf({"src": " 10.0.0.0/8, FE80::/10 ,"}).sources == ("10.0.0.0/8", "fe80::/10")


class TestChecking:
    """Invalid permissions and limits of a user."""

    @pytest.mark.parametrize("subject", ["", " ", "  ", "\t", "a b", "a..b", ".a", "a.", "a\r\nb"])
    def test_publishSubjects(self, subject: str) -> None:
        """Empty and malformed subjects are refused, also as denied subjects."""
        for name in ("allow", "deny"):
            with pytest.raises(FieldError):
                check(termsOf({"pub": {name: [subject]}}))

    @pytest.mark.parametrize("scope", ["", " ", "   ", "a  b", "a b c", "a ", " a", "a ..", "a\tb"])
    def test_subscribeScopes(self, scope: str) -> None:
        """A subscribe permission that is neither a subject nor a subject and a queue is refused."""
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
        """A source that is not an address with a prefix length is refused."""
        with pytest.raises(FieldError):
            check(UserPermissionLimits(sources=(source,)))

    def test_hostBits(self) -> None:
        """A network may be written as any of its addresses."""
        assert str(networkOf("10.1.2.3/8")) == "10.0.0.0/8"

    @pytest.mark.parametrize(
        "time", ["", "24:00:00", "08:00", "8:0:0", "08:60:00", "x", "\u0661\u0660:00:00"]
    )
    def test_times(self, time: str) -> None:
        """A malformed time of day is refused."""
        for span in ((time, "10:00:00"), ("10:00:00", time)):
            with pytest.raises(FieldError):
                check(UserPermissionLimits(times=(span,)))

    @pytest.mark.parametrize(
        "zone", ["Nowhere/City", "../../etc/passwd", "/etc/localtime", "\0", "."]
    )
    def test_zones(self, zone: str) -> None:
        """A name that is not a time zone is refused, and no other file is opened."""
        with pytest.raises(FieldError):
            check(UserPermissionLimits(zone=zone))

    def test_knownZones(self) -> None:
        """A time zone is known by its name. An empty name stands for the machine's time zone."""
        assert str(zoneOf("Asia/Tokyo")) == "Asia/Tokyo"
        assert zoneOf("") is None


def at(text: str, zone: str = "UTC") -> float:
    """The time stamp of a date and time."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


class TestSources:
    """The networks that a user may connect from."""

    @pytest.mark.parametrize(
        ("host", "sources", "inside"),
        [
            ("1.2.3.4", [], True),
            ("", [], True),
            ("10.1.2.3", ["10.0.0.0/8"], True),
            ("11.1.2.3", ["10.0.0.0/8"], False),
            ("11.1.2.3", ["10.0.0.0/8", "11.1.2.3/32"], True),
            ("::1", ["10.0.0.0/8"], False),
            ("::1", ["::1/128"], True),
            ("::ffff:10.1.2.3", ["10.0.0.0/8"], True),
            ("::ffff:11.1.2.3", ["10.0.0.0/8"], False),
            ("1.2.3.4", ["0.0.0.0/0"], True),
            ("", ["0.0.0.0/0"], False),
            ("localhost", ["0.0.0.0/0"], False),
            ("/run/socket", ["0.0.0.0/0", "::/0"], False),
            ("10.1.2.3", ["nonsense"], False),
        ],
    )
    def test_isFrom(self, host: str, sources: list[str], inside: bool) -> None:
        """
        An address is in one of the networks, or in none. A text that is not an address is in none.
        """
        assert isFrom(host, sources) is inside


class TestTimes:
    """The times of a day."""

    @pytest.mark.parametrize(
        ("times", "now", "until"),
        [
            ([("08:00:00", "16:00:00")], "2026-03-05T12:00:00", "2026-03-05T16:00:00"),
            ([("08:00:00", "16:00:00")], "2026-03-05T08:00:00", "2026-03-05T16:00:00"),
            ([("08:00:00", "16:00:00")], "2026-03-05T07:59:59", None),
            ([("08:00:00", "16:00:00")], "2026-03-05T16:00:00", None),
            ([("22:00:00", "06:00:00")], "2026-03-05T23:30:00", "2026-03-06T06:00:00"),
            ([("22:00:00", "06:00:00")], "2026-03-05T05:00:00", "2026-03-05T06:00:00"),
            ([("22:00:00", "06:00:00")], "2026-03-05T06:00:00", None),
            ([("22:00:00", "06:00:00")], "2026-03-05T21:59:59", None),
            ([("22:00:00", "06:00:00")], "2026-12-31T22:00:00", "2027-01-01T06:00:00"),
            ([("12:00:00", "12:00:00")], "2026-03-05T12:00:00", None),
            (
                [("08:00:00", "10:00:00"), ("09:00:00", "18:00:00")],
                "2026-03-05T09:30:00",
                "2026-03-05T18:00:00",
            ),
            (
                [("08:00:00", "10:00:00"), ("12:00:00", "18:00:00")],
                "2026-03-05T11:00:00",
                None,
            ),
        ],
    )
    def test_validUntil(self, times: list[tuple[str, str]], now: str, until: str | None) -> None:
        """
        A user is valid until the end of the range that contains the time, also across midnight
        (cfa988ab3).
        """
        expected = -math.inf if until is None else at(until)
        assert validUntil(times, "UTC", at(now)) == expected

    def test_noTimes(self) -> None:
        """Without times a user may connect at any time."""
        assert validUntil([], "", 0.0) == math.inf

    def test_zone(self) -> None:
        """Times are in the user's time zone."""
        times = [("08:00:00", "16:00:00")]
        assert validUntil(times, "Asia/Tokyo", at("2026-03-05T00:00:00")) == at(
            "2026-03-05T16:00:00", "Asia/Tokyo"
        )
        assert validUntil(times, "Asia/Tokyo", at("2026-03-05T12:00:00")) == -math.inf

    def test_summertime(self) -> None:
        """A range ends an hour sooner on the day when clocks go forward."""
        now = at("2026-03-28T22:30:00", "Europe/Berlin")
        until = validUntil([("22:00:00", "06:00:00")], "Europe/Berlin", now)
        assert until - now == 6.5 * 3600

    def test_machinesZone(self) -> None:
        """Times without a time zone are in the machine's time zone."""
        now = datetime(2026, 3, 5, 12, 0, 0).timestamp()
        assert validUntil([("08:00:00", "16:00:00")], "", now) == now + 4 * 3600

    @pytest.mark.parametrize(
        ("times", "zone", "now"),
        [
            ([("x", "16:00:00")], "UTC", 0.0),
            ([("08:00:00", "16:00:00")], "Nowhere", 0.0),
            ([("08:00:00", "16:00:00")], "UTC", 1e20),
            ([("22:00:00", "06:00:00")], "UTC", math.inf),
        ],
    )
    def test_invalidTime(self, times: list[tuple[str, str]], zone: str, now: float) -> None:
        """An invalid time never matches."""
        assert validUntil(times, zone, now) == -math.inf


ACCOUNT, USER = Account(Operator()), KeyPair("U")

#: Every claim that a user's JWT may have.
NAMES = st.sampled_from(
    [
        "pub",
        "sub",
        "resp",
        "src",
        "times",
        "times_location",
        "subs",
        "data",
        "payload",
        "bearer_token",
        "proxy_required",
        "allowed_connection_types",
        "issuer_account",
        "tags",
    ]
)


class TestUserClaims:
    """The JWT of a user."""

    def test_goLibrary(self) -> None:
        """A JWT of the Go library is read with all its fields."""
        claims = UserClaims.decode(KNOWN["user"])
        assert claims.terms == UserPermissionLimits(
            PermissionClaims(("a", "b.>"), (), ("c q.*",)),
            ("10.0.0.0/8", "2001:db8::/32"),
            (("08:00:00", "16:30:00"),),
            "Europe/Berlin",
            -1,
            -1,
            512,
            True,
            False,
            ("STANDARD",),
        )
        assert claims.tags == ("region:eu", "x")
        assert claims.account == claims.issuerAccount != claims.token.issuer

    def test_scoped(self) -> None:
        """The JWT of a user of a scoped signer contains no permissions."""
        assert UserClaims.decode(KNOWN["scoped"]).terms == UserPermissionLimits()

    def test_versionOne(self) -> None:
        """In version 1 a missing limit means unlimited, and the account is in another place."""
        nats = {"sub": {"allow": ["a"]}, "payload": 5, "src": "10.0.0.0/8"}
        text = oldToken("user", ACCOUNT.signing, USER.key, nats, issuer_account=ACCOUNT.key)
        claims = UserClaims.decode(text)
        assert claims.account == ACCOUNT.key and claims.terms.rules.subscribeAllow == ("a",)
        assert (claims.terms.subscriptions, claims.terms.payload) == (NO_LIMIT, 5)
        assert claims.terms.sources == ("10.0.0.0/8",)

    def test_account(self) -> None:
        """Without C{issuer_account} the issuer is the account."""
        assert UserClaims.decode(ACCOUNT.user(USER)).account == ACCOUNT.key

    @pytest.mark.parametrize(
        "nats",
        [
            {"issuer_account": "x"},
            {"issuer_account": USER.key},
            {"pub": {"allow": [" "]}},
            {"sub": {"deny": [""]}},
            {"src": ["nowhere"]},
            {"src": 1},
            {"times": [{"start": "x", "end": "y"}]},
            {"times": [{}]},
            {"times": [None]},
            {"times_location": "Nowhere"},
            {"subs": "1"},
            {"payload": 2**63},
            {"bearer_token": "yes"},
            {"tags": "x"},
            {"resp": [1]},
            {"pub": "a"},
        ],
    )
    def test_invalidClaims(self, nats: dict[str, Any]) -> None:
        """A JWT of a user with invalid claims is refused."""
        with pytest.raises(FieldError):
            UserClaims.decode(ACCOUNT.user(USER, nats))

    @pytest.mark.parametrize("subject", ["", "x", ACCOUNT.key, USER.key[:-1], USER.key.lower()])
    def test_subjects(self, subject: str) -> None:
        """The subject of a user's JWT must be the key of a user."""
        with pytest.raises(FieldError):
            UserClaims.decode(token(ACCOUNT, claimsOf("user", ACCOUNT, subject, {})))

    @pytest.mark.parametrize("name", NAMES.elements)  # type: ignore[attr-defined]
    @pytest.mark.parametrize(
        "value", [None, ..., [], {}, 1, -1, "", "x", True, [None], {"a": None}]
    )
    def test_everyClaim(self, name: str, value: Any) -> None:
        """Every claim may be absent or of any type without an exception (CVE-2020-26521)."""
        body = claimsOf("user", ACCOUNT, USER.key, {})
        if value is not ...:
            body["nats"][name] = value
        try:
            UserClaims.decode(token(ACCOUNT, body))
        except FieldError:
            pass

    @given(st.dictionaries(NAMES, VALUES))
    def test_anyClaims(self, nats: dict[str, Any]) -> None:
        """Any signed claims either describe a user or are refused."""
        body = claimsOf("user", ACCOUNT, USER.key, json.loads(json.dumps(nats)))
        try:
            UserClaims.decode(token(ACCOUNT, body))
        except FieldError:
            pass
