"""
Stores with an encryption key, which nats-server and natsbroker get in the same way.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interop.jetstream.asking import Asker
from tests.interop.servers import OURS_FAST, REAL, Flavour, Server

STREAM = json.dumps({"name": "S", "subjects": ["s.>"]}).encode()

BOTH = pytest.mark.parametrize("flavour", [REAL, OURS_FAST], ids=lambda flavour: flavour.name)


def started(flavour: Flavour, directory: Path, keys: str = "") -> Server:
    """A server with a store, and possibly with keys."""
    return Server(flavour, directory, f'jetstream {{ store_dir: "$DIR/js"\n {keys} }}').start()


def streamsOf(flavour: Flavour, directory: Path, keys: str = "") -> list[str]:
    """The streams that exist with these keys."""
    server = started(flavour, directory, keys)
    try:
        names: list[str] = Asker(server).ask("STREAM.NAMES")["streams"] or []
        return names
    finally:
        server.stop()


def made(flavour: Flavour, directory: Path) -> None:
    """
    A store without a key, with a stream.
    """
    server = started(flavour, directory)
    try:
        assert "error" not in Asker(server).ask("STREAM.CREATE.S", STREAM)
    finally:
        server.stop()


@BOTH
def test_keys(flavour: Flavour, tmp_path: Path) -> None:
    """A store can get a key and then another one, and no plain text is left."""
    made(flavour, tmp_path)
    for keys in ("key: one", "ek: two, cipher: AES, prev_ek: one"):
        assert streamsOf(flavour, tmp_path, keys) == ["S"]
    files = [path for path in (tmp_path / "js").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"s.>" in path.read_bytes()]


@pytest.mark.parametrize(
    "changes",
    [
        ("key: one", "key: two, prev_key: one", "key: two"),
        ("key: one", "key: one, cipher: aes", "key: one, cipher: aes"),
    ],
)
def test_unusedStream(tmp_path: Path, changes: tuple[str, ...]) -> None:
    """
    A stream that was not used while there were two keys can be read without the former key and its
    cipher. nats-server loses it.
    """
    for flavour, last in ((REAL, []), (OURS_FAST, ["S"])):
        directory = tmp_path / flavour.name
        directory.mkdir()
        made(flavour, directory)
        streams = [streamsOf(flavour, directory, keys) for keys in changes]
        assert streams == [["S"], ["S"], last]


@pytest.mark.parametrize("keys", ["key: two", ""])
def test_wrongKey(tmp_path: Path, keys: str) -> None:
    """
    With a wrong key or without one, nats-server shows no streams, while natsbroker reports an error
    and ends.
    """
    for flavour in (REAL, OURS_FAST):
        directory = tmp_path / flavour.name
        directory.mkdir()
        server = started(flavour, directory, "key: one")
        assert "error" not in Asker(server).ask("STREAM.CREATE.S", STREAM)
        server.stop()
    assert streamsOf(REAL, tmp_path / REAL.name, keys) == []
    with pytest.raises(RuntimeError, match=r"is encrypted, and .*encryption_key"):
        started(OURS_FAST, tmp_path / OURS_FAST.name, keys)
    assert streamsOf(OURS_FAST, tmp_path / OURS_FAST.name, "key: one") == ["S"]
