"""Tests for L{natsbroker.system.options}."""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.system.options import BadOptions, decodeRequest


def queryOf(kind: str, **options: Any) -> dict[str, str]:
    """
    The parameters that options stand for.
    """
    return dict(decodeRequest(kind, json.dumps(options).encode()).query)


class TestQuery:
    """From options to parameters."""

    @pytest.mark.parametrize(
        ("kind", "options", "query"),
        [
            ("CONNZ", {"subscriptions": True}, {"subs": "1"}),
            ("CONNZ", {"subscriptions_detail": True, "subscriptions": True}, {"subs": "1"}),
            ("CONNZ", {"subscriptions": True, "subscriptions_detail": True}, {"subs": "detail"}),
            ("CONNZ", {"state": 1, "sort": "stop"}, {"state": "closed", "sort": "stop"}),
            ("CONNZ", {"state": 0, "auth": False, "limit": 0}, {}),
            ("SUBSZ", {"account": "A", "limit": 5}, {"acc": "A", "limit": "5"}),
            (
                "JSZ",
                {"consumer": True, "leader_only": True},
                {"consumers": "1", "leader-only": "1"},
            ),
            ("HEALTHZ", {"js-server-only": True}, {"js-server-only": "1"}),
            ("VARZ", {"other": 1}, {}),
            ("JSZ", {"ACCOUNT": "A"}, {"acc": "A"}),
        ],
    )
    def test_query(self, kind: str, options: dict[str, Any], query: dict[str, str]) -> None:
        """Options become parameters; unknown and empty ones are left out."""
        assert queryOf(kind, **options) == query

    def test_empty(self) -> None:
        """A request without a body has no options."""
        assert decodeRequest("CONNZ", b"").query == {}

    @pytest.mark.parametrize(
        ("kind", "body", "error"),
        [
            ("JSZ", b"{", "the request is not JSON"),
            ("JSZ", b" ", "the request is not JSON"),
            ("JSZ", b"[" * 100_000, "the request is not JSON"),
            ("JSZ", b"[]", "the request is not an object"),
            ("JSZ", b'{"accounts":"x"}', "the value of accounts has a wrong type"),
            ("JSZ", b'{"tags":[5]}', "the value of tags has a wrong type"),
            ("KICK", b'{"cid":-1}', "the value of cid has a wrong type or is out of range"),
            ("KICK", b'{"cid":true}', "the value of cid has a wrong type"),
            ("CONNZ", b'{"limit":9223372036854775808}', "the value of limit has a wrong type"),
        ],
    )
    def test_invalidOptions(self, kind: str, body: bytes, error: str) -> None:
        """A request whose options cannot be read is refused with the reason."""
        with pytest.raises(BadOptions, match=error):
            decodeRequest(kind, body)

    def test_null(self) -> None:
        """An option that is null is ignored."""
        assert decodeRequest("KICK", b'{"cid":null}').options == {}


class TestFilter:
    """The filter that selects the servers which answer."""

    @pytest.mark.parametrize(
        ("said", "isAdmitted"),
        [
            ({}, True),
            ({"server_name": "al"}, True),
            ({"server_name": "al", "exact_match": True}, False),
            ({"server_name": "alpha", "exact_match": True}, True),
            ({"cluster": "C"}, True),
            ({"cluster": "D"}, False),
            ({"host": "10.0"}, True),
            ({"host": "10.0", "exact_match": True}, False),
            ({"tags": ["EU"]}, True),
            ({"tags": ["eu", "us"]}, False),
            ({"domain": "hub"}, True),
            ({"domain": "edge"}, False),
        ],
    )
    def test_admits(self, said: dict[str, Any], isAdmitted: bool) -> None:
        """A server answers if it meets all conditions of the request."""
        server = {"name": "alpha", "cluster": "C1", "host": "10.0.0.1"}
        servers = decodeRequest("STATSZ", json.dumps(said).encode()).servers
        assert servers.admits(server, ["eu", "ssd"], "hub") is isAdmitted
