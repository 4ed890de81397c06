"""
The form in which the database and the journal keep values: plain or encrypted.

The layers above see plain records, subjects and values. Checksums are over the stored bytes
(docs/reference/store-format.md), so that damage is found without a key.
"""

from __future__ import annotations

from collections.abc import Sequence

from natsbroker.storage.blocks import Contents, build
from natsbroker.storage.envelopes import (
    SEALED,
    VERSION,
    Envelope,
    unwrap,
    unwrapEither,
    wrap,
    wrapTwice,
)
from natsbroker.storage.lmdb.layout import (
    FORMAT_VERSION,
    Tally,
    isTwice,
    spaceAndKey,
    stateKey,
    subjectOrder,
    tallyKey,
)
from natsbroker.storage.records import Damaged


class PlainCodec:
    """
    Stores everything as it is.

    @ivar isSealed: whether stored values are encrypted.
    @ivar overhead: the bytes by which a record is longer when it is stored.
    """

    isSealed = False
    overhead = 0
    formatVersion = FORMAT_VERSION

    # Keys

    def tallyKey(self, identity: int, subject: bytes) -> bytes:
        return tallyKey(identity, subject)

    def stateKey(self, space: str, key: bytes) -> bytes:
        return stateKey(space, key)

    def order(self, subject: bytes) -> bytes:
        return subjectOrder(subject)

    def nameIn(self, key: bytes) -> tuple[str, bytes]:
        """The space of a value of state, and its key in it: empty if that cannot be known."""
        return spaceAndKey(key)

    # Values

    def fold(self, mark: bytes, generation: int, key: bytes, value: bytes) -> bytes:
        """The stored form of a value other than a block, under its key in the database."""
        version, stored = self._close(key, generation, value)
        into = wrapTwice if isTwice(key) else wrap
        return into(mark, key[:1], generation, key, stored, version)

    def foldState(
        self, mark: bytes, generation: int, space: str, key: bytes, value: bytes
    ) -> tuple[bytes, bytes]:
        """The key under which a value of state is stored, and its stored form."""
        stored = self.stateKey(space, key)
        return stored, self.fold(mark, generation, stored, self._keyed(key, value))

    def unfold(self, raw: bytes, key: bytes) -> bytes:
        """The value in bytes that are stored under a key. L{Damaged} if it is not whole."""
        return self.open(unwrapEither(raw, key)[0] if isTwice(key) else unwrap(raw, key))

    def open(self, envelope: Envelope) -> bytes:
        """Decrypt a value. L{Damaged} if it cannot be decrypted."""
        if envelope.version == SEALED:
            raise Damaged("a value is encrypted")
        return envelope.value

    def state(self, envelope: Envelope) -> tuple[bytes, bytes]:
        """The key of a value of state in its space, and the value. It may raise L{Damaged}."""
        return spaceAndKey(envelope.key)[1], self.open(envelope)

    def tally(self, key: bytes, raw: bytes) -> Tally | None:
        """A tally. C{None} if it is not whole."""
        try:
            return Tally.unpack(self.open(unwrap(raw, key)))
        except Damaged:
            return None

    def _close(self, key: bytes, generation: int, value: bytes) -> tuple[int, bytes]:
        return VERSION, value

    def _keyed(self, key: bytes, value: bytes) -> bytes:
        """The value of a key that the database's key does not show."""
        return value

    # Records

    def closeRecords(self, blobs: Sequence[bytes]) -> Sequence[bytes]:
        return blobs

    def openRecord(self, blob: bytes) -> bytes:
        """A plain record. L{Damaged} if it is encrypted and not whole."""
        return blob

    def openBlock(self, raw: bytes, identity: int) -> bytes:
        """The block with plain records. Records that are not whole stay so."""
        return raw

    def closeBlock(self, raw: bytes, identity: int) -> bytes:
        """The block with encrypted records, the reverse of L{openBlock}."""
        return raw

    def block(self, mark: bytes, identity: int, generation: int, contents: Contents) -> bytes:
        return build(mark, identity, generation, contents)


PLAIN = PlainCodec()
