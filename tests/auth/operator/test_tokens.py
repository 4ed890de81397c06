"""
Tests of L{natsbroker.auth.operator.tokens}, with tokens of the Go library (C{tokens.txt}, made with
C{github.com/nats-io/jwt/v2}) and of forgers.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.fields import FieldError
from natsbroker.auth.nkeys import Signer
from natsbroker.auth.operator.tokens import LONGEST, decodeAny, decodeToken, encodeToken
from natsbroker.wire.nkeys import Role
from tests.auth.operator.chain import Account, KeyPair, Operator, claimsOf, oldToken, raw, token
from tests.auth.operator.claimvalues import KNOWN

HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}


def claims(issuer: KeyPair, **changes: Any) -> dict[str, Any]:
    """The claims of a user with some changes. C{...} removes a claim."""
    body = {**claimsOf("user", issuer, KeyPair("U").key, {}), **changes}
    return {name: value for name, value in body.items() if value is not ...}


class TestKnown:
    """Tokens that a real tool made."""

    @pytest.mark.parametrize(
        ("name", "kind"),
        [("operator", "operator"), ("account", "account"), ("user", "user"), ("scoped", "user")],
    )
    def test_goLibrary(self, name: str, kind: str) -> None:
        """The Go library's tokens are read, each as the kind that it has."""
        decoded = decodeToken(KNOWN[name], kind)
        assert decoded.text == KNOWN[name]
        assert decoded.issuedAt == 1795207382
        for other in {"operator", "account", "user", "activation"} - {kind}:
            with pytest.raises(FieldError):
                decodeToken(KNOWN[name], other)

    def test_claims(self) -> None:
        """The standard claims of a JWT are read."""
        decoded = decodeToken(KNOWN["user"], "user")
        assert (decoded.name, decoded.expires, decoded.notBefore) == ("jörg", 4102444800, 0)
        assert decoded.subject.startswith("UCFIOX77") and decoded.issuer.startswith("ADFJHLAX")
        assert KNOWN["user"] not in repr(decoded)

    def test_damageIsNoticed(self) -> None:
        """A token with one changed letter is refused."""
        text = KNOWN["scoped"]
        for place in range(0, len(text), 7):
            letter = "A" if text[place] != "A" else "B"
            with pytest.raises(FieldError):
                decodeToken(text[:place] + letter + text[place + 1 :], "user")


