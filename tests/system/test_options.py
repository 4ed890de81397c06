"""Tests for L{natsbroker.system.options}."""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.system.options import decodeRequest
from natsbroker.wire.gojson import JsonError


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
        """Options become parameters; unknown and empty ones nothing."""
        assert queryOf(kind, **options) == query

    def test_empty(self) -> None:
        """A request without a body has no options."""
        assert decodeRequest("CONNZ", b"").query == {}

    @pytest.mark.parametrize(
        ("body", "error"),
        [
            (b"{", "unexpected end of JSON input"),
            (b" ", "unexpected end of JSON input"),
            (b"[]", "json: cannot unmarshal array into Go value of type server.JszEventOptions"),
            (
                b'{"accounts":"x"}',
                "json: cannot unmarshal string into Go struct field JszEventOptions.accounts of "
                "type bool",
            ),
        ],
    )
    def test_wrongTypes(self, body: bytes, error: str) -> None:
        """What is no such request is refused in Go's words."""
        with pytest.raises(JsonError) as caught:
            decodeRequest("JSZ", body)
        assert str(caught.value) == error


class TestFilter:
    """Which servers shall answer."""

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
        """A server answers if it fits everything that the request says."""
        server = {"name": "alpha", "cluster": "C1", "host": "10.0.0.1"}
        servers = decodeRequest("STATSZ", json.dumps(said).encode()).servers
        assert servers.admits(server, ["eu", "ssd"], "hub") is isAdmitted
