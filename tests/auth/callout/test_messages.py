"""
Tests of L{natsbroker.auth.callout.messages}.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from cryptography.x509 import load_pem_x509_certificate
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.callout.messages import (
    AuthorizationResponse,
    CalloutUser,
    nameIn,
    questionOf,
    readAnswer,
    stayOf,
)
from natsbroker.auth.callout.xkeys import SealError
from natsbroker.auth.operator.userclaims import UserClaims
from natsbroker.errors import Unauthorized
from natsbroker.wire.grants import ConnectRequest, Security
from tests.auth.certificates import certificate
from tests.auth.operator.chain import Account, KeyPair, Operator, claimsOf, token

SERVER = {"name": "s", "host": "127.0.0.1", "id": "N", "version": "2.15.1"}


def question(hello: ConnectRequest, applicant: CalloutUser | None = None) -> dict[str, Any]:
    """The claims of a request about a connection."""
    return questionOf(SERVER, "U", hello, applicant or CalloutUser(nameIn(hello)))


def test_connectionWithoutOptions() -> None:
    """The request for a connection without options has its protocol, and no empty fields."""
    assert question(ConnectRequest()) == {
        "server_id": SERVER,
        "user_nkey": "U",
        "client_info": {"kind": "Client", "type": "nats"},
        "connect_opts": {"protocol": 0},
    }


def test_allOptions() -> None:
    """A request has all options of the client, in nats-server's spelling."""
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
    asked = question(hello, CalloutUser("K", "jwt", ("a", "b"), "tag"))
    assert asked["client_info"] == {
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
    assert asked["connect_opts"] == {
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
    assert "client_tls" not in asked


def test_nonceWithoutSignature() -> None:
    """A request has no nonce if the client sent no signature."""
    assert "nonce" not in question(ConnectRequest(nonce="abc"))["client_info"]


def test_tls() -> None:
    """A request has the TLS version, the cipher and the certificate of the client."""
    tls = question(ConnectRequest(tls=Security("1.3", "TLS_AES_128_GCM_SHA256")))["client_tls"]
    assert tls == {"version": "1.3", "cipher": "TLS_AES_128_GCM_SHA256"}
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
def test_userName(options: dict[str, str], name: str) -> None:
    """A user is named after its key or user, and never after a token."""
    assert nameIn(ConnectRequest(options=options)) == name


ISSUER = Account(Operator())
USER_KEYS, SERVER_KEYS = KeyPair("U"), KeyPair("N")
NOW = 1_700_000_000.0


def jwt(nats: dict[str, Any] | None = None, **claims: Any) -> str:
    """
    The JWT of a user.
    """
    return ISSUER.user(USER_KEYS, nats, aud="APP", **claims)


def answer(nats: dict[str, Any] | None = None, signer: KeyPair = ISSUER, **claims: Any) -> bytes:
    """An answer that accepts the user."""
    given = {"aud": SERVER_KEYS.key, "sub": USER_KEYS.key, **claims}
    subject = given.pop("sub")
    said = {"jwt": jwt()} if nats is None else nats
    return token(
        signer, claimsOf("authorization_response", signer, subject, said, **given)
    ).encode()


def read(data: bytes, unseal: Any = None) -> AuthorizationResponse:
    """Read an answer."""
    return readAnswer(data, "AUTH", USER_KEYS.key, SERVER_KEYS.key, NOW, unseal)


def test_letsIn() -> None:
    """An answer names the admitted user and the issuer."""
    decoded = read(answer())
    assert (decoded.user.token.audience, decoded.issuer) == ("APP", ISSUER.key)
    assert not decoded.isSealed
    signed = read(answer({"jwt": jwt(), "issuer_account": ISSUER.key}, ISSUER.signing))
    assert (signed.issuer, signed.issuerAccount) == (ISSUER.signing.key, ISSUER.key)


def test_sealed() -> None:
    """An answer that is not a JWT is opened with the broker's key."""
    decoded = read(b"sealed", lambda data: answer() if data == b"sealed" else b"")
    assert decoded.isSealed
    assert not read(answer(), lambda data: b"").isSealed


REFUSED = {
    "no reason supplied": b"",
    "Authorization response is malformed": b"nonsense",
    "not for expected user": answer(sub=KeyPair("U").key),
    "not for server": answer(aud=KeyPair("N").key),
    "Audience must be a server public key": answer(aud="x"),
    "claim is expired or not yet valid": answer(exp=int(NOW) - 1),
    "validation errors: claim is expired": answer(nbf=int(NOW) + 10),
    "returned an error: go away": answer({"error": "go away"}),
    "Only Error or Jwt can be set": answer({"error": "x", "jwt": jwt()}),
    "Error or Jwt is required": answer({}),
    "Error validating user JWT: not three parts between dots": answer({"jwt": "x"}),
    "Error validating user JWT: claim": answer({"jwt": jwt(exp=5)}),
    "not a JWT of the kind user": answer({"jwt": ISSUER.jwt()}),
    "not a JWT of the kind authorization_response": jwt().encode(),
    "its issuer may not issue": answer(signer=Operator()),
    "wrong signature": answer()[:-4] + b"AAAA",
    "but got": answer({"jwt": ISSUER.user(KeyPair("U"))}),
}


@pytest.mark.parametrize("words", REFUSED)
def test_invalidResponsesSayWhy(words: str) -> None:
    """Any other answer denies the login, and the error has the reason."""
    with pytest.raises(Unauthorized) as refused:
        read(REFUSED[words])
    assert words in str(refused.value)


def test_cannotBeOpened() -> None:
    """An answer that cannot be opened denies the login."""

    def fail(data: bytes) -> bytes:
        raise SealError("could not be opened")

    with pytest.raises(Unauthorized, match="decrypting auth callout response"):
        read(b"sealed", fail)


@given(st.binary())
def test_anyInput(data: bytes) -> None:
    """Any input denies the login, without another error."""
    with pytest.raises(Unauthorized):
        read(data)
    with pytest.raises(Unauthorized):
        read(b"sealed", lambda sealed: data)


@given(
    st.dictionaries(
        st.sampled_from(["aud", "exp", "nbf", "iat", "jti", "name", "nats", "sub", "iss"]),
        st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers()),
    )
)
def test_anyClaims(changes: dict[str, Any]) -> None:
    """Signed claims of another kind deny the login."""
    claims = {
        **claimsOf(
            "authorization_response", ISSUER, USER_KEYS.key, {"jwt": jwt()}, aud=SERVER_KEYS.key
        ),
        **changes,
    }
    try:
        decoded = read(token(ISSUER, claims).encode())
    except Unauthorized:
        return
    assert (decoded.user.token.subject, decoded.issuer) == (USER_KEYS.key, ISSUER.key)
    assert claims["sub"] == USER_KEYS.key and claims["aud"] == SERVER_KEYS.key


class TestStay:
    """The end of a user's permitted time."""

    def stay(self, nats: dict[str, Any]) -> float:
        """The time until which a user may stay connected."""
        return stayOf(UserClaims.decode(jwt(nats)), "AUTH", NOW)

    def test_unrestrictedUser(self) -> None:
        """Without times and networks, a user may connect at any time, from any address."""
        assert self.stay({}) == math.inf
        assert self.stay({"src": ["10.0.0.0/8"]}) == math.inf
        assert self.stay({"allowed_connection_types": ["WEBSOCKET"]}) == math.inf

    def test_times(self) -> None:
        """A user with hours may stay until these end, here for 2800 seconds."""
        times = {"times": [{"start": "22:00:00", "end": "23:00:00"}], "times_location": "UTC"}
        assert self.stay(times) == NOW + 2800

    def test_outsideOfHours(self) -> None:
        """A user is denied outside the hours of the JWT."""
        times = {"times": [{"start": "10:00:00", "end": "11:00:00"}], "times_location": "UTC"}
        with pytest.raises(Unauthorized, match="outside of valid connect times"):
            self.stay(times)

    def test_unknownType(self) -> None:
        """A user JWT whose connection types are all unknown is refused."""
        with pytest.raises(Unauthorized, match="using invalid connection type"):
            self.stay({"allowed_connection_types": ["SMOKE"]})
