"""Copying of a database into another form, beside itself."""

from __future__ import annotations

from pathlib import Path

from natsbroker.storage.lmdb.encryption.codec import PlainCodec
from natsbroker.storage.lmdb.environment import Environment
from natsbroker.storage.lmdb.layout import FORMAT_KEY, identityOf, spaceAndKey
from natsbroker.storage.lmdb.salvage import DatabaseBuilder
from natsbroker.storage.records import Damaged


def rewritten(database: Path) -> Path:
    return database.with_name("data.encrypting")


def rewrite(
    environment: Environment, database: Path, mark: bytes, base: int, codec: PlainCodec
) -> None:
    """
    Write a verified database into another one, without damaged values. Damaged records stay
    damaged.

    @param base: higher than all generations of the database.
    @param codec: the form of the new one.
    @raise OSError: if there is no space for it.
    """
    fresh = rewritten(database)
    _remove(fresh)
    builder = DatabaseBuilder(fresh, mark, base, database.stat().st_size, codec)
    try:
        with environment.reading() as txn, txn.cursor() as cursor:
            for key, raw in cursor:
                _copy(environment.codec, key, raw, builder)
    except BaseException:
        builder.close()
        _remove(fresh)
        raise
    builder.close()
    fresh.with_name(fresh.name + "-lock").unlink(missing_ok=True)


def _remove(path: Path) -> None:
    for file in (path, path.with_name(path.name + "-lock")):
        file.unlink(missing_ok=True)


def _copy(codec: PlainCodec, key: bytes, raw: bytes, builder: DatabaseBuilder) -> None:
    kind = key[:1]
    if kind == b"B":
        builder.copyBlock(key, raw)
        return
    if kind == b"T":
        tally = codec.tally(key, raw)
        if tally is not None:
            builder.putTally(identityOf(key), tally)
        return
    try:
        value = codec.unfold(raw, key)
    except Damaged:
        return
    if kind == b"S":
        builder.putState(*spaceAndKey(key), value)
    elif key != FORMAT_KEY:
        builder.put(key, value)
