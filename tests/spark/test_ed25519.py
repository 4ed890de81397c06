"""
Signatures: RFC 8032's own vectors, and libsodium's.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from nacl.signing import SigningKey

from natsbroker.spark.ed25519 import publicKey, sign

#: Section 7.1 of RFC 8032: seed, public key, message, signature.
VECTORS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
        "4a7c15e9716ed28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("seed", "public", "message", "signature"), VECTORS)
def test_vectors(seed: str, public: str, message: str, signature: str) -> None:
    """Keys and signatures are those of the standard."""
    assert publicKey(bytes.fromhex(seed)).hex() == public
    assert sign(bytes.fromhex(seed), bytes.fromhex(message)).hex() == signature


@settings(max_examples=15)
@given(some.binary(min_size=32, max_size=32), some.binary(max_size=64))
def test_likeLibsodium(seed: bytes, data: bytes) -> None:
    """Any key signs any bytes as libsodium does."""
    key = SigningKey(seed)
    assert publicKey(seed) == bytes(key.verify_key)
    assert sign(seed, data) == key.sign(data).signature


def test_wrongSeed() -> None:
    """A seed of another length is refused."""
    with pytest.raises(ValueError, match="32 bytes"):
        sign(b"short", b"")
