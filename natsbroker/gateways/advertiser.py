"""
The interest in one account that is sent to another cluster.

Queue groups are always sent. Plain interest is sent as a whole. Before that, unwanted messages are
refused, and a refusal is taken back when its subject is wanted. The memory of refusals is bounded:
a forgotten one is sent again. Long lists are sent in shares of work, with changes in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.account import GatewayBus
from natsbroker.interfaces import IInterestWatcher
from natsbroker.subjects.grammar import hasWildcard, matches
from natsbroker.subjects.interestfilter import InterestFilter
from natsbroker.wire.dialects.gateway import accountLine, commandLine
from natsbroker.wire.dialects.route import interestLine, lostLine
from natsbroker.wire.serverinfo import GatewayCommand
from natsbroker.wire.values import Kind

#: The interest that other clusters receive: that of our cluster, at any of its members.
CLUSTER = InterestFilter({Kind.CLIENT, Kind.INTERNAL, Kind.ROUTE, Kind.SPOKE})

#: The number of refusals that are remembered.
_MOST_REFUSED = 100_000

#: The work of advertising a subscription, and of comparing a refusal with a pattern.
_TELL = 24
_COMPARE = 4

#: The binary logarithm of how many patterns are copied in a unit of work.
_COPY = 2


@implementer(IInterestWatcher)
@dataclass(eq=False)
class GatewayAdvertiser:
    """
    @ivar batch: its shares of work limit the amount that is sent at once.
    @ivar isAll: all interest is sent, or about to be.
    @ivar isRefused: the whole account was refused.
    @ivar switched: when all interest began to be sent, in seconds since the epoch; 0.0 for never.
    @ivar _isListed: whether all interest of the beginning is known.
    @ivar _untold: the interest that must be sent after ALL_SUBS_START; C{None} before that, and
        from ALL_SUBS_COMPLETE on.
    """

    account: bytes
    ourName: str
    say: Callable[[bytes], None]
    batch: hot.FlushBatch
    isRefused: bool = False
    mostRefused: int = _MOST_REFUSED
    isAll: bool = field(default=False, init=False)
    refused: dict[bytes, None] = field(default_factory=dict, init=False)
    switched: float = field(default=0.0, init=False)
    _plain: dict[bytes, None] = field(default_factory=dict, init=False)
    _groups: set[tuple[bytes, bytes]] = field(default_factory=set, init=False)
    _isListed: bool = field(default=False, init=False)
    _untold: dict[bytes, None] | None = field(default=None, init=False)
    _stop: Callable[[], None] | None = field(default=None, init=False)
    _bus: GatewayBus = field(init=False)

    def begin(self, bus: GatewayBus) -> None:
        self._bus = bus
        self._stop = bus.watchInterest(self, CLUSTER, True, self._listed)

    def end(self) -> None:
        self._untold = None
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def sendAll(self, now: float) -> None:
        if self.isAll:
            return
        self.isAll = True
        self.isRefused = False
        self.refused = {}
        self.switched = now
        self.say(commandLine(self.ourName, GatewayCommand.ALL_SUBS_START, self.account))
        self._untold = self._plain.copy()
        self.batch.work += len(self._untold) >> _COPY
        self.batch.backlog.exhaust(self._sendRest())

    def _sendRest(self) -> Iterator[None]:
        untold = self._untold
        while untold and untold is self._untold:
            pattern, _ = untold.popitem()
            self.say(interestLine(self.account, pattern, b"", 0))
            self.batch.work += _TELL
            yield
        self._complete()

    def _listed(self) -> None:
        self._isListed = True
        self._complete()

    def _complete(self) -> None:
        if self._isListed and self._untold is not None and not self._untold:
            self._untold = None
            line = commandLine(self.ourName, GatewayCommand.ALL_SUBS_COMPLETE, self.account)
            self.say(line)

    def sendNoInterest(self, subject: bytes, switches: Callable[[int], bool], now: float) -> bool:
        """
        Refuse a subject that no plain subscription wants; false if it was refused before.

        @param switches: decides by the number of refusals whether all interest is sent instead.
        """
        if self.isAll or subject in self.refused:
            return False
        if self._isListed and not self._plain and not self._groups:
            if self.isRefused:
                return False
            self.isRefused = True
            self.say(accountLine(self.account, False))
        elif switches(len(self.refused)):
            self.sendAll(now)
        else:
            self._refuse(subject)
        return True

    def _refuse(self, subject: bytes) -> None:
        if len(self.refused) >= self.mostRefused:
            del self.refused[next(iter(self.refused))]
        self.refused[subject] = None
        self.say(lostLine(self.account, subject, b""))

    def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
        if self.isRefused:
            self.isRefused = False
            self.say(accountLine(self.account, True))
        if queue:
            self._groups.add((pattern, queue))
            self.say(interestLine(self.account, pattern, queue, 1))
            return
        self._plain[pattern] = None
        if self.isAll or self._readmit(pattern):
            self.say(interestLine(self.account, pattern, b"", 0))

    def _readmit(self, pattern: bytes) -> bool:
        """Forget the refusals that match a pattern. Return whether there were any."""
        refused = self.refused
        if not hasWildcard(pattern):
            return refused.pop(pattern, _MISSING) is not _MISSING
        self.batch.work += len(refused) * _COMPARE
        readmitted = [subject for subject in refused if matches(pattern, subject)]
        for subject in readmitted:
            del refused[subject]
        return bool(readmitted)

    def interestWeightChanged(self, pattern: bytes, queue: bytes, weight: int) -> None:
        """Ignore it: other clusters receive no weights."""

    def interestLost(self, pattern: bytes, queue: bytes) -> None:
        if queue:
            self._groups.discard((pattern, queue))
            self.say(lostLine(self.account, pattern, queue))
            return
        self._plain.pop(pattern, None)
        if self._untold is not None and pattern in self._untold:
            del self._untold[pattern]
        elif self.isAll:
            self.say(lostLine(self.account, pattern, b""))
        elif self._bus.hasPulled and not hasWildcard(pattern) and not self._bus.isWanted(pattern):
            # The subject may be the inbox of a pull request, which would take a message of a
            # stream.
            self._refuse(pattern)

    @property
    def _mode(self) -> str:
        if self._untold is not None:
            return "transitioning"
        return "interest-only" if self.isAll else "optimistic"

    def figures(self) -> dict[str, Any]:
        """The figures, with the keys of L{natsbroker.interfaces.IInterestTable.figures}."""
        return {
            "mode": self._mode,
            "no_interest": len(self.refused),
            "interest": len(self._plain) if self.isAll else 0,
            "queues": len(self._groups),
            "account_wanted": not self.isRefused,
            "switches": int(self.isAll),
            "switched": self.switched,
        }

    def interests(self) -> list[tuple[bytes, bytes]]:
        plain = [(pattern, b"") for pattern in self._plain] if self.isAll else []
        return [*plain, *self._groups]


_MISSING: Any = object()
