"""
A data directory of nats-streaming-server. Nothing is written to it. Every directory in it is a
channel, and its name is the channel's.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from natsbroker.streaming.filestore.framing import (
    HEADER,
    POLYNOMIALS,
    VERSION_SIZE,
    Checksum,
    Report,
    SourceError,
    checksumFor,
    checkVersion,
    typedRecords,
)
from natsbroker.streaming.filestore.messages import ChannelMessages, SourceMessage
from natsbroker.streaming.filestore.state import (
    ServerInfo,
    SourceSubscription,
    replayClients,
    replaySubscriptions,
)
from natsbroker.streaming.protocol import Malformed

_SERVER, _CLIENTS, _SUBSCRIPTIONS, _LOCK = "server.dat", "clients.dat", "subs.dat", ".rootdir.lck"


_AES, _CHACHA = 1, 2
_NONCE = slice(1, 13)
_COUNT = slice(5, 13)
_OVERHEAD = 29


class DecryptionError(Exception):
    """The key is wrong, or the data was changed."""


def looksEncrypted(data: bytes, sequence: int) -> bool:
    """Whether the data of a message has the form that the server gives to encrypted data."""
    if len(data) <= _OVERHEAD or data[0] not in (_AES, _CHACHA):
        return False
    return 1 <= int.from_bytes(data[_COUNT], "big") <= sequence


class Decrypter:
    def __init__(self, key: str, channel: str) -> None:
        """C{key} is the server's C{encryption_key}."""
        name = channel.encode("utf-8", "surrogateescape")
        store = sha256(key.encode("utf-8", "surrogateescape")).digest()
        # The zeros are what the server's key derivation appends to instead of overwriting.
        zeros = bytes(len(store) + 1 + len(name))
        self._key = sha256(zeros + store + b"." + name).digest()
        self._ciphers: dict[int, Any] = {}

    def decrypt(self, data: bytes) -> bytes:
        """Decrypt data that L{looksEncrypted}; L{DecryptionError} if it cannot be."""
        from cryptography.exceptions import InvalidTag

        try:
            plain: bytes = self._cipher(data[0]).decrypt(data[_NONCE], data[_NONCE.stop :], None)
        except InvalidTag:
            raise DecryptionError("it cannot be decrypted with this key") from None
        return plain

    def _cipher(self, code: int) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

        cipher = self._ciphers.get(code)
        if cipher is None:
            cipher = self._ciphers[code] = (AESGCM if code == _AES else ChaCha20Poly1305)(self._key)
        return cipher


class SourceChannel:
    def __init__(self, directory: Path, name: str, checksum: Checksum, key: str) -> None:
        self.name = name
        self._directory = directory
        self._checksum = checksum
        self._messages = ChannelMessages(directory, name, checksum)
        self._decrypter = Decrypter(key, name) if key else None

    @property
    def last(self) -> int:
        return self._messages.last

    def messages(self, report: Report, after: int = 0) -> Iterator[SourceMessage]:
        """All messages, or those above a sequence; L{SourceError} if a key for them is missing."""
        for message in self._messages.read(report, after):
            if not looksEncrypted(message.data, message.sequence):
                yield message
                continue
            if self._decrypter is None:
                raise SourceError(
                    f"{self.name}: its messages are encrypted: the server's encryption key is "
                    "needed"
                )
            try:
                yield message._replace(data=self._decrypter.decrypt(message.data))
            except DecryptionError as error:
                report.damage(f"{self.name}: message {message.sequence} is damaged ({error})")

    def subscriptions(self, report: Report) -> list[SourceSubscription]:
        """The subscriptions, those that are offline included; none if their file is damaged."""
        path = self._directory / _SUBSCRIPTIONS
        name = f"{self.name}/{_SUBSCRIPTIONS}"
        if not path.exists():
            return []
        try:
            records = typedRecords(name, path.read_bytes(), self._checksum, report.note)
            return replaySubscriptions(name, records)
        except SourceError as error:
            report.damage(f"{error}: no subscription of the channel is read")
            return []


