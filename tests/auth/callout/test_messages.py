"""
Tests of L{natsbroker.auth.callout.messages}.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.callout.messages import AuthorizationResponse, readAnswer, stayOf
from natsbroker.auth.callout.xkeys import SealError
from natsbroker.auth.operator.userclaims import UserClaims
from natsbroker.errors import Unauthorized
from tests.auth.operator.chain import Account, KeyPair, Operator, claimsOf, token

ISSUER = Account(Operator())
USER, SERVER = KeyPair("U"), KeyPair("N")
NOW = 1_700_000_000.0


def jwt(nats: dict[str, Any] | None = None, **claims: Any) -> str:
    """
    The JWT of a user.
    """
    return ISSUER.user(USER, nats, aud="APP", **claims)


def answer(nats: dict[str, Any] | None = None, signer: KeyPair = ISSUER, **claims: Any) -> bytes:
    """
    An answer that lets somebody in.
    """
    given = {"aud": SERVER.key, "sub": USER.key, **claims}
    subject = given.pop("sub")
    said = {"jwt": jwt()} if nats is None else nats
    return token(
        signer, claimsOf("authorization_response", signer, subject, said, **given)
    ).encode()


def read(data: bytes, unseal: Any = None) -> AuthorizationResponse:
    """
    Read an answer.
    """
    return readAnswer(data, "AUTH", USER.key, SERVER.key, NOW, unseal)


def test_letsIn() -> None:
    """An answer says who is let in, and who says so."""
    found = read(answer())
    assert (found.user.token.audience, found.signer) == ("APP", ISSUER.key)
    assert not found.isSealed
    signed = read(answer({"jwt": jwt(), "issuer_account": ISSUER.key}, ISSUER.signing))
    assert (signed.issuer, signed.signer) == (ISSUER.signing.key, ISSUER.key)


def test_sealed() -> None:
    """What does not begin like a JWT is opened, where it can be."""
    found = read(b"sealed", lambda data: answer() if data == b"sealed" else b"")
    assert found.isSealed
    assert not read(answer(), lambda data: b"").isSealed


REFUSED = {
    "no reason supplied": b"",
    "Authorization response is none": b"nonsense",
    "not for expected user": answer(sub=KeyPair("U").key),
    "not for server": answer(aud=KeyPair("N").key),
    "Audience must be a server public key": answer(aud="x"),
    "claim is expired or not yet valid": answer(exp=int(NOW) - 1),
    "validation errors: claim is expired": answer(nbf=int(NOW) + 10),
    "returned an error: go away": answer({"error": "go away"}),
    "Only Error or Jwt can be set": answer({"error": "x", "jwt": jwt()}),
    "Error or Jwt is required": answer({}),
    "Error validating user JWT: not three parts": answer({"jwt": "x"}),
    "Error validating user JWT: claim": answer({"jwt": jwt(exp=5)}),
    "not the JWT of one user": answer({"jwt": ISSUER.jwt()}),
    "not the JWT of one authorization_response": jwt().encode(),
    "Proxy is required": answer({"jwt": jwt({"proxy_required": True})}),
    "its issuer may not issue": answer(signer=Operator()),
    "wrong signature": answer()[:-4] + b"AAAA",
    "but got": answer({"jwt": ISSUER.user(KeyPair("U"))}),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused(words: str) -> None:
    """Anything else lets nobody in, and says why."""
    with pytest.raises(Unauthorized) as refused:
        read(REFUSED[words])
    assert words in str(refused.value)


def test_cannotBeOpened() -> None:
    """What cannot be opened lets nobody in."""

    def fail(data: bytes) -> bytes:
        raise SealError("could not be opened")

    with pytest.raises(Unauthorized, match="decrypting auth callout response"):
        read(b"sealed", fail)


@given(st.binary())
def test_anything(data: bytes) -> None:
    """No bytes at all do anything but to let nobody in."""
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
    """Nor do any claims that are signed, unless they say what they should."""
    claims = {
        **claimsOf("authorization_response", ISSUER, USER.key, {"jwt": jwt()}, aud=SERVER.key),
        **changes,
    }
    try:
        found = read(token(ISSUER, claims).encode())
    except Unauthorized:
        return
    assert (found.user.token.subject, found.issuer) == (USER.key, ISSUER.key)
    assert claims["sub"] == USER.key and claims["aud"] == SERVER.key


class TestStay:
    """How long somebody may stay."""

    def stay(self, nats: dict[str, Any]) -> float:
        """Until when."""
        return stayOf(UserClaims.decode(jwt(nats)), "AUTH", NOW)

    def test_always(self) -> None:
        """Without times of the day, always; from wherever it comes, and however."""
        assert self.stay({}) == math.inf
        assert self.stay({"src": ["10.0.0.0/8"]}) == math.inf
        assert self.stay({"allowed_connection_types": ["WEBSOCKET"]}) == math.inf

    def test_times(self) -> None:
        """NOW is 22:13:20 in UTC."""
        times = {"times": [{"start": "22:00:00", "end": "23:00:00"}], "times_location": "UTC"}
        assert self.stay(times) == NOW + 2800

    def test_outside(self) -> None:
        """At other times, not at all."""
        times = {"times": [{"start": "10:00:00", "end": "11:00:00"}], "times_location": "UTC"}
        with pytest.raises(Unauthorized, match="outside of valid connect times"):
            self.stay(times)

    def test_unknownType(self) -> None:
        """Nor with nothing but kinds of connection that nobody knows."""
        with pytest.raises(Unauthorized, match="using invalid connection type"):
            self.stay({"allowed_connection_types": ["SMOKE"]})
