"""
A folder with the JWTs of some accounts: those that were asked for.

As L{TokenFolder}; when it is full, the JWT that was not asked for longest makes room;
what was not asked for in a given time, or has expired, is removed.
"""

from __future__ import annotations

from collections.abc import Callable

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.folders import Deletion, TokenFolder
from natsbroker.auth.operator.tokens import expiryIn

__all__ = ["LIMIT", "CachedFolder"]

#: How many JWTs are kept unless the settings say another number (nats-server's).
LIMIT = 1000


class CachedFolder(TokenFolder):
    """
    The JWTs of a folder that need not be there.
    """

    isCache = True

    def __init__(self, path: str, limit: int, ttl: float, now: Callable[[], float]) -> None:
        """
        @param limit: how many accounts it may hold; 0 for the default.
        @param ttl: for how many seconds a JWT is kept that nobody asks for; 0 for until it expires.
        @param now: tells the time, in seconds since the epoch.
        @raise OSError: if the folder cannot be read or made.
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
        """
        Remove what is not kept any longer.

        @raise OSError: if the disk does not do it.
        """
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
        """
        Note that somebody asked for an account. Whoever was asked for longest ago stands first.
        """
        self._used.pop(account, None)
        self._used[account] = self._now()