class SourceDirectory:
    """
    Making it reads C{server.dat} and takes the lock that a server in fault tolerance mode would
    hold.

    @ivar clusterID: of the server that wrote it; empty if C{server.dat} is missing.
    @ivar isClustered: whether it is the store of a clustered server, which keeps its clients and
        subscriptions elsewhere.
    """

    def __init__(self, path: Path, report: Report, polynomial: int = 0, key: str = "") -> None:
        """
        @param polynomial: the server's C{file_crc_poly}; 0 to try the known ones.
        @raise SourceError: if this is no such directory, or a server has it.
        """
        self.path = path
        self.clusterID = ""
        self.isClustered = False
        self._report = report
        self._key = key
        self._lock = -1
        self._checksum = checksumFor(polynomial or POLYNOMIALS[0])
        try:
            self._recognise(polynomial)
            self._takeLock()
            self._sizes = self._sizesNow()
        except OSError as error:
            raise SourceError(f"{error.filename or path}: {error.strerror or error}") from None

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def channels(self) -> list[SourceChannel]:
        channels = []
        for directory in sorted(self._directories()):
            if not any(_isOfChannel(file) for file in os.listdir(directory)):
                self._report.note(f"{directory.name} holds no channel: passed over")
                continue
            try:
                name = os.fsencode(directory.name).decode("utf-8")
            except UnicodeDecodeError:
                raise SourceError(f"{directory.name!r} is not UTF-8") from None
            channels.append(SourceChannel(directory, name, self._checksum, self._key))
        return channels

    def clients(self, report: Report) -> dict[str, Any]:
        """The C{ClientInfo} of each connected client, by its id; none if their file is damaged."""
        path = self.path / _CLIENTS
        if not path.exists():
            return {}
        try:
            records = typedRecords(_CLIENTS, path.read_bytes(), self._checksum, report.note)
            return replayClients(_CLIENTS, records)
        except SourceError as error:
            report.damage(f"{error}: all clients count as disconnected")
            return {}

    def checkUnchanged(self) -> None:
        """Raise L{SourceError} if a file has been added, removed or resized since the beginning."""
        now = self._sizesNow()
        changed = sorted(set(now.items()) ^ set(self._sizes.items()))
        if changed:
            raise SourceError(
                f"{changed[0][0]} changed while it was read: stop nats-streaming-server first"
            )

    def _directories(self) -> Iterator[Path]:
        return (directory for directory in self.path.iterdir() if directory.is_dir())

    def _sizesNow(self) -> dict[str, int]:
        files = [file for file in self.path.iterdir() if file.is_file()]
        for directory in self._directories():
            files += [file for file in directory.iterdir() if file.is_file()]
        return {str(file): file.stat().st_size for file in files}

    def _recognise(self, polynomial: int) -> None:
        if not self.path.is_dir():
            raise SourceError(f"{self.path} is not a directory")
        path = self.path / _SERVER
        if not path.exists():
            if not any((directory / _SUBSCRIPTIONS).exists() for directory in self._directories()):
                raise SourceError(f"{self.path} is not a data directory of nats-streaming-server")
            self._report.note(f"{_SERVER} is missing: the cluster id is taken from the settings")
            return
        data = path.read_bytes()
        checkVersion(_SERVER, data)
        start = VERSION_SIZE + HEADER.size
        size, crc = HEADER.unpack_from(data, VERSION_SIZE) if len(data) >= start else (0, 0)
        payload = data[start:]
        if not size or len(payload) != size:
            raise SourceError(f"{_SERVER} is not that of nats-streaming-server 0.2 to 0.25")
        for candidate in (polynomial,) if polynomial else POLYNOMIALS:
            self._checksum = checksumFor(candidate)
            if self._checksum(payload) == crc:
                break
        else:
            raise SourceError(
                f"{_SERVER} does not match its checksum: it is damaged, or the server had another "
                "--file_crc_poly"
            )
        try:
            info = ServerInfo.FromString(payload)
        except Malformed:
            raise SourceError(f"{_SERVER} cannot be understood") from None
        if not info.clusterID:
            raise SourceError(f"{_SERVER} names no cluster")
        self.clusterID, self.isClustered = info.clusterID, bool(info.nodeID)

    def _takeLock(self) -> None:
        """
        Share the lock of fault tolerance mode, so that no server can begin to write meanwhile.
        """
        path = self.path / _LOCK
        if not path.exists():
            return
        self._lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise SourceError(f"{path} is locked: stop nats-streaming-server first") from None


def _isOfChannel(name: str) -> bool:
    return name == _SUBSCRIPTIONS or (name.startswith("msgs.") and name.endswith(".dat"))
