"""
The fields of CONNECT.
"""

from __future__ import annotations

import base64
from dataclasses import FrozenInstanceError, fields

import pytest

from natsbroker.client.options import ConnectOptions, connectFields
from natsbroker.wire.connect import DEFAULTS, parseConnect
from natsbroker.wire.serverside import connectLine

FULL = ConnectOptions(
    name="me",
    user="u",
    password="p",
    token="t",
    nkey="N",
    jwt="J",
    sign=lambda nonce: b"<" + nonce + b">",
    echo=False,
)


class TestFields:
    """The fields that are sent."""

    def test_defaults(self) -> None:
        """
        A client without options sends its language and version, and nothing that identifies it.
        """
        assert connectFields(ConnectOptions(), "nonce", False) == {
            "verbose": False,
            "pedantic": False,
            "tls_required": False,
            "lang": "python-natsbroker",
            "version": pytest.importorskip("natsbroker").__version__,
            "protocol": 1,
            "echo": True,
            "headers": True,
            "no_responders": True,
        }

    def test_allOptions(self) -> None:
        """All given options are sent under the protocol's names; the nonce is signed."""
        said = connectFields(FULL, "abc", True)
        assert (said["user"], said["pass"], said["auth_token"]) == ("u", "p", "t")
        assert (said["name"], said["nkey"], said["jwt"], said["echo"]) == ("me", "N", "J", False)
        assert said["tls_required"] is True
        assert base64.urlsafe_b64decode(said["sig"] + "==") == b"<abc>"

    def test_onlyKnownKeys(self) -> None:
        """With any options, CONNECT has keys of the protocol only. No other value can leak."""
        for options in (ConnectOptions(), FULL):
            said = connectFields(options, "abc", True)
            assert set(said) <= set(DEFAULTS)
            assert parseConnect(connectLine(said)[len(b"CONNECT ") : -2]) == said

    def test_noNonce(self) -> None:
        """Without a nonce nothing is signed."""
        assert "sig" not in connectFields(FULL, "", True)


class TestOptions:
    """The options object."""

    def test_secretsDoNotShow(self) -> None:
        """A representation shows no secret."""
        shown = repr(ConnectOptions(user="u", password="S1", token="S2", jwt="S3"))
        assert "u" in shown
        assert not any(secret in shown for secret in ("S1", "S2", "S3"))

    def test_nothingElse(self) -> None:
        """Options have no other fields, and cannot be changed."""
        assert {field.name for field in fields(ConnectOptions)} == {
            *("name", "user", "password", "token", "nkey", "jwt", "sign", "echo")
        }
        with pytest.raises(FrozenInstanceError):
            FULL.user = "x"  # type: ignore[misc]
        with pytest.raises(TypeError):
            ConnectOptions(key_file="secret.pem")  # type: ignore[call-arg]
