"""
A folder with the JWTs of accounts, in the layout of nats-server's C{full} resolver.

The file C{KEY.jwt} is named after the account's public key; only a valid key becomes part of a path
(CVE-2022-28357). A deleted one is renamed to C{KEY.jwt.deleted}, or removed. A file is replaced as
a whole, and is on disk before the change is reported.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.tokens import LONGEST, expiryIn
from natsbroker.files import replaceFile, syncDirectory
from natsbroker.wire.nkeys import Role, decodeKey, isKey

_ENDING = ".jwt"


class Deletion(Enum):
    REFUSED = "refused"
    RENAMED = "renamed"
    REMOVED = "removed"


class FolderError(Exception):
    pass


class TokenFolder:
    """The JWTs of a folder, in memory too; other JWTs may be elsewhere if it C{isCache}."""

    isCache = False

    def __init__(self, path: str, limit: int = 0, deletion: Deletion = Deletion.REFUSED) -> None:
        """
        @param limit: the most accounts; 0 for any number.
        @raise OSError: if it cannot be read or created.
        """
        self._path = Path(path).absolute()
        self._limit = limit
        self.deletion = deletion
        self._tokens: dict[str, str] = {}
        self.read()

    def read(self) -> set[str]:
        """The accounts whose JWT has changed or was deleted."""
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        before: dict[str, str] = self._tokens
        tokens: dict[str, str] = {}
        for file in sorted(self._path.iterdir()):
            account = file.name.removesuffix(_ENDING)
            if file.suffix == _ENDING and isKey(account, Role.ACCOUNT) and file.is_file():
                text = _textIn(file)
                if text:
                    tokens[account] = text
        self._tokens = tokens
        return {
            account
            for account in {**before, **tokens}
            if before.get(account) != tokens.get(account)
        }

    def __contains__(self, account: str) -> bool:
        return account in self._tokens

    def __getitem__(self, account: str) -> str:
        return self._tokens[account]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._tokens))

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def digest(self) -> bytes:
        """The XOR of the hashes of all JWTs, as other servers compute it."""
        total = 0
        for text in list(self._tokens.values()):
            total ^= int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest(), "big")
        return total.to_bytes(32, "big")

    def save(self, account: str, text: str) -> bool:
        if self._tokens.get(account) == text:
            return False
        if account not in self._tokens and 0 < self._limit <= len(self._tokens):
            raise FolderError("jwt store is full")
        file = self._fileOf(account)
        replaceFile(file, lambda draft: _writePrivate(draft, text), isDurable=True)
        self._tokens[account] = text
        return True

    def delete(self, account: str) -> bool:
        if self.deletion is Deletion.REFUSED:
            raise FolderError("delete must be enabled in server config")
        file = self._fileOf(account)
        if account not in self._tokens:
            return False
        # Workers of one server share the folder, and each of them deletes the file.
        with suppress(FileNotFoundError):
            if self.deletion is Deletion.RENAMED:
                os.replace(file, file.with_name(file.name + ".deleted"))
            else:
                os.remove(file)
        # Other workers that have deleted the JWT must not find it here while the disk is slow.
        del self._tokens[account]
        syncDirectory(self._path)
        return True

    def _fileOf(self, account: str) -> Path:
        decodeKey(account, Role.ACCOUNT)
        return self._path / (account + _ENDING)


def _writePrivate(draft: Path, text: str) -> None:
    draft.touch(0o600)
    draft.write_text(text, "utf-8")


def _textIn(file: Path) -> str:
    """The text of a file; empty if it is not ASCII, or too long for a JWT."""
    with file.open("rb") as opened:
        data = opened.read(LONGEST + 1)
    try:
        return data.decode("ascii").strip() if len(data) <= LONGEST else ""
    except UnicodeDecodeError:
        return ""


#: The most JWTs that are kept unless the settings have another number (nats-server's default).
LIMIT = 1000


class CachedFolder(TokenFolder):
    isCache = True

    def __init__(self, path: str, limit: int, ttl: float, now: Callable[[], float]) -> None:
        """
        @param limit: the most accounts; 0 for the default.
        @param ttl: seconds until an unused JWT is removed; 0 for until it expires.
        """
        self._most = limit or LIMIT
        self._ttl = ttl
        self._now = now
        self._used: dict[str, float] = {}
        super().__init__(path, 0, Deletion.REMOVED)

    def read(self) -> set[str]:
        changed = super().read()
        now = self._now()
        self._used = {account: self._used.get(account, now) for account in self}
        return changed

    def __getitem__(self, account: str) -> str:
        text = super().__getitem__(account)
        self._touch(account)
        return text

    def save(self, account: str, text: str) -> bool:
        while account not in self and len(self) >= self._most:
            self.delete(next(iter(list(self._used))))
        isAnother = super().save(account, text)
        self._touch(account)
        return isAnother

    def delete(self, account: str) -> bool:
        self._used.pop(account, None)
        return super().delete(account)

    def expire(self) -> None:
        now = self._now()
        for account, used in list(self._used.items()):
            if self._isOver(account, used, now):
                self.delete(account)

    def _isOver(self, account: str, used: float, now: float) -> bool:
        if self._ttl:
            return used + self._ttl <= now
        try:
            return 0 < expiryIn(super().__getitem__(account)) <= now
        except FieldError:
            return True

    def _touch(self, account: str) -> None:
        self._used.pop(account, None)
        self._used[account] = self._now()
