"""
Directories that belong to another program.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from natsbroker.interfaces.records import UnknownFormat
from natsbroker.storage.foreign import refuseForeign
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.streaming.filestore.writer import StoreWriter


def contents(root: Path) -> dict[str, bytes]:
    """Every file with what is in it."""
    return {str(each): each.read_bytes() for each in root.rglob("*") if each.is_file()}


@pytest.mark.parametrize("isWithServer", [True, False])
@pytest.mark.parametrize("hasMessages", [True, False])
def test_refused_dataDirectory(tmp_path: Path, isWithServer: bool, hasMessages: bool) -> None:
    """
    A data directory of nats-streaming-server is not opened, nor is a file of it changed or added;
    server.dat may be missing, the channels may have no messages.
    """
    writer = StoreWriter(tmp_path / "stan")
    channel = writer.channel("orders")
    if hasMessages:
        channel.messages(1, 3)
    if not isWithServer:
        (writer.root / "server.dat").unlink()
    before = contents(writer.root)
    reactor = PumpedReactor()
    with pytest.raises(UnknownFormat, match="natsbroker streaming import"):
        reactor.wait(openLMDB(reactor, writer.root))
    assert contents(writer.root) == before


def test_otherFiles(tmp_path: Path) -> None:
    """Other directories and files, of the same names also, are no reason."""
    refuseForeign(tmp_path / "none")
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "server.dat").write_text("of another program")
    (tmp_path / "subs.dat").mkdir()
    refuseForeign(tmp_path)


def test_storeInBetween(tmp_path: Path) -> None:
    """A store that stands between such files already, of an older version, is still opened."""
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path))
    reactor.wait(store.close())
    (tmp_path / "server.dat").write_bytes(b"\x01\0\0\0")
    store = reactor.wait(openLMDB(reactor, tmp_path))
    reactor.wait(store.close())
