"""
Tests of L{natsbroker.auth.callout.questions}.
"""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.x509 import load_pem_x509_certificate

from natsbroker.auth.callout.questions import CalloutUser, nameIn, questionOf
from natsbroker.wire.grants import ConnectRequest, Security
from tests.auth.certificates import certificate

SERVER = {"name": "s", "host": "127.0.0.1", "id": "N", "version": "2.15.1"}


def question(hello: ConnectRequest, applicant: CalloutUser | None = None) -> dict[str, Any]:
    """
    The claims about a connection.
    """
    return questionOf(SERVER, "U", hello, applicant or CalloutUser(nameIn(hello)))


def test_least() -> None:
    """Of a connection that says nothing, what is empty is not there, but the protocol is."""
    assert question(ConnectRequest()) == {
        "server_id": SERVER,
        "user_nkey": "U",
        "client_info": {"kind": "Client", "type": "nats"},
        "connect_opts": {"protocol": 0},
    }


def test_most() -> None:
    """A service is told all that a client says of itself, in nats-server's spelling."""
    options = {
        "user": "u",
        "pass": "p",
        "auth_token": "t",
        "nkey": "k",
        "sig": "s",
        "jwt": "not told",
        "name": "n",
        "lang": "python3",
        "version": "2",
        "protocol": 1,
        "verbose": True,
        "echo": False,
    }
    hello = ConnectRequest(
        options=options, host="10.0.0.1", nonce="abc", connectionType="WEBSOCKET", cid=7
    )
    found = question(hello, CalloutUser("K", "jwt", ("a", "b"), "tag"))
    assert found["client_info"] == {
        "host": "10.0.0.1",
        "id": 7,
        "user": "K",
        "name": "n",
        "tags": ["a", "b"],
        "name_tag": "tag",
        "kind": "Client",
        "type": "websocket",
        "nonce": "abc",
    }
    assert found["connect_opts"] == {
        "jwt": "jwt",
        "nkey": "k",
        "sig": "s",
        "auth_token": "t",
        "user": "u",
        "pass": "p",
        "name": "n",
        "lang": "python3",
        "version": "2",
        "protocol": 1,
    }
    assert "client_tls" not in found


def test_nonceWithoutSignature() -> None:
    """The nonce is told with a signature only."""
    assert "nonce" not in question(ConnectRequest(nonce="abc"))["client_info"]


def test_tls() -> None:
    """A service is told how the connection is secured, and sees the client's certificate."""
    found = question(ConnectRequest(tls=Security("1.3", "TLS_AES_128_GCM_SHA256")))["client_tls"]
    assert found == {"version": "1.3", "cipher": "TLS_AES_128_GCM_SHA256"}
    theirs = (certificate("CN=alice"), certificate("CN=authority"))
    [chain] = question(ConnectRequest(tls=Security(chain=theirs)))["client_tls"]["verified_chains"]
    assert tuple(load_pem_x509_certificate(text.encode()) for text in chain) == theirs


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, ""),
        ({"user": "u", "auth_token": "t"}, "u"),
        ({"nkey": "K", "user": "u"}, "K"),
        ({"auth_token": "secret"}, "[REDACTED]"),
        ({"auth_token": "secret", "jwt": "x"}, ""),
    ],
)
def test_name(options: dict[str, str], name: str) -> None:
    """Somebody is named after its key or user, and never after a token."""
    assert nameIn(ConnectRequest(options=options)) == name
