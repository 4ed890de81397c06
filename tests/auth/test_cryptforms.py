"""
Tests of L{natsbroker.auth.cryptforms}.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest

from natsbroker.auth import cryptforms
from natsbroker.auth.cryptforms import MOST_ROUNDS, checkCrypt, isCrypt, problemOf
from tests.auth.hashes import MADE, PASSWORD


@pytest.mark.parametrize("form", MADE)
def test_known(form: str) -> None:
    """Each form is recognised, and only the right password is right."""
    secret = MADE[form]
    assert isCrypt(secret) and problemOf(secret) == ""
    assert checkCrypt(secret, PASSWORD)
    for other in ("", "passwort", PASSWORD + "\0", PASSWORD[:-1], "x" * 5000, "\udcff"):
        assert not checkCrypt(secret, other)


@pytest.mark.parametrize("form", MADE)
@pytest.mark.parametrize("password", ["x", "a" * 200, "\u00fc \U0001f511"])
def test_againstOpenSSL(form: str, password: str) -> None:
    """What OpenSSL makes of a password is what we make of it."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl program")
    done = subprocess.run(
        ["openssl", "passwd", f"-{form}", "-stdin"],
        input=password + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert checkCrypt(done.stdout.strip(), password)


@pytest.mark.parametrize(
    "secret",
    [
        *("", "x", "fV9m.FZ/T3zms", "$apr1$", "$apr1$$" + "x" * 22, "$2b$04$" + "x" * 53),
        *(MADE["apr1"] + "x", MADE["6"][:-1], MADE["5"].replace("salt", "sa$t"), " " + MADE["1"]),
        MADE["5"] + "\n",
    ],
)
def test_others(secret: str) -> None:
    """Nothing else is one, and nothing is right for it."""
    assert not isCrypt(secret)
    assert problemOf(secret) == "a damaged hash"
    assert not checkCrypt(secret, secret)


@pytest.mark.parametrize("form", ["5", "6"])
def test_rounds(form: str) -> None:
    """So many rounds that a login would take seconds are refused."""
    start = f"${form}$"
    few = MADE[form].replace(start, f"{start}rounds={MOST_ROUNDS}$")
    many = MADE[form].replace(start, f"{start}rounds={MOST_ROUNDS + 1}$")
    assert problemOf(few) == ""
    assert str(MOST_ROUNDS) in problemOf(many)


def test_withoutLibrary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library, what is missing is said, and nobody is let in."""
    monkeypatch.setattr(cryptforms, "_hashes", None)
    assert "natsbroker[htpasswd]" in problemOf(MADE["apr1"])
    assert not checkCrypt(MADE["apr1"], PASSWORD)
