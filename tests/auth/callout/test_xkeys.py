"""
Tests of L{natsbroker.auth.callout.xkeys}, with vectors of the Go library and of NaCl.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.callout.xkeys import CurveKeys, SealError
from natsbroker.auth.nkeys import Signer
from natsbroker.wire.nkeys import Role, encodeKey

#: The public keys of the seeds C{1, 1, 1...} and C{2, 2, 2...}, and what the Go library seals from
#: the first for the second with a nonce of sevens.
ONE = "XCSOBEUSWZI4E6FZO4WFNH27VG5RHWIGWRVLNDE57HOCWRAJ7CRATSUK"
TWO = "XDHI2OWRZS3DH3D3ODAXQFFFY5XM2AUWQUCQ2NCHIW5ALBYOLB6VSWAL"
SEALED = (
    "786b7631070707070707070707070707070707070707070707070707"
    "a30ba4785b91d2337878b48fb1aa886c49f0a20a984f997b8d8cf7165454"
)

#: The example in "Cryptography in NaCl" (Bernstein, 2009).
NACL = {
    "alice": "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
    "bob": "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
    "nonce": "69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37",
    "plain": (
        "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a"
        "1ac728d45e6c61296cdc3c01233561f41db66cce314adb310e3be8250c46f06dceea3a7fa1348057"
        "e2f6556ad6b1318a024a838f21af1fde048977eb48f59ffd4924ca1c60902e52f0a089bc76897040"
        "e082f937763848645e0705"
    ),
    "box": (
        "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4"
        "476fb8c531a1186ac0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738"
        "b48eeee314a7cc8ab932164548e526ae90224368517acfeabd6bb3732bc0e9da99832b61ca01b6de"
        "56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5"
    ),
}

#: Points that contribute nothing to a shared secret.
WEAK = [bytes(32), b"\1" + bytes(31), bytes.fromhex("ec" + "ff" * 30 + "7f")]


def sevens(count: int) -> bytes:
    """Bytes that are all 7, instead of random ones."""
    return b"\7" * count


class TestKnownAnswers:
    """Known answers from other implementations."""

    def test_publicKeys(self) -> None:
        """Public keys are those of the Go library."""
        assert CurveKeys(b"\1" * 32).publicKey == ONE
        assert CurveKeys(b"\2" * 32).publicKey == TWO

    def test_seal(self) -> None:
        """A sealed text is, byte for byte, that of the Go library."""
        sealed = CurveKeys(b"\1" * 32).seal(b"attack at dawn", TWO, sevens)
        assert sealed.hex() == SEALED

    def test_opensTextOfGoLibrary(self) -> None:
        """A text that the Go library sealed is opened."""
        assert CurveKeys(b"\2" * 32).open(bytes.fromhex(SEALED), ONE) == b"attack at dawn"

    def test_exampleOfNaCl(self) -> None:
        """Sealing has the same result as the example in NaCl's documentation."""
        alice = bytes.fromhex(NACL["alice"])
        recipient = encodeKey(Role.CURVE, bytes.fromhex(NACL["bob"]))
        nonce = bytes.fromhex(NACL["nonce"])
        sealed = CurveKeys(alice).seal(bytes.fromhex(NACL["plain"]), recipient, lambda _: nonce)
        assert sealed == b"xkv1" + nonce + bytes.fromhex(NACL["box"])


class TestSealing:
    """Sealing and opening."""

    @given(st.binary(max_size=200))
    def test_sealAndOpen(self, data: bytes) -> None:
        """The recipient opens a text that was sealed with its key."""
        ours, theirs = CurveKeys(b"\1" * 32), CurveKeys(b"\2" * 32)
        assert theirs.open(ours.seal(data, TWO, os.urandom), ONE) == data

    def test_twoRunsDiffer(self) -> None:
        """Sealing the same bytes twice gives different results."""
        ours = CurveKeys()
        assert ours.seal(b"x", TWO, os.urandom) != ours.seal(b"x", TWO, os.urandom)

    def test_othersCannotOpen(self) -> None:
        """
        A sealed text can be opened neither by another recipient nor with another sender's key.
        """
        sealed = CurveKeys(b"\1" * 32).seal(b"x", TWO, os.urandom)
        with pytest.raises(SealError):
            CurveKeys().open(sealed, ONE)
        with pytest.raises(SealError):
            CurveKeys(b"\2" * 32).open(sealed, CurveKeys().publicKey)

    def test_notWithZeros(self) -> None:
        """A sealed text cannot be opened with keys that are all zeros."""
        sealed = CurveKeys(b"\1" * 32).seal(b"x", TWO, os.urandom)
        with pytest.raises(SealError):
            CurveKeys(bytes(32)).open(sealed, ONE)
        with pytest.raises(SealError):
            CurveKeys(b"\2" * 32).open(sealed, encodeKey(Role.CURVE, bytes(32)))

    @pytest.mark.parametrize("weak", WEAK)
    def test_weakKeysAreRefused(self, weak: bytes) -> None:
        """A key that contributes no secret is refused for sealing and for opening."""
        other = encodeKey(Role.CURVE, weak)
        with pytest.raises(SealError):
            CurveKeys().seal(b"x", other, os.urandom)
        with pytest.raises(SealError):
            CurveKeys().open(bytes.fromhex(SEALED), other)

    @pytest.mark.parametrize("role", [Role.USER, Role.ACCOUNT, Role.SERVER])
    def test_keysOfOtherRoles(self, role: Role) -> None:
        """Keys for signatures are not used for sealing."""
        with pytest.raises(SealError):
            CurveKeys().seal(b"x", Signer(role).publicKey, os.urandom)

    def test_damageIsNoticed(self) -> None:
        """A text that was changed or cut anywhere cannot be opened."""
        keys, sealed = CurveKeys(b"\2" * 32), bytes.fromhex(SEALED)
        for place in range(len(sealed)):
            changed = bytearray(sealed)
            changed[place] ^= 1
            for damaged in (bytes(changed), sealed[:place]):
                with pytest.raises(SealError):
                    keys.open(damaged, ONE)

    @given(st.binary())
    def test_anyBytes(self, data: bytes) -> None:
        """Any bytes that were not sealed are refused."""
        with pytest.raises(SealError):
            CurveKeys(b"\2" * 32).open(b"xkv1" + data, ONE)

    def test_reprHidesTheSecret(self) -> None:
        """The repr of a key pair shows the public key only."""
        assert repr(CurveKeys(b"\1" * 32)) == f"<CurveKeys {ONE}>"
