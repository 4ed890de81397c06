"""
What one other cluster is told of the interest that this one has in an account.

It is told of every queue group. Of plain interest it is told everything, from the beginning or from
some moment on; or, as long as it is not, only what makes no sense to send, when it has sent it, and
that this has changed.

Promises: whoever is told everything can rely on it from the end of the list on; nobody who was told
that something is not wanted is left to believe it when somebody wants it; what is remembered of
that is bounded: what was forgotten is said once more.
Must never know: connections, or when somebody is told everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zope.interface import implementer

from natsbroker.interfaces import IInterestWatcher, IMessageBus
from natsbroker.subjects.audience import Audience
from natsbroker.subjects.grammar import hasWildcard, matches
from natsbroker.wire.dialects.gateway import accountLine, commandLine, interestLine, lostLine
from natsbroker.wire.serverinfo import GatewayCommand
from natsbroker.wire.values import Kind

__all__ = ["CLUSTER", "Telling"]

#: What other clusters are told of: what this one serves, at any of its members.
CLUSTER = Audience({Kind.CLIENT, Kind.INTERNAL, Kind.ROUTE, Kind.SPOKE})

#: So many refusals are remembered.
_MOST_REFUSED = 100_000


@implementer(IInterestWatcher)
class Telling:
    """
    @ivar isAll: whether everything is told.
    @ivar refused: the subjects that were said to be unwanted.
    @ivar isRefused: whether the whole account was.
    @ivar switched: when everything began to be told, in seconds since the epoch; 0.0 for never.
    """

    def __init__(
        self,
        account: bytes,
        ourName: str,
        say: Callable[[bytes], None],
        isRefused: bool = False,
        mostRefused: int = _MOST_REFUSED,
    ) -> None:
        """
        @param ourName: what our gateway is called.
        @param say: sends a line.
        @param isRefused: whether the account was refused before it was known.
        """
        self.isAll = False
        self.refused: dict[bytes, None] = {}
        self.isRefused = isRefused
        self.switched = 0.0
        self._account = account
        self._ourName = ourName
        self._say = say
        self._mostRefused = mostRefused
        self._plain: dict[bytes, None] = {}
        self._groups: set[tuple[bytes, bytes]] = set()
        self._stop: Callable[[], None] | None = None

    def begin(self, bus: IMessageBus) -> None:
        """
        Tell of the queue groups that there are, and of what changes.
        """
        self._stop = bus.watchInterest(self, CLUSTER)

    def end(self) -> None:
        """
        Tell nothing more.
        """
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def tellAll(self, now: float) -> None:
        """
        Tell everything, from now on.

        @param now: seconds since the epoch.
        """
        if self.isAll:
            return
        self.isAll = True
        self.isRefused = False
        self.refused = {}
        self.switched = now
        account, ours = self._account, self._ourName
        self._say(commandLine(ours, GatewayCommand.ALL_SUBS_START, account))
        for pattern in self._plain:
            self._say(interestLine(account, pattern, b"", 0))
        self._say(commandLine(ours, GatewayCommand.ALL_SUBS_COMPLETE, account))

    def refuse(self, subject: bytes, switches: Callable[[int], bool], now: float) -> bool:
        """
        Something came that no plain subscription wants: say so, unless that was said before.

        @param switches: tells, for the number of refusals, whether everything is told instead.
        @param now: seconds since the epoch.
        @return: whether anything was said.
        """
        if self.isAll or subject in self.refused:
            return False
        if not self._plain and not self._groups:
            if self.isRefused:
                return False
            self.isRefused = True
            self._say(accountLine(self._account, False))
        elif switches(len(self.refused)):
            self.tellAll(now)
        else:
            if len(self.refused) >= self._mostRefused:
                del self.refused[next(iter(self.refused))]
            self.refused[subject] = None
            self._say(lostLine(self._account, subject, b""))
        return True

    # What this cluster is subscribed to.

    def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
        """
        See L{IInterestWatcher.interestGained}.
        """
        if self.isRefused:
            self.isRefused = False
            self._say(accountLine(self._account, True))
        if queue:
            self._groups.add((pattern, queue))
            self._say(interestLine(self._account, pattern, queue, 1))
            return
        self._plain[pattern] = None
        if self.isAll or self._readmit(pattern):
            self._say(interestLine(self._account, pattern, b"", 0))

    def _readmit(self, pattern: bytes) -> bool:
        """
        Forget the refusals of what matches a pattern.

        @return: whether there were any.
        """
        refused = self.refused
        if not hasWildcard(pattern):
            return refused.pop(pattern, _MISSING) is not _MISSING
        found = [subject for subject in refused if matches(pattern, subject)]
        for subject in found:
            del refused[subject]
        return bool(found)

    def interestWeightChanged(self, pattern: bytes, queue: bytes, weight: int) -> None:
        """
        See L{IInterestWatcher.interestWeightChanged}. Between clusters all weigh the same.
        """

    def interestLost(self, pattern: bytes, queue: bytes) -> None:
        """
        See L{IInterestWatcher.interestLost}.
        """
        if queue:
            self._groups.discard((pattern, queue))
            self._say(lostLine(self._account, pattern, queue))
            return
        self._plain.pop(pattern, None)
        if self.isAll:
            self._say(lostLine(self._account, pattern, b""))

    def figures(self) -> dict[str, Any]:
        """
        What the other cluster was told, for people; the names are those of
        L{natsbroker.interfaces.IInterestTable.figures}.
        """
        return {
            "mode": "interest-only" if self.isAll else "optimistic",
            "no_interest": len(self.refused),
            "interest": len(self._plain) if self.isAll else 0,
            "queues": len(self._groups),
            "account_wanted": not self.isRefused,
            "switches": int(self.isAll),
            "switched": self.switched,
        }

    def interests(self) -> list[tuple[bytes, bytes]]:
        """
        The patterns and queue groups that the other cluster was told of.
        """
        plain = [(pattern, b"") for pattern in self._plain] if self.isAll else []
        return [*plain, *self._groups]


_MISSING: Any = object()