class TestHeader:
    """The header of a token."""

    @pytest.mark.parametrize(
        "header",
        [
            {"typ": "JWT", "alg": "none"},
            {"typ": "JWT", "alg": ""},
            {"typ": "JWT"},
            {"typ": "JWT", "alg": None},
            {"typ": "JWT", "alg": "EdDSA"},
            {"typ": "JWT", "alg": "ed25519-other"},
            {"typ": "JWT", "alg": ["ed25519-nkey"]},
            {"typ": "JWT", "alg": "ed25519-nkey", "ALG": "none"},
            {"typ": "JWE", "alg": "ed25519-nkey"},
            {"alg": "ed25519-nkey"},
            {"typ": 1, "alg": "ed25519-nkey"},
            {},
            b"[]",
            b"",
            b'{"typ":"JWT","alg":"ed25519-nkey","alg":"ed25519-nkey"}',
        ],
    )
    def test_otherHeadersAreRefused(self, header: Any) -> None:
        """A header with another algorithm than Ed25519, or another type than C{JWT}, is refused."""
        account = KeyPair("A")
        with pytest.raises(FieldError):
            decodeToken(token(account, claims(account), header), "user")

    @pytest.mark.parametrize("name", ["ed25519", "ED25519-NKEY"])
    def test_spellings(self, name: str) -> None:
        """The algorithm may have either of its two names, in any case."""
        account = KeyPair("A")
        header = {"typ": "JWT", "alg": name}
        decoded = decodeToken(token(account, claims(account), header), "user")
        assert (decoded.issuer, decoded.isOld) == (account.key, False)

    def test_typeInLowerCase(self) -> None:
        """The type may be written in lower case, as older tools did."""
        account = KeyPair("A")
        header = {"typ": "jwt", "alg": "ed25519-nkey"}
        assert decodeToken(token(account, claims(account), header), "user").issuer == account.key

    @pytest.mark.parametrize("name", ["kid", "jku", "jwk", "x5u", "x5c", "crit"])
    def test_nothingElseCounts(self, name: str) -> None:
        """No member of the header can select another key."""
        account, other = KeyPair("A"), KeyPair("A")
        header = {**HEADER, name: other.key}
        assert decodeToken(token(account, claims(account), header), "user").issuer == account.key
        with pytest.raises(FieldError):
            decodeToken(token(other, claims(account), header), "user")

    def test_publicKeyAsSecret(self) -> None:
        """A token that is signed symmetrically with the public key is refused."""
        account = KeyPair("A")
        for name in ("HS256", "ed25519-nkey"):
            header = raw(json.dumps({"typ": "JWT", "alg": name}).encode())
            signed = f"{header}.{raw(json.dumps(claims(account)).encode())}"
            digest = hmac.new(account.key.encode(), signed.encode(), hashlib.sha256).digest()
            for signature in (digest, digest * 2):
                with pytest.raises(FieldError):
                    decodeToken(f"{signed}.{raw(signature)}", "user")

    def test_unsignedHeader(self) -> None:
        """The signature may leave out the header in version 1 only."""
        account = KeyPair("A")
        body = raw(json.dumps(claims(account)).encode())
        signature = raw(account.sign(body.encode()))
        for name in ("ed25519", "ed25519-nkey"):
            header = raw(json.dumps({"typ": "jwt", "alg": name}).encode())
            with pytest.raises(FieldError, match="wrong signature"):
                decodeToken(f"{header}.{body}.{signature}", "user")


class TestVersionOne:
    """Tokens of version 1, whose fields are in other places."""

    def test_user(self) -> None:
        """In version 1 the kind, tags and issuing account are beside the claims of NATS."""
        account, user = KeyPair("A"), KeyPair("U")
        nats = {"pub": {"allow": ["a"]}, "type": "account", "allowed_connection_types": ["MQTT"]}
        text = oldToken("user", account, user.key, nats, tags=["t"], issuer_account=account.key)
        decoded = decodeToken(text, "user")
        assert decoded.isOld and decoded.subject == user.key
        fields = decoded.nats
        assert (fields.text("type"), fields.texts("tags")) == ("user", ("t",))
        assert fields.text("issuer_account") == account.key
        assert "pub" in fields and "allowed_connection_types" not in fields

    def test_account(self) -> None:
        """
        JetStream limits, mappings and scopes are ignored or refused in version 1, which did not
        have them.
        """
        operator, account = KeyPair("O"), KeyPair("A")
        nats = {"limits": {"conn": 3, "mem_storage": 5}, "mappings": {}, "signing_keys": ["x"]}
        fields = decodeToken(oldToken("account", operator, account.key, nats), "account").nats
        limits = fields.block("limits")
        assert limits is not None and list(limits) == ["conn"] and limits.integer("conn") == 3
        assert "mappings" not in fields and fields.texts("signing_keys") == ("x",)
        with pytest.raises(FieldError):
            scoped = {"signing_keys": [{"kind": "user_scope"}]}
            decodeToken(oldToken("account", operator, account.key, scoped), "account")

    def test_activation(self) -> None:
        """An activation of version 1 names its kind. A limit that only version 1 had is refused."""
        account, other = KeyPair("A"), KeyPair("A")
        nats = {"subject": "a", "type": "stream"}
        fields = decodeToken(oldToken("activation", account, other.key, nats), "activation").nats
        assert (fields.text("kind"), fields.text("subject")) == ("stream", "a")
        with pytest.raises(FieldError, match="only version 1 had"):
            decodeToken(
                oldToken("activation", account, other.key, {**nats, "max": 1}), "activation"
            )

    def test_damage(self) -> None:
        """
        A version 1 token with changed claims, or of a kind that version 1 did not have, is refused.
        """
        account, user = KeyPair("A"), KeyPair("U")
        text = oldToken("user", account, user.key, {})
        header, body, signature = text.split(".")
        other = oldToken("user", account, user.key, {"bearer_token": True}).split(".")[1]
        signedBoth = raw(account.sign(f"{header}.{body}".encode()))
        for wrong in (f"{header}.{other}.{signature}", f"{header}.{body}.{signedBoth}"):
            with pytest.raises(FieldError, match="wrong signature"):
                decodeToken(wrong, "user")
        with pytest.raises(FieldError, match="kind"):
            decodeToken(oldToken("cluster", account, user.key, {}), "user")


