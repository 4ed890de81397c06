"""The reachability of the database of a JetStream that brokers share."""

from __future__ import annotations

from collections.abc import Callable

from natsbroker.runtime.deadlines import Deadline, Deadlines

QUORUM_LOST = 10.0
"""Seconds after which streams are reported to have no quorum, as long as nats-server waits."""


class StoreReach:
    """Follows the requests that every broker regularly sends to the database."""

    def __init__(self, deadlines: Deadlines, lease: float, lost: Callable[[], object]) -> None:
        """
        @param lease: the seconds after which a request without an answer counts as trouble.
        @param lost: called once when the database has not answered for L{QUORUM_LOST}.
        """
        self._deadlines = deadlines
        self._lease = lease
        self._lost = lost
        self._since: float | None = None
        self._why = ""
        self._timer: Deadline | None = None

    @property
    def trouble(self) -> str:
        """The reason why the database is out of reach; empty while it can be reached."""
        return self._why or ("the database does not answer" if self.isSilent else "")

    @property
    def isSilent(self) -> bool:
        """Whether the database accepts requests but does not answer."""
        if self._why or self._since is None:
            return False
        return self._deadlines.now() - self._since > self._lease

    def asked(self) -> None:
        if self._since is None:
            self._since = self._deadlines.now()
            self._timer = self._deadlines.after(QUORUM_LOST, self._lost)

    def answered(self) -> None:
        self._why = ""
        self._since = None
        self.close()

    def failed(self, why: str) -> None:
        self._why = why

    def close(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
