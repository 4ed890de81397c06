"""
Messages that nats-streaming-server encrypted: C{RECORDS} were written by 0.25.6 with the key
C{sample-key} in channel C{vault}.
"""

from __future__ import annotations

import pytest

from natsbroker.streaming.filestore.encryption import Decrypter, DecryptionError, looksEncrypted

RECORDS: dict[int, tuple[bytes, bytes]] = {
    1: (
        bytes.fromhex("01bb3abf2a0000000000000001d1b03dcdab04bb43d07d22f7c134fcb94e7304f95f8e1a28"),
        b"secret 1",
    ),
    6: (
        bytes.fromhex("02e728049a00000000000000061c06abf240533ccc2ab8b0eaa758cc892b2de540f2ecf34e"),
        b"secret 6",
    ),
}


@pytest.mark.parametrize("sequence", RECORDS)
def test_decrypts(sequence: int) -> None:
    """Both ciphers give the plain text."""
    data, plain = RECORDS[sequence]
    assert looksEncrypted(data, sequence)
    assert Decrypter("sample-key", "vault").decrypt(data) == plain


@pytest.mark.parametrize(("key", "channel"), [("other", "vault"), ("sample-key", "other")])
def test_otherKey(key: str, channel: str) -> None:
    """With another key, or for another channel, nothing comes out."""
    with pytest.raises(DecryptionError, match="cannot be decrypted"):
        Decrypter(key, channel).decrypt(RECORDS[1][0])


def test_plainText() -> None:
    """Data that is too short, of another code, or counts beyond its sequence is plain text."""
    data = RECORDS[1][0]
    assert not looksEncrypted(data[:29], 1)
    assert not looksEncrypted(b"\x03" + data[1:], 1)
    assert not looksEncrypted(data[:5] + (2).to_bytes(8, "big") + data[13:], 1)
    assert not looksEncrypted(data, 0)
