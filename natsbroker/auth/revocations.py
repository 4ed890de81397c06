"""
Telling whoever asked that grants may no longer hold.

Each registered callable is called once for each announcement, until it is taken out; one
that fails is logged and does not keep the others from being called.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

__all__ = ["Revocations"]

_log = Logger()


class Revocations:
    """
    The part of an authorizer that announces revocations.
    """

    def __init__(self) -> None:
        self._watchers: dict[object, Callable[..., None]] = {}

    def watchRevocations(self, revoked: Callable[..., None]) -> Callable[[], None]:
        key = object()
        self._watchers[key] = revoked

        def stop() -> None:
            self._watchers.pop(key, None)

        return stop

    def revoke(self, account: str | None = None) -> None:
        """
        Announce that grants may no longer hold: every connection is asked for again.

        @param account: the account whose connections are meant; C{None} for all.
        """
        arguments = () if account is None else (account,)
        for revoked in list(self._watchers.values()):
            try:
                revoked(*arguments)
            except BaseException:
                _log.failure("A watcher of revocations failed")
