"""
Data directories of nats-streaming-server.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from natsbroker.streaming.filestore.directory import (
    Decrypter,
    DecryptionError,
    SourceDirectory,
    looksEncrypted,
)
from natsbroker.streaming.filestore.framing import POLYNOMIALS, Report, SourceError, checksumFor
from tests.streaming.filestore.writer import StoreWriter, append, cut, flip

OTHER = 0x82608EDB


@pytest.fixture
def writer(tmp_path: Path) -> StoreWriter:
    """A directory without channels."""
    return StoreWriter(tmp_path / "store")


def opened(writer: StoreWriter, polynomial: int = 0, key: str = "") -> SourceDirectory:
    """The directory, opened."""
    return SourceDirectory(writer.root, Report(), polynomial, key)


def test_recognised(tmp_path: Path) -> None:
    """The name of the cluster, and whether the server is clustered, are read from server.dat."""
    one = opened(StoreWriter(tmp_path / "a", "orders"))
    two = opened(StoreWriter(tmp_path / "b", nodeID="n1"))
    assert (one.clusterID, one.isClustered) == ("orders", False)
    assert (two.clusterID, two.isClustered) == ("test-cluster", True)


def test_channelNames(writer: StoreWriter) -> None:
    """
    Each directory with files of a channel is a channel, whatever its name; other directories are
    reported.
    """
    names = ["a.b.c", "msgs.1.dat", "subs.dat", "with space", "канал"]
    for name in names:
        writer.channel(name).messages(1, 1)
    (writer.root / "lost+found").mkdir()
    (writer.root / "subs123").write_bytes(b"left over by a compaction")
    report = Report()
    assert [channel.name for channel in SourceDirectory(writer.root, report).channels()] == sorted(
        names
    )
    assert report.notes == ["lost+found holds no channel: passed over"]


@pytest.mark.parametrize("polynomial", POLYNOMIALS)
def test_knownPolynomials(tmp_path: Path, polynomial: int) -> None:
    """The usual polynomials of checksums are recognized from server.dat."""
    writer = StoreWriter(tmp_path / "store", checksum=checksumFor(polynomial))
    writer.channel("a").messages(1, 2)
    (channel,) = opened(writer).channels()
    assert [message.sequence for message in channel.messages(Report())] == [1, 2]


def test_otherPolynomial(tmp_path: Path) -> None:
    """An unusual polynomial of checksums must be named."""
    writer = StoreWriter(tmp_path / "store", checksum=checksumFor(OTHER))
    with pytest.raises(SourceError, match="another --file_crc_poly"):
        opened(writer)
    assert opened(writer, OTHER).clusterID == "test-cluster"


def test_serverDamaged(writer: StoreWriter) -> None:
    """A server.dat that is damaged, longer or shorter is refused."""
    path = writer.root / "server.dat"
    append(path, b"x")
    with pytest.raises(SourceError, match=r"server.dat is not that of nats-streaming-server"):
        opened(writer)
    cut(path, 2)
    with pytest.raises(SourceError, match=r"server.dat is not that of nats-streaming-server"):
        opened(writer)
    append(path, b"s")
    flip(path, 14)
    with pytest.raises(SourceError, match=r"server.dat does not match its checksum"):
        opened(writer)


def test_serverMissing(writer: StoreWriter) -> None:
    """Without server.dat the channels are still read, as the server does."""
    writer.channel("a").messages(1, 2)
    (writer.root / "server.dat").unlink()
    report = Report()
    source = SourceDirectory(writer.root, report)
    assert (source.clusterID, [channel.name for channel in source.channels()]) == ("", ["a"])
    assert report.notes == ["server.dat is missing: the cluster id is taken from the settings"]


def test_otherDirectory(tmp_path: Path) -> None:
    """A missing directory and a directory of another program are refused."""
    with pytest.raises(SourceError, match="is not a data directory of nats-streaming-server"):
        SourceDirectory(tmp_path, Report())
    with pytest.raises(SourceError, match="is not a directory"):
        SourceDirectory(tmp_path / "none", Report())


_HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_locked(writer: StoreWriter) -> None:
    """While a server in fault tolerance mode has the lock, nothing is read."""
    lock = writer.root / ".rootdir.lck"
    lock.touch()
    opened(writer).close()
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(SourceError, match="stop nats-streaming-server first"):
            opened(writer)
        holder.communicate()


_TAKER = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(3)
"""


