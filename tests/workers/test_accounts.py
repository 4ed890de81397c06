"""
The accounts of clients by their CONNECT.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from natsbroker.auth.nkeys import Signer
from natsbroker.wire.nkeys import Role
from natsbroker.workers.accounts import AccountFinder
from tests.server.support import settingsOf

KEY = Signer(Role.USER, bytes(32)).publicKey

TWO = f"""accounts {{
    A {{ users: [{{ user: a, password: a }}, {{ nkey: {KEY} }}] }}
    B {{ users: [{{ user: b, password: b }}] }}
}}
"""


def jwt(**claims: Any) -> str:
    """A token that nobody has signed."""
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode("ascii")).rstrip(b"=")
    return f"x.{payload.decode('ascii')}.y"


class TestNeed:
    """Whether CONNECT is needed to know a client's account."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", False),
            ("authorization { user: u, password: p }", False),
            ("authorization { token: t }", False),
            ("accounts { A { users: [{ user: a, password: a }] } }", False),
            ("accounts { S { users: [{ user: s, password: s }] } }, system_account: S", False),
            (TWO, True),
            (TWO + "proxy_protocol: true", False),
            (TWO + "authorization { users: [{ user: g, password: g }] }", True),
        ],
    )
    def test_settings(self, text: str, expected: bool) -> None:
        """CONNECT is needed only if there are several accounts, and the parent can read it."""
        assert AccountFinder(settingsOf(text)).isNeeded is expected

    def test_nonce(self) -> None:
        """With users with nkeys, INFO has a nonce."""
        assert AccountFinder(settingsOf(TWO)).hasNonce
        assert not AccountFinder(settingsOf("")).hasNonce


STREAMING = "streaming {}, accounts { A { users: [{ user: a, password: a }] } }\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("authorization { users: [{ user: g, password: g }] }", []),
        ("streaming {}", []),
        (STREAMING, []),
        (STREAMING + "authorization { users: [{ user: g, password: g }] }", ["", "$G"]),
        ("streaming {}, authorization { plugin: test }", ["", "$G"]),
        (STREAMING.replace("{}", "{ account: A }", 1), ["", "A"]),
    ],
)
def test_forFirst(text: str, expected: list[str]) -> None:
    """Clients of the account with NATS Streaming are for the first worker if it has users."""
    finder = AccountFinder(settingsOf(text))
    assert [account for account in ("", "$G", "A") if finder.isForFirst(account)] == expected


class TestUsers:
    """Users of the settings."""

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"user": "a", "pass": "wrong"}, "A"),
            ({"user": "b"}, "B"),
            ({"nkey": KEY, "sig": "x"}, "A"),
            ({"user": "nobody", "pass": "x"}, ""),
            ({}, "B"),
            ({"name": "n"}, "B"),
        ],
    )
    def test_found(self, options: dict[str, Any], expected: str) -> None:
        """A user has its account; a client without a login has the guest's."""
        finder = AccountFinder(settingsOf(TWO + "no_auth_user: b"))
        assert finder.accountOf(options) == expected

    def test_open(self) -> None:
        """Without logins, clients have the global account."""
        assert AccountFinder(settingsOf("")).accountOf({"user": "x"}) == "$G"
        finder = AccountFinder(settingsOf("authorization { token: t }"))
        assert finder.accountOf({"auth_token": "t"}) == "$G"


class TestTokens:
    """Tokens in operator mode."""

    @pytest.fixture
    def finder(self, monkeypatch: pytest.MonkeyPatch) -> AccountFinder:
        """A finder of a server with an operator."""
        finder = AccountFinder(settingsOf(""))
        monkeypatch.setattr(finder, "_isOperated", True)
        return finder

    @pytest.mark.parametrize(
        ("claims", "expected"),
        [
            ({"iss": "AB", "nats": {}}, "AB"),
            ({"iss": "AKEY", "nats": {"issuer_account": "AB"}}, "AB"),
            ({"iss": "AKEY", "issuer_account": "AB"}, "AB"),
            ({"iss": 7}, ""),
            ({"nats": []}, ""),
            ({"iss": "AB", "nats": "no block"}, ""),
        ],
    )
    def test_issuer(self, finder: AccountFinder, claims: dict[str, Any], expected: str) -> None:
        """The account is the token's issuer, or the owner of the signing key."""
        assert finder.accountOf({"jwt": jwt(**claims)}) == expected

    @pytest.mark.parametrize("text", ["", "x", "a.b.c", "a.%.c", "a.IiI.c", "a.é.c"])
    def test_nonsense(self, finder: AccountFinder, text: str) -> None:
        """Any other text than a token names no account."""
        assert finder.accountOf({"jwt": text}) == ""