class TestClaims:
    """The claims of a token."""

    @pytest.mark.parametrize(
        "changes",
        [
            {"nats": None},
            {"nats": ...},
            {"nats": []},
            {"nats": {}},
            {"nats": {"type": "user"}},
            {"nats": {"type": "user", "version": 1}},
            {"nats": {"type": "user", "version": 3}},
            {"nats": {"type": "user", "version": "2"}},
            {"nats": {"version": 2}},
            {"nats": {"type": "account", "version": 2}},
            {"nats": {"type": None, "version": 2}},
            {"type": "user"},
            {"iss": ...},
            {"iss": None},
            {"iss": 1},
            {"iss": ""},
            {"exp": 1.5},
            {"exp": "1"},
            {"exp": 2**63},
            {"exp": True},
            {"nbf": []},
            {"iat": {}},
            {"sub": 1},
            {"name": ["x"]},
        ],
    )
    def test_malformedClaimsAreRefused(self, changes: dict[str, Any]) -> None:
        """Claims of wrong types, versions or kinds are refused, and nothing else happens."""
        account = KeyPair("A")
        with pytest.raises(FieldError):
            decodeToken(token(account, claims(account, **changes)), "user")

    def test_issuersOfOtherRoles(self) -> None:
        """A token of a user is refused unless an account issued it."""
        for letter in "OUN":
            issuer = KeyPair(letter)
            with pytest.raises(FieldError):
                decodeToken(token(issuer, claims(issuer)), "user")

    @pytest.mark.parametrize(
        "change",
        [
            lambda key: key[:-1],
            lambda key: key[:50],
            lambda key: key.lower(),
            lambda key: "U" + key[1:],
            lambda key: key[:-1] + ("A" if key[-1] != "A" else "B"),
            lambda key: base64.b32encode(base64.b32decode(key)[1:-2]).decode(),
            lambda key: base64.b32encode(base64.b32decode(key)[:-3] + b"\0\0").decode(),
        ],
    )
    def test_issuersThatAreNoKeys(self, change: Callable[[str], str]) -> None:
        """An issuer that is truncated, or has a wrong role or checksum, is refused (2026-23)."""
        account = KeyPair("A")
        with pytest.raises(FieldError):
            decodeToken(token(account, claims(account, iss=change(account.key))), "user")

    def test_signedByOthers(self) -> None:
        """A token that another key than the issuer's signed is refused."""
        account, other = KeyPair("A"), KeyPair("A")
        with pytest.raises(FieldError):
            decodeToken(token(other, claims(account)), "user")

    def test_partsOfOthers(self) -> None:
        """A token made of the parts of two tokens is refused."""
        account = KeyPair("A")
        one = token(account, claims(account)).split(".")
        two = token(account, claims(account)).split(".")
        with pytest.raises(FieldError):
            decodeToken(".".join([one[0], one[1], two[2]]), "user")
        with pytest.raises(FieldError):
            decodeToken(".".join([one[0], two[1], one[2]]), "user")


