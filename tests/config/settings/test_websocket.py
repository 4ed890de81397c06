"""
Tests for L{natsbroker.config.settings.websocket}.
"""

from __future__ import annotations

from natsbroker.config.settings.websocket import Websocket
from natsbroker.config.tls import TLSSettings


def test_scheme() -> None:
    """With a TLS block the scheme is wss, also with C{no_tls}."""
    assert Websocket(no_tls=True).scheme == "ws"
    assert Websocket(tls=TLSSettings(), no_tls=True).scheme == "wss"


def test_asksItself() -> None:
    """
    A user, a token or C{no_auth_user} of the block replaces the login of the top level. A timeout
    alone does not.
    """
    assert not Websocket(timeout=1.0).asksItself
    assert Websocket(user="u").asksItself
    assert Websocket(token="t").asksItself
    assert Websocket(no_auth_user="u").asksItself


def test_secrets() -> None:
    """The repr of the settings hides the password and the token."""
    shown = repr(Websocket(user="u", password="canary-1", token="canary-2"))
    assert "canary" not in shown
