"""The interest of one other cluster in one account."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from zope.interface import implementer

from natsbroker.interfaces import IInterestTable
from natsbroker.subjects.grammar import hasWildcard, matches
from natsbroker.subjects.index import SubjectIndex

#: All but refused subjects are sent.
OPTIMISTIC = "optimistic"

#: The same, while the other cluster sends the list of all its interest.
TRANSITIONING = "transitioning"

#: Only known interest is sent.
INTEREST_ONLY = "interest-only"


class SubjectSet(Protocol):
    """Such as a L{natsbroker.subjects.permissions.PermissionSet}."""

    def allows(self, subject: bytes) -> bool: ...


@implementer(IInterestTable)
@dataclass(eq=False, repr=False)
class InterestTable:
    """
    The table of our own policies, and for custom policies. The memory of refusals is bounded. The
    oldest refusal is forgotten first, which causes one more unwanted message.

    @ivar mode: C{OPTIMISTIC}, C{TRANSITIONING} or C{INTEREST_ONLY}.
    @ivar isAccountWanted: the account was not refused as a whole.
    @ivar permitted: the only subjects that are sent; C{None} for no such limit.
    @ivar mostRefused: the number of refused subjects that are remembered.
    @ivar switches: the number of changes of the mode.
    @ivar switched: the last of them, in seconds since the epoch; 0.0 for never.
    """

    gateway: str
    account: str
    mode: str
    permitted: SubjectSet | None = None
    mostRefused: int = 100_000
    isAccountWanted: bool = field(default=True, init=False)
    switches: int = field(default=0, init=False)
    switched: float = field(default=0.0, init=False)
    _refused: dict[bytes, None] = field(default_factory=dict, init=False)
    _plain: SubjectIndex[bytes] = field(default_factory=SubjectIndex, init=False)
    _groups: SubjectIndex[bytes] = field(default_factory=SubjectIndex, init=False)
    _members: dict[tuple[bytes, bytes], bytes] = field(default_factory=dict, init=False)

    def match(self, subject: bytes) -> tuple[bool, Iterable[bytes]]:
        if self.permitted is not None and not self.permitted.allows(subject):
            return False, ()
        unspoken = self.mode != INTEREST_ONLY and subject not in self._refused
        plain = self.isAccountWanted and (unspoken or self._plain.hasInterest(subject))
        return plain, dict.fromkeys(self._groups.match(subject)) if self._members else ()

    def figures(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "no_interest": len(self._refused),
            "interest": len(self._plain),
            "queues": len(self._members),
            "account_wanted": self.isAccountWanted,
            "switches": self.switches,
            "switched": self.switched,
        }

    def interests(self) -> Iterable[tuple[bytes, bytes]]:
        return [*((pattern, b"") for pattern in self._plain.patterns()), *self._members]

    def wants(self, pattern: bytes, queue: bytes) -> bool:
        return (pattern, queue) in self._members if queue else bool(self._plain.entriesFor(pattern))

    @property
    def isOpen(self) -> bool:
        return self.isAccountWanted and self.mode != INTEREST_ONLY

    def switch(self, mode: str, now: float) -> None:
        if mode != self.mode:
            self.mode = mode
            self.switches += 1
            self.switched = now
        if mode == INTEREST_ONLY:
            self._refused.clear()

    def want(self, pattern: bytes, queue: bytes) -> None:
        """Raise L{natsbroker.subjects.shapes.TooManyShapes} if it takes no more patterns."""
        if not queue:
            self._plain.insert(pattern, b"")
        elif (pattern, queue) not in self._members:
            # The index compares groups by identity: the table keeps the first object of a name.
            self._groups.insert(pattern, queue)
            self._members[pattern, queue] = queue

    def unwant(self, pattern: bytes, queue: bytes) -> bool:
        if not queue:
            return self._plain.remove(pattern, b"")
        name = self._members.pop((pattern, queue), None)
        return name is not None and self._groups.remove(pattern, name)

    def unwantAll(self) -> None:
        self._plain = SubjectIndex()

    def refuse(self, subject: bytes) -> None:
        if len(self._refused) >= self.mostRefused:
            del self._refused[next(iter(self._refused))]
        self._refused[subject] = None

    def readmit(self, pattern: bytes) -> None:
        if hasWildcard(pattern):
            for subject in [known for known in self._refused if matches(pattern, known)]:
                del self._refused[subject]
        else:
            self._refused.pop(pattern, None)