def test_keepsServersOut(writer: StoreWriter) -> None:
    """While the directory is read, no server can take the lock."""
    lock = writer.root / ".rootdir.lck"
    lock.touch()
    source = opened(writer)
    taker = [sys.executable, "-c", _TAKER, str(lock)]
    assert subprocess.run(taker, check=False).returncode == 3
    source.close()
    assert subprocess.run(taker, check=False).returncode == 0


def test_changed(writer: StoreWriter) -> None:
    """A file that grows or is new shows that a server is running."""
    channel = writer.channel("a")
    channel.messages(1, 1)
    source = opened(writer)
    source.checkUnchanged()
    channel.messages(2, 2)
    with pytest.raises(SourceError, match=r"msgs.1.dat changed while it was read: stop"):
        source.checkUnchanged()


def test_encrypted(writer: StoreWriter) -> None:
    """
    Encrypted messages need the key; with a wrong key they are reported as damaged, and not
    returned.
    """
    data = "01bb3abf2a0000000000000001d1b03dcdab04bb43d07d22f7c134fcb94e7304f95f8e1a28"
    vault = writer.channel("vault")
    vault.message(1, bytes.fromhex(data))
    vault.message(2, b"plain from before")
    (channel,) = opened(writer).channels()
    with pytest.raises(SourceError, match="vault: its messages are encrypted"):
        list(channel.messages(Report()))
    (channel,) = opened(writer, key="sample-key").channels()
    payloads = [message.data for message in channel.messages(Report())]
    assert payloads == [b"secret 1", b"plain from before"]
    report = Report()
    (channel,) = opened(writer, key="other").channels()
    assert [message.sequence for message in channel.messages(report)] == [2]
    assert report.damaged == ["vault: message 1 is damaged (it cannot be decrypted with this key)"]


def test_damagedState(writer: StoreWriter) -> None:
    """A damaged subs.dat or clients.dat is reported, and nothing is read from it."""
    writer.client("c")
    channel = writer.channel("a")
    channel.subscription(1, clientID="c", durableName="d")
    flip(writer.root / "clients.dat", 14)
    flip(channel.path("subs.dat"), 14)
    source, report = opened(writer), Report()
    (listed,) = source.channels()
    assert (source.clients(report), listed.subscriptions(report)) == ({}, [])
    assert report.damaged == [
        "clients.dat: the record at 4 does not match its checksum: "
        "all clients count as disconnected",
        "a/subs.dat: the record at 4 does not match its checksum: "
        "no subscription of the channel is read",
    ]


def test_stateMissing(writer: StoreWriter) -> None:
    """Missing files of clients and subscriptions count as empty, as for the server."""
    channel = writer.channel("a")
    channel.messages(1, 1)
    channel.path("subs.dat").unlink()
    (writer.root / "clients.dat").unlink()
    source, report = opened(writer), Report()
    (listed,) = source.channels()
    assert (source.clients(report), listed.subscriptions(report), report.damaged) == ({}, [], [])


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
    """Both ciphers are decrypted to the plain text."""
    data, plain = RECORDS[sequence]
    assert looksEncrypted(data, sequence)
    assert Decrypter("sample-key", "vault").decrypt(data) == plain


@pytest.mark.parametrize(("key", "channel"), [("other", "vault"), ("sample-key", "other")])
def test_otherKey(key: str, channel: str) -> None:
    """With another key, or for another channel, nothing is decrypted."""
    with pytest.raises(DecryptionError, match="cannot be decrypted"):
        Decrypter(key, channel).decrypt(RECORDS[1][0])


def test_plainText() -> None:
    """
    Data that is too short, has another cipher's code, or has a counter beyond its sequence is plain
    text.
    """
    data = RECORDS[1][0]
    assert not looksEncrypted(data[:29], 1)
    assert not looksEncrypted(b"\x03" + data[1:], 1)
    assert not looksEncrypted(data[:5] + (2).to_bytes(8, "big") + data[13:], 1)
    assert not looksEncrypted(data, 0)
