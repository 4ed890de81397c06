"""
The labels of connections in the log, and the texts of their violations.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker import errors
from natsbroker.connections.labels import (
    ClientLabel,
    authenticationFailure,
    clientLabel,
    inQuotes,
    violationText,
)
from natsbroker.wire.grants import Grant

SECRETS = {
    "pass": "canary-pass",
    "auth_token": "canary-token",
    "jwt": "canary-jwt",
    "sig": "canary-sig",
}


class TestQuoted:
    """Texts of peers."""

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("plain", '"plain"'),
            ('a"b\\c', r'"a\"b\\c"'),
            ("a\r\n\tb", r'"a\r\n\tb"'),
            ("\x00\x1b\x7f", r'"\x00\x1b\x7f"'),
            ("gr\xfc\xdf", r'"gr\xfc\xdf"'),
            ("\u2028\U0001f600", r'"\u2028\U0001f600"'),
            (b"\xff\xfe", r'"\xff\xfe"'),
        ],
    )
    def test_shown(self, text: str | bytes, shown: str) -> None:
        """Bytes that are not printable ASCII are escaped."""
        assert inQuotes(text) == shown

    @given(st.binary())
    def test_anyBytes(self, data: bytes) -> None:
        """Any bytes are shown as printable ASCII between two quotes."""
        shown = inQuotes(data)
        assert shown[0] == shown[-1] == '"'
        assert all(" " <= character <= "~" for character in shown)


class TestClient:
    """The label at the beginning of a line."""

    @pytest.mark.parametrize(
        ("options", "grant", "label"),
        [
            ({}, None, "h:1 - cid:2"),
            ({"name": "n"}, None, "h:1 - cid:2"),
            ({}, Grant(), "h:1 - cid:2"),
            ({}, Grant("A", "u"), 'h:1 - cid:2 - "A/user:u"'),
            ({"name": "n"}, Grant(), 'h:1 - cid:2 - "n"'),
            ({"lang": "py"}, Grant(), 'h:1 - cid:2 - "py"'),
            (
                {"version": "9", "lang": "python", "name": "cname"},
                Grant("$G", "u"),
                'h:1 - cid:2 - "v9:python:cname" - "$G/user:u"',
            ),
            ({"version": "9", "name": "n"}, Grant(), 'h:1 - cid:2 - "v9:n"'),
        ],
    )
    def test_label(self, options: dict[str, Any], grant: Grant | None, label: str) -> None:
        """The label of a client is nats-server's, and includes the user after the login."""
        assert clientLabel("h", 1, 2, options, grant) == label

    def test_long(self) -> None:
        """A long name is truncated."""
        assert len(clientLabel("h", 1, 2, {"name": "x" * 100_000}, Grant())) < 300

    def test_secrets(self) -> None:
        """The label contains no secret."""
        assert "canary" not in clientLabel("h", 1, 2, SECRETS, Grant("A", "u"))
        label = ClientLabel("h", 1, 2, SECRETS, Grant("A", "u"))
        assert str(label) == repr(label) == clientLabel("h", 1, 2, SECRETS, Grant("A", "u"))


class TestAuthentication:
    """Refused logins."""

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({}, "authentication error"),
            ({"user": "zz", "pass": "p"}, 'authentication error - User "zz"'),
            ({"nkey": "UABC", "user": "zz"}, 'authentication error - Nkey "UABC"'),
            ({"nkey": "SUABC"}, 'authentication error - Nkey "[REDACTED]"'),
            ({"auth_token": "t"}, 'authentication error - Token "[REDACTED]"'),
            ({"jwt": "j"}, 'authentication error - JWT User ""'),
        ],
    )
    def test_text(self, options: dict[str, Any], text: str) -> None:
        """The text of a refused login has the claimed user, and no secret."""
        assert authenticationFailure(options) == text

    @pytest.mark.parametrize("name", sorted(SECRETS))
    def test_secrets(self, name: str) -> None:
        """The text of a refused login contains no secret."""
        assert "canary" not in authenticationFailure({name: SECRETS[name]})


class TestViolations:
    """Violations of clients."""

    @pytest.mark.parametrize(
        ("error", "arguments", "text"),
        [
            (errors.PUBLISH_DENIED, ["no.x"], 'Publish Violation - Subject "no.x"'),
            (errors.REPLY_DENIED, ["_R_.x"], 'Publish Violation - Reply "_R_.x"'),
            (errors.SUBSCRIBE_DENIED, ["a"], 'Subscription Violation - Subject "a", SID 7'),
            (
                errors.QUEUE_DENIED,
                ["baz", "q2"],
                'Subscription Violation - Subject "baz", Queue: "q2", SID 7',
            ),
            (
                errors.TOO_MANY_TOKENS,
                ["a.b"],
                'Subscription Violation Too Many Tokens - Subject "a.b", SID 7',
            ),
            (errors.MAX_SUBSCRIPTIONS, [], "maximum subscriptions exceeded"),
            (errors.INVALID_SUBJECT, [], "Invalid Subject"),
        ],
    )
    def test_text(self, error: errors.WireError, arguments: list[str], text: str) -> None:
        """The text of a violation is nats-server's."""
        assert violationText(errors.ProtocolViolation(error, *arguments), b"7") == text

    def test_sid(self) -> None:
        """A sid of any bytes is shown in the text of a violation."""
        violation = errors.ProtocolViolation(errors.SUBSCRIBE_DENIED, "a")
        assert violationText(violation, b"\xff\x01").endswith(r"SID \xff\x01")
