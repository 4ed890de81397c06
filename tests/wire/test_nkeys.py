"""
Tests for L{natsbroker.wire.nkeys}.
"""

from __future__ import annotations

import pytest

from natsbroker.wire.nkeys import (
    NkeyError,
    Role,
    WrongRole,
    decodeKey,
    decodeSeed,
    encodeKey,
    isKey,
)

KEYS = {
    Role.OPERATOR: "ODWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435DILF",
    Role.ACCOUNT: "ADWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435D6HD",
    Role.USER: "UDWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435C2U4",
    Role.CURVE: "XCSOBEUSWZI4E6FZO4WFNH27VG5RHWIGWRVLNDE57HOCWRAJ7CRATSUK",
}


@pytest.mark.parametrize("role", KEYS)
def test_keys(role: Role) -> None:
    """A key that the Go library makes is valid for its role, and for no other."""
    assert [key for key in KEYS if isKey(KEYS[role], key)] == [role]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "U",
        KEYS[Role.USER][:-1],
        KEYS[Role.USER] + "A",
        KEYS[Role.USER].lower(),
        "é" * 56,
        "=" * 56,
    ],
)
def test_notKeys(text: str) -> None:
    """Any other text is not a key."""
    assert not isKey(text, Role.USER)


def test_damage() -> None:
    """A key with any changed letter is invalid."""
    key = KEYS[Role.USER]
    for place in range(len(key)):
        letter = "A" if key[place] != "A" else "B"
        assert not isKey(key[:place] + letter + key[place + 1 :], Role.USER)


SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"


def test_textOfAKey() -> None:
    """The text of a key's bytes is that key."""
    for role, text in KEYS.items():
        assert encodeKey(role, decodeKey(text, role)) == text


def test_seeds() -> None:
    """A seed is 32 bytes of its role."""
    assert len(decodeSeed(SEED)) == 32
    with pytest.raises(WrongRole):
        decodeSeed(SEED, Role.ACCOUNT)


@pytest.mark.parametrize("text", ["", SEED[:-1], SEED[:-1] + "A", SEED.lower(), "\xe9" * 58])
def test_notSeeds(text: str) -> None:
    """Any other text is not a seed."""
    with pytest.raises(NkeyError):
        decodeSeed(text)
