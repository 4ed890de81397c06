"""
Tests for L{natsbroker.websocket.reading}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.settings.websocket import Websocket
from tests.config.support import complaintsOf, settingsOf

WHOLE = """
websocket {
    listen: "127.0.0.1:8080", advertise: "a.com:443", no_tls: true, compression: true
    tls { cert_file: cert.pem, key_file: key.pem }
    same_origin: true, allowed_origins: ["http://a.com"], handshake_timeout: "3s"
    authorization { user: u, password: p, timeout: 4 }
    user_cookie: a, pass_cookie: b, token_cookie: c
    headers { X-One: "1" }, ping_interval: "5s"
}
"""


def test_values() -> None:
    """Every key is stored in its setting."""
    websocket = settingsOf(WHOLE).websocket
    assert websocket is not None
    assert websocket.tls is not None
    assert websocket == Websocket(
        host="127.0.0.1",
        port=8080,
        advertise="a.com:443",
        no_tls=True,
        tls=websocket.tls,
        same_origin=True,
        allowed_origins=("http://a.com",),
        handshake_timeout=3.0,
        compression=True,
        user="u",
        password="p",
        timeout=4.0,
        user_cookie="a",
        pass_cookie="b",
        token_cookie="c",
        headers={"X-One": "1"},
        ping_interval=5.0,
    )


def test_defaults() -> None:
    """A block without a port needs no other key, and opens no port."""
    assert settingsOf("websocket {}").websocket == Websocket()
    assert settingsOf("port: 1").websocket is None


@pytest.mark.parametrize(
    ("block", "rest", "problem"),
    [
        ("port: -1", "", "websocket requires TLS configuration"),
        ("port: 1, tls {}", "", "need 'cert_file' and 'key_file'"),
        ("port: 70000, no_tls: true", "", "invalid port 70000"),
        ("port: 1, no_tls: true, origins: [a]", "", "allowed origins must be absolute URLs"),
        ("port: 1, no_tls: true, headers { Host: x }", "", 'invalid header "Host" not allowed'),
        (
            "port: 1, no_tls: true, headers { Sec-WebSocket-X: x }",
            "",
            'invalid header "Sec-WebSocket-X", "Sec-WebSocket-" prefix not allowed',
        ),
        ('port: 1, no_tls: true, headers { X: "a\\r\\nb" }', "", "cannot be a header"),
        ("port: 1, no_tls: true, no_auth_user: u", "", '"u" present, but users/nkeys'),
        (
            "port: 1, no_tls: true, no_auth_user: u",
            "authorization { users: [ {user: a, password: b} ] }",
            '"u" not present as user or nkey in authorization block or account configuration',
        ),
        (
            "port: 1, no_tls: true, authorization { user: u, password: p }",
            "authorization { users: [ {user: a, password: b} ] }",
            "websocket authentication username not compatible with presence of users/nkeys",
        ),
        (
            "port: 1, no_tls: true, authorization { token: t }",
            "authorization { users: [ {user: a, password: b} ] }",
            "websocket authentication token not compatible with presence of users/nkeys",
        ),
        (
            "port: 1, no_tls: true, authorization { user: a, pass: p, token: t }",
            "",
            "Cannot have a user/pass and token",
        ),
        ("port: 1, no_tls: true, jwt_cookie: c", "", 'for JWT authentication via cookie "c"'),
        ("port: 1, no_tls: true, handshake_timeout: -1", "", "value can not be negative"),
        ('port: 1, no_tls: true, advertise: "a:b"', "", "could not parse port"),
        ("bogus: 1", "", 'unknown field "bogus"'),
    ],
)
def test_problems(block: str, rest: str, problem: str) -> None:
    """A block that nats-server refuses is refused with nats-server's words."""
    complaints = complaintsOf(f"websocket {{ {block} }}\n{rest}")
    assert any(problem in complaint for complaint in complaints), complaints


def test_emptySecret() -> None:
    """An empty password, perhaps of an empty variable, does not open the listener."""
    text = 'websocket { port: 1, no_tls: true, authorization { user: u, password: "" } }'
    assert complaintsOf(text)
