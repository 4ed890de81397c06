"""
Tests of L{natsbroker.auth.inquiries}.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from natsbroker.auth.fields import FieldError
from natsbroker.auth.inquiries import grantFromAnswer, question
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.auth.certificates import certificate


def answered(answer: Any) -> Grant:
    """The grant that an answer gives."""
    return grantFromAnswer(json.dumps(answer).encode())


class TestQuestion:
    """What the service is asked."""

    def test_whole(self) -> None:
        """It says who a client is and where from, and nothing that it was not asked."""
        options = {
            "user": "anna",
            "pass": "\u00e4pfel",
            "name": "app",
            "lang": "go",
            "version": "1",
            "verbose": True,
            "echo": False,
            "jwt": "",
            "sig": 7,
            "something": "else",
        }
        asked = question(ConnectRequest(options=options, host="1.2.3.4", nonce="n0nce"))
        assert json.loads(asked) == {
            "host": "1.2.3.4",
            "connection_type": "STANDARD",
            "connect": {
                "user": "anna",
                "pass": "\u00e4pfel",
                "name": "app",
                "lang": "go",
                "version": "1",
            },
        }

    def test_nonce(self) -> None:
        """The nonce is told to services that check signatures."""
        hello = ConnectRequest(options={"nkey": "UKEY", "sig": "s"}, nonce="n0nce")
        asked = json.loads(question(hello, nonce=True))
        assert (asked["nonce"], asked["connect"]) == ("n0nce", {"nkey": "UKEY", "sig": "s"})

    def test_certificate(self) -> None:
        """A certificate is told as PEM."""
        made = certificate("CN=anna")
        asked = json.loads(question(ConnectRequest(certificate=made)))
        assert asked["certificate"].encode() == made.public_bytes(Encoding.PEM)

    def test_same(self) -> None:
        """The same connection makes the same question, in whatever order it said things."""
        one = ConnectRequest(options={"user": "a", "pass": "b"})
        other = ConnectRequest(options={"pass": "b", "user": "a"})
        assert question(one) == question(other)


class TestAnswer:
    """What the service answers."""

    def test_least(self) -> None:
        """A name alone may do everything in the global account."""
        assert answered({"user": "anna"}) == Grant(user="anna")

    def test_whole(self) -> None:
        """Everything that a grant can say."""
        answer = {
            "user": "anna",
            "account": "SHOP",
            "permissions": {
                "publish": {"allow": ["a.>", "b"], "deny": ["a.secret"]},
                "subscribe": {"allow": ["c.*", "d workers"], "deny": ["c.no"]},
                "allow_responses": {"max": 3, "expires": 5},
            },
            "max_payload": 100,
            "max_subscriptions": 7,
            "expires": 2_000_000_000,
        }
        assert answered(answer) == Grant(
            account="SHOP",
            user="anna",
            publish=PermissionSet([b"a.>", b"b"], [b"a.secret"]),
            subscribe=SubscribePermissions([b"c.*", b"d workers"], [b"c.no"]),
            responses=ResponsePermission(3, 5.0),
            maxPayload=100,
            maxSubscriptions=7,
            expires=2_000_000_000.0,
        )

    @pytest.mark.parametrize(
        ("permissions", "publish", "subscribe"),
        [
            ({}, None, None),
            ({"publish": {}, "subscribe": {}}, None, None),
            ({"publish": {"allow": []}}, PermissionSet([]), None),
            ({"subscribe": {"allow": []}}, None, SubscribePermissions([])),
            ({"publish": {"deny": ["a"]}}, PermissionSet(None, [b"a"]), None),
            ({"allow_responses": {}}, PermissionSet([]), None),
            (
                {"allow_responses": {}, "publish": {"deny": ["a"]}},
                PermissionSet([], [b"a"]),
                None,
            ),
        ],
    )
    def test_permissions(self, permissions: Any, publish: Any, subscribe: Any) -> None:
        """Absent is everything, an empty list nothing; who may answer may do only that."""
        grant = answered({"user": "x", "permissions": permissions})
        assert (grant.publish, grant.subscribe) == (publish, subscribe)
        assert (grant.responses is not None) == ("allow_responses" in permissions)

    def test_noLimit(self) -> None:
        """-1 is no limit, and absent is the server's."""
        grant = answered({"user": "x", "max_payload": 0, "max_subscriptions": -1})
        assert (grant.maxPayload, grant.maxSubscriptions, grant.expires) == (0, -1, None)
        assert answered({"user": "x", "expires": 0}).expires == 0.0

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"x",
            b"true",
            b"null",
            b'"anna"',
            b"[]",
            b'{"user":"a"',
            b'{"user":"a"}x',
            b'{"user":"a","user":"b"}',
            b'{"user":"\\ud800"}',
            b"\xff",
            b"[" * 100_000,
        ],
    )
    def test_noAnswer(self, data: bytes) -> None:
        """What is no JSON object lets nobody in."""
        with pytest.raises(FieldError):
            grantFromAnswer(data)

    @pytest.mark.parametrize(
        "answer",
        [
            {},
            {"user": ""},
            {"user": None},
            {"user": True},
            {"user": 7},
            {"user": ["a"]},
            {"ok": True},
            {"user": "a", "ok": True},
            {"user": "a", "account": 1},
            {"user": "a", "permissions": []},
            {"user": "a", "permissions": {"publish": ["a"]}},
            {"user": "a", "permissions": {"pub": {"allow": ["a"]}}},
            {"user": "a", "permissions": {"publish": {"allowed": ["a"]}}},
            {"user": "a", "permissions": {"publish": {"allow": "a"}}},
            {"user": "a", "permissions": {"publish": {"allow": [1]}}},
            {"user": "a", "permissions": {"publish": {"allow": ["a..b"]}}},
            {"user": "a", "permissions": {"publish": {"deny": [""]}}},
            {"user": "a", "permissions": {"publish": {"allow": ["a queue"]}}},
            {"user": "a", "permissions": {"subscribe": {"allow": ["a b c"]}}},
            {"user": "a", "permissions": {"allow_responses": True}},
            {"user": "a", "permissions": {"allow_responses": {"ttl": 1}}},
            {"user": "a", "max_payload": -2},
            {"user": "a", "max_payload": "1"},
            {"user": "a", "max_subscriptions": 1.5},
            {"user": "a", "max_subscriptions": 0},
            {"user": "a", "max_subscriptions": -2},
            {"user": "a", "max_subscriptions": True},
            {"user": "a", "expires": "2030-01-01"},
            {"user": "a", "expires": 1 << 64},
        ],
    )
    def test_nonsense(self, answer: Any) -> None:
        """What makes no sense lets nobody in, rather than without what was meant."""
        with pytest.raises(FieldError):
            answered(answer)

    def test_manyShapes(self) -> None:
        """Permissions that take too long to look up are refused."""
        subjects = [
            ".".join("*" if bits >> n & 1 else "x" for n in range(12)) for bits in range(4000)
        ]
        with pytest.raises(FieldError):
            answered({"user": "a", "permissions": {"publish": {"allow": subjects}}})
