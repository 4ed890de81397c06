"""
Tests for L{natsbroker.wire.nkeys}.
"""

from __future__ import annotations

import pytest

from natsbroker.wire.nkeys import ACCOUNT, CURVE, OPERATOR, USER, isPublicKey

KEYS = {
    OPERATOR: "ODWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435DILF",
    ACCOUNT: "ADWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435D6HD",
    USER: "UDWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435C2U4",
    CURVE: "XCSOBEUSWZI4E6FZO4WFNH27VG5RHWIGWRVLNDE57HOCWRAJ7CRATSUK",
}


@pytest.mark.parametrize("role", KEYS)
def test_keys(role: int) -> None:
    """A key, as the Go library makes it, is one of its role and of no other."""
    assert [each for each in KEYS if isPublicKey(KEYS[role], each)] == [role]


@pytest.mark.parametrize(
    "text", ["", "U", KEYS[USER][:-1], KEYS[USER] + "A", KEYS[USER].lower(), "é" * 56, "=" * 56]
)
def test_notKeys(text: str) -> None:
    """Anything else is none."""
    assert not isPublicKey(text, USER)


def test_damage() -> None:
    """A key of which any letter is another is none."""
    key = KEYS[USER]
    for place in range(len(key)):
        letter = "A" if key[place] != "A" else "B"
        assert not isPublicKey(key[:place] + letter + key[place + 1 :], USER)
