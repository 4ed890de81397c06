"""
Tests of L{natsbroker.auth.nkeys}, with keys of the nkeys library and of its Go original.
"""

from __future__ import annotations

import base64
import os

import nkeys  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.nkeys import Signer, decodeRaw, decodeSignature, encodeRaw, isSignature
from natsbroker.wire.nkeys import NkeyError, Role, decodeKey, encodeKey, isKey
from tests.auth.keyvalues import ORDER


class TestRaw:
    """Base64 with the alphabet for URLs, without padding."""

    @given(st.binary())
    def test_readsWhatItWrites(self, data: bytes) -> None:
        """Any bytes that were encoded are decoded again."""
        assert decodeRaw(encodeRaw(data)) == data

    @given(st.text())
    def test_onlyOneText(self, text: str) -> None:
        """Only the canonical text of some bytes is accepted."""
        try:
            data = decodeRaw(text)
        except ValueError:
            return
        assert encodeRaw(data) == text

    @pytest.mark.parametrize(
        "text",
        ["YQ==", "Y Q", "YQ\n", "\nYQ", "YR", "Y", "YWI=", "_/8", "é", "Y\0Q", "YQ=", "=", "*"],
    )
    def test_variantsAreRefused(self, text: str) -> None:
        """Padding, blanks, line ends, stray bits and foreign letters are refused."""
        with pytest.raises(ValueError):
            decodeRaw(text)


class TestSignature:
    """The two forms in which a signature may be written."""

    @given(st.binary(min_size=1))
    def test_bothWays(self, data: bytes) -> None:
        """A signature may be written as base64 for URLs or as padded standard base64."""
        assert decodeSignature(encodeRaw(data)) == data
        assert decodeSignature(base64.b64encode(data).decode()) == data

    @pytest.mark.parametrize("text", ["-/8=", "_w==", "/w", "/x==", " /w==", "/w==\n", "a", "é"])
    def test_mixturesAreRefused(self, text: str) -> None:
        """A signature must have exactly one of the two forms, not a mixture."""
        with pytest.raises(ValueError):
            decodeSignature(text)


#: Public keys of the seed C{3, 3, 3...}, made by the Go library.
KNOWN = {
    Role.OPERATOR: "ODWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435DILF",
    Role.ACCOUNT: "ADWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435D6HD",
    Role.USER: "UDWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435C2U4",
    Role.SERVER: "NDWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435CDIX",
    Role.CLUSTER: "CDWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435CMF7",
}

#: The Go library's signature of C{nonce} with that seed.
SIGNATURE = "03xf3dMtq2FqVNVhT2KYCIS5ybRiposh4TUKfZ5dpxN9hy4-ouLlgIdW-rsKuQf7nJLZRxffL-MIBgFVVAVuCg"


#: Points of small order, in their canonical encodings.
SMALL = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
]


class TestKeys:
    """The text of public keys."""

    @pytest.mark.parametrize("role", KNOWN)
    def test_knownAnswers(self, role: Role) -> None:
        """Keys have the same text as in the Go library."""
        assert Signer(role, b"\3" * 32).publicKey == KNOWN[role]
        assert encodeKey(role, decodeKey(KNOWN[role], role)) == KNOWN[role]

    def test_libraryKeys(self) -> None:
        """Keys made by the Python library are valid."""
        seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
        pair = nkeys.from_seed(seed)
        text = pair.public_key.decode()
        assert decodeKey(text, Role.USER) == bytes(pair._keys.verify_key)

    @pytest.mark.parametrize("role", KNOWN)
    def test_otherRolesAreRefused(self, role: Role) -> None:
        """A key of one role is refused as a key of another role, although its checksum is right."""
        for other in Role:
            assert isKey(KNOWN[role], other) == (other is role)

    @pytest.mark.parametrize("length", range(65))
    def test_lengths(self, length: int) -> None:
        """Keys that are not of 32 bytes are refused, although their checksums are right."""
        assert isKey(encodeKey(Role.USER, bytes(length)).rstrip("="), Role.USER) == (length == 32)

    def test_damageIsNoticed(self) -> None:
        """A key with one changed letter is refused."""
        text = KNOWN[Role.USER]
        for place in range(len(text)):
            letter = "A" if text[place] != "A" else "B"
            with pytest.raises(NkeyError):
                decodeKey(text[:place] + letter + text[place + 1 :], Role.USER)

    def test_seedIsRefused(self) -> None:
        """A seed that is sent by mistake is refused, and does not appear in the error."""
        seed = nkeys.encode_seed(b"\3" * 32, nkeys.PREFIX_BYTE_USER).decode()
        with pytest.raises(NkeyError) as caught:
            decodeKey(seed, Role.USER)
        assert seed not in str(caught.value)

    @pytest.mark.parametrize("change", [str.lower, lambda text: text[:-1] + "=", lambda text: "é"])
    def test_otherTextsAreRefused(self, change: object) -> None:
        """Lower case, padding and foreign letters are refused."""
        assert callable(change)
        assert not isKey(change(KNOWN[Role.USER]), Role.USER)

    @given(st.text(), st.sampled_from(Role))
    def test_anyText(self, text: str, role: Role) -> None:
        """Any text is checked without an exception."""
        isKey(text, role)
        isKey((text * 56)[:56], role)


class TestSignatures:
    """Signatures."""

    def test_knownAnswer(self) -> None:
        """Signatures are the same as those of the Go library, and are valid."""
        signer = Signer(Role.USER, b"\3" * 32)
        signature = signer.sign(b"nonce")
        assert base64.urlsafe_b64encode(signature).decode() == SIGNATURE + "=="
        assert isSignature(signature, b"nonce", decodeKey(signer.publicKey, Role.USER))

    def test_otherDataOrKey(self) -> None:
        """A signature is not valid for other data or another key."""
        signer, other = Signer(Role.USER), Signer(Role.USER)
        signature = signer.sign(b"nonce")
        assert not isSignature(signature, b"nonces", decodeKey(signer.publicKey, Role.USER))
        assert not isSignature(signature, b"nonce", decodeKey(other.publicKey, Role.USER))

    @pytest.mark.parametrize("length", [*range(0, 40), 63, 65, 128])
    def test_lengths(self, length: int) -> None:
        """Signatures and keys of other lengths are invalid, without an exception."""
        signer = Signer(Role.USER)
        key = decodeKey(signer.publicKey, Role.USER)
        signature = signer.sign(b"nonce")
        if length != 64:
            assert not isSignature((signature * 2)[:length], b"nonce", key)
        if length != 32:
            assert not isSignature(signature, b"nonce", (key * 4)[:length])

    def test_malleable(self) -> None:
        """A signature whose second half was changed to an equivalent one is invalid."""
        signer = Signer(Role.USER)
        signature = signer.sign(b"nonce")
        scalar = int.from_bytes(signature[32:], "little") + ORDER
        changed = signature[:32] + scalar.to_bytes(32, "little")
        assert not isSignature(changed, b"nonce", decodeKey(signer.publicKey, Role.USER))

    @pytest.mark.parametrize("key", SMALL)
    def test_smallOrder(self, key: str) -> None:
        """Signatures with a key of small order are refused: anyone could forge them."""
        for point in SMALL:
            forged = bytes.fromhex(point) + bytes(32)
            assert not isSignature(forged, b"nonce", bytes.fromhex(key))

    def test_reprHidesTheSecret(self) -> None:
        """The repr of a signer shows the public key only."""
        assert repr(Signer(Role.SERVER, b"\3" * 32)) == f"<Signer {KNOWN[Role.SERVER]}>"
