"""
Writes data directories as nats-streaming-server does, for tests of reading them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from struct import pack
from typing import Any

from natsbroker.streaming.filestore import state
from natsbroker.streaming.protocol import MsgProto

VERSION = b"\x01\0\0\0"

#: When the first message was stored, in nanoseconds since 1970, and the time between two.
BEGINNING = 1_700_000_000_000_000_000
STEP = 1_000_000

Checksum = Callable[[bytes], int]


class ChannelWriter:
    """
    A channel of a directory.

    @ivar directory: the channel's.
    """

    def __init__(self, directory: Path, checksum: Checksum) -> None:
        directory.mkdir()
        self.directory = directory
        self._checksum = checksum
        self._name = directory.name
        self._append("subs.dat", b"")

    def message(
        self,
        sequence: int,
        data: bytes = b"",
        reply: str = "",
        part: int = 1,
        timestamp: int = 0,
        isIndexed: bool = True,
    ) -> int:
        """
        Append a message to the slice C{part}.

        @return: the offset of its record.
        """
        payload = MsgProto(
            sequence=sequence,
            subject=self._name,
            reply=reply,
            data=data,
            timestamp=timestamp or BEGINNING + sequence * STEP,
        ).SerializeToString()
        record = pack("<II", len(payload), self._checksum(payload)) + payload
        offset = self._append(f"msgs.{part}.dat", record)
        timestamp = timestamp or BEGINNING + sequence * STEP
        entry = pack("<QQqI", sequence, offset, timestamp, len(payload))
        if isIndexed:
            self._append(f"msgs.{part}.idx", entry + pack("<I", self._checksum(entry)))
        return offset

    def messages(self, first: int, last: int, part: int = 1) -> None:
        """Append messages whose data is their sequence."""
        for sequence in range(first, last + 1):
            self.message(sequence, b"%d" % sequence, part=part)

    def subscription(self, number: int, kind: int = 1, **fields: Any) -> None:
        """Append a record of a new subscription, or of a changed one (C{kind} 2)."""
        made = state.SubState(id=number, maxInFlight=5, ackWaitInSecs=30, **fields)
        self._typed(kind, made)

    def deleted(self, number: int) -> None:
        """Append that a subscription is gone."""
        self._typed(3, state.SubStateDelete(id=number))

    def acknowledged(self, number: int, *sequences: int) -> None:
        """Append acknowledgements."""
        for sequence in sequences:
            self._typed(4, state.SubStateUpdate(id=number, seqno=sequence))

    def sent(self, number: int, *sequences: int) -> None:
        """Append that messages were sent."""
        for sequence in sequences:
            self._typed(5, state.SubStateUpdate(id=number, seqno=sequence))

    def path(self, name: str) -> Path:
        """A file of the channel."""
        return self.directory / name

    def _typed(self, kind: int, message: Any) -> None:
        self._append("subs.dat", typed(kind, message, self._checksum))

    def _append(self, name: str, data: bytes) -> int:
        return append(self.directory / name, data)


class StoreWriter:
    """
    A directory.

    @ivar root: where it is.
    """

    def __init__(
        self,
        root: Path,
        clusterID: str = "test-cluster",
        nodeID: str = "",
        checksum: Checksum = zlib.crc32,
    ) -> None:
        root.mkdir()
        self.root = root
        self._checksum = checksum
        info = state.ServerInfo(
            clusterID=clusterID, discovery=f"_STAN.discover.{clusterID}", nodeID=nodeID
        ).SerializeToString()
        append(root / "server.dat", pack("<II", len(info), checksum(info)) + info)
        append(root / "clients.dat", b"")

    def client(self, clientID: str, inbox: str = "_INBOX.hb", connID: bytes = b"c") -> None:
        """Append a client."""
        info = state.ClientInfo(id=clientID, hbInbox=inbox, connID=connID, protocol=1)
        append(self.root / "clients.dat", typed(1, info, self._checksum))

    def clientGone(self, clientID: str) -> None:
        """Append that a client is gone."""
        gone = state.ClientDelete(id=clientID)
        append(self.root / "clients.dat", typed(2, gone, self._checksum))

    def channel(self, name: str) -> ChannelWriter:
        """Make a channel."""
        return ChannelWriter(self.root / name, self._checksum)


def typed(kind: int, message: Any, checksum: Checksum = zlib.crc32) -> bytes:
    """A record with a type."""
    payload: bytes = message.SerializeToString()
    return pack("<II", kind << 24 | len(payload), checksum(payload)) + payload


def append(path: Path, data: bytes) -> int:
    """
    Append to a file, which begins with its version.

    @return: the offset of what was appended.
    """
    if not path.exists():
        path.write_bytes(VERSION)
    offset = path.stat().st_size
    with path.open("ab") as file:
        file.write(data)
    return offset


def flip(path: Path, offset: int) -> None:
    """Flip a bit of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def cut(path: Path, count: int) -> None:
    """Cut bytes off the end of a file."""
    path.write_bytes(path.read_bytes()[:-count])
