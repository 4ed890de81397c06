"""
Credentials: the fields of CONNECT, and which files are refused.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest

from natsbroker.auth.nkeys import isSignature
from natsbroker.spark.errors import OptionError
from natsbroker.spark.nats.addresses import ServerAccess, connectFields, readCredentials, readSeed
from natsbroker.wire.nkeys import Role, decodeKey
from tests.auth.operator.chain import KeyPair, credentialsFile


@pytest.fixture
def user() -> KeyPair:
    """
    A user's key pair, made with the nkeys library.
    """
    return KeyPair("U")


def access(**options: Any) -> ServerAccess:
    """@return: credentials without an address."""
    return ServerAccess((), **options)


def written(directory: Path, text: str) -> str:
    """
    @return: the path of a new file with a text.
    """
    path = directory / "secret"
    path.write_text(text)
    return str(path)


def isSignedBy(fields: dict[str, str], nonce: bytes, user: KeyPair) -> bool:
    """
    @return: whether the fields have the user's signature of the nonce.
    """
    signature = base64.urlsafe_b64decode(fields["sig"] + "==")
    return isSignature(signature, nonce, decodeKey(user.key, Role.USER))


class TestConnect:
    """The fields of CONNECT."""

    def test_password(self) -> None:
        """Options give a name and a password."""
        fields = connectFields(access(user="anna", password="apple", name="job"), "", False)
        assert (fields["user"], fields["pass"], fields["name"]) == ("anna", "apple", "job")
        assert not {"auth_token", "nkey", "jwt", "sig"} & set(fields)

    def test_token(self) -> None:
        """Options give a token alone."""
        fields = connectFields(access(token="t0ken"), "nonce", True)
        assert (fields["auth_token"], fields["tls_required"]) == ("t0ken", True)
        assert "sig" not in fields

    def test_nkey(self, tmp_path: Path, user: KeyPair) -> None:
        """The public key of the seed, and its signature of the nonce; never the seed."""
        path = written(tmp_path, f"# mine\n{user.seed.decode()}\n")
        fields = connectFields(access(nkeySeedFile=path), "n0nce", False)
        assert fields["nkey"] == user.key
        assert isSignedBy(fields, b"n0nce", user)
        assert user.seed.decode() not in str(fields)

    def test_credentials(self, tmp_path: Path, user: KeyPair) -> None:
        """The JWT of a file of credentials, and the signature of its seed."""
        path = written(tmp_path, credentialsFile("a.b_c.d-e", user))
        fields = connectFields(access(credentialsFile=path), "n0nce", False)
        assert fields["jwt"] == "a.b_c.d-e"
        assert isSignedBy(fields, b"n0nce", user)

    def test_representation(self) -> None:
        """Secrets do not show."""
        shown = repr(access(user="anna", password="s3cret", token="t0ken"))
        assert "s3cret" not in shown
        assert "t0ken" not in shown


class TestFiles:
    """Files with mistakes."""

    def test_missing(self) -> None:
        """A missing file is named."""
        with pytest.raises(OptionError, match="cannot read /nowhere/x: No such file"):
            connectFields(access(credentialsFile="/nowhere/x"), "", False)

    def test_notText(self, tmp_path: Path) -> None:
        """A file that is not text is refused."""
        path = tmp_path / "bytes"
        path.write_bytes(b"\xff\xfe")
        with pytest.raises(OptionError, match="is not a text"):
            connectFields(access(nkeySeedFile=str(path)), "", False)

    def test_noSeed(self, tmp_path: Path, user: KeyPair) -> None:
        """A file with a JWT alone is no file of credentials."""
        text = credentialsFile("a.b.c", user).replace("USER NKEY SEED", "SOMETHING")
        with pytest.raises(OptionError, match="is not a file of credentials"):
            readCredentials(written(tmp_path, text))

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            (lambda seed: seed[:9] + ("A" if seed[9] != "A" else "B") + seed[10:], "checksum"),
            (lambda seed: seed[:20], "base 32|wrong length"),
            (lambda seed: seed + "!", "base 32"),
            (lambda seed: seed[:-1] + "\xe9", "base 32"),
            (lambda seed: "", "one nkey"),
            (lambda seed: seed + "\n" + seed, "one nkey"),
            (lambda seed: KeyPair("A").seed.decode(), "not a user's seed"),
            (lambda seed: KeyPair("U").key, "wrong length or checksum"),
        ],
    )
    def test_badSeed(self, change: object, why: str, user: KeyPair) -> None:
        """A text that is no user's seed is refused, and not repeated."""
        assert callable(change)
        text = change(user.seed.decode())
        with pytest.raises(OptionError, match=why) as caught:
            readSeed(text, "f")
        assert not text or text not in str(caught.value)


def test_noLibrary(tmp_path: Path, user: KeyPair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the optional library, the error names the one that nkeys need."""
    monkeypatch.setitem(sys.modules, "nacl.signing", None)
    path = written(tmp_path, user.seed.decode())
    with pytest.raises(OptionError, match="need PyNaCl where tasks run: pip install PyNaCl"):
        connectFields(access(nkeySeedFile=path), "nonce", False)