class TestText:
    """The text of a token."""

    @pytest.mark.parametrize(
        "change",
        [
            lambda text: text + "=",
            lambda text: text + "==",
            lambda text: text + "\n",
            lambda text: " " + text,
            lambda text: text.replace(".", " ."),
            lambda text: text + ".",
            lambda text: text + ".e30",
            lambda text: text.rpartition(".")[0],
            lambda text: text.rpartition(".")[0] + ".",
            lambda text: "." + text,
            lambda text: text.replace("-", "+").replace("_", "/"),
            lambda text: text.split(".")[1],
            lambda text: "é" + text,
            lambda text: "",
        ],
    )
    def test_variantsAreRefused(self, change: Callable[[str], str]) -> None:
        """Padding, blanks, line ends, and a wrong number of parts are refused."""
        text = KNOWN["user"]
        assert "-" in text or "_" in text
        with pytest.raises(FieldError):
            decodeToken(change(text), "user")

    def test_longToken(self) -> None:
        """A token of 10 KiB is read. One of more than a megabyte is refused before it is parsed."""
        account = KeyPair("A")
        long = token(account, claims(account, name="x" * 10_000))
        assert len(decodeToken(long, "user").name) == 10_000
        with pytest.raises(FieldError, match="too long"):
            decodeToken(token(account, claims(account, name="x" * LONGEST)), "user")

    @given(st.text())
    def test_anyText(self, text: str) -> None:
        """Any text is refused without another error."""
        with pytest.raises(FieldError):
            decodeAny(text)

    @given(st.binary(), st.binary(), st.binary())
    def test_anyParts(self, header: bytes, body: bytes, signature: bytes) -> None:
        """Any text of three parts is refused."""
        with pytest.raises(FieldError):
            decodeAny(".".join([raw(header), raw(body), raw(signature)]))

    @given(st.binary())
    def test_anyClaims(self, body: bytes) -> None:
        """Any claims with a valid header are refused without a valid signature."""
        with pytest.raises(FieldError):
            decodeAny(token(ACCOUNT, body))


class TestTime:
    """The time in which a token is valid."""

    @pytest.mark.parametrize(
        ("changes", "now", "timely"),
        [
            ({}, 0.0, True),
            ({"exp": 0, "nbf": 0}, 1e10, True),
            ({"exp": 100}, 99.0, True),
            ({"exp": 100}, 100.9, True),
            ({"exp": 100}, 101.0, False),
            ({"exp": -5}, 50.0, False),
            ({"exp": 2**63 - 1}, 1e10, True),
            ({"exp": -(2**63)}, 1e10, False),
            ({"nbf": 100}, 99.9, False),
            ({"nbf": 100}, 100.0, True),
            ({"nbf": -100}, 50.0, True),
            ({"nbf": 10, "exp": 5}, 7.0, False),
        ],
    )
    def test_isTimely(self, changes: dict[str, Any], now: float, timely: bool) -> None:
        """A token is valid from C{nbf} until the end of the second C{exp}."""
        decoded = decodeToken(token(ACCOUNT, claims(ACCOUNT, **changes)), "user")
        assert decoded.isTimely(now) is timely


class TestEncode:
    """Tokens of our own."""

    def test_readAgain(self) -> None:
        """A token that we encode is decoded with all its claims."""
        signer = Signer(Role.SERVER)
        text = encodeToken(
            "authorization_request", "x", {"a": [1, "é"]}, signer, 1000.9, aud="y", exp=1002
        )
        decoded = decodeToken(text, "authorization_request")
        assert (decoded.subject, decoded.audience, decoded.issuer) == ("x", "y", signer.publicKey)
        assert (decoded.issuedAt, decoded.expires) == (1000, 1002)
        assert len(decoded.identifier) == 52

    def test_kinds(self) -> None:
        """A server's token of a kind that servers may not issue is refused."""
        for kind in ("operator", "account", "user", "authorization_response"):
            text = encodeToken(kind, "x", {}, Signer(Role.SERVER), 0.0)
            with pytest.raises(FieldError):
                decodeToken(text, kind)

    def test_chain(self) -> None:
        """Tokens of operators, accounts and users that the tests make are read too."""
        operator = Operator()
        account = Account(operator)
        assert decodeToken(operator.jwt(), "operator").subject == operator.key
        assert decodeToken(account.jwt(), "account").issuer == operator.key
        assert decodeToken(account.user(KeyPair("U")), "user").issuer == account.key


ACCOUNT = KeyPair("A")
