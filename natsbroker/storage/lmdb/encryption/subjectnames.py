"""
The subjects of logs whose tallies have keyed hashes as keys. They are in byte order, for patterns.
They are read from the database when they are first listed. From then on the writing thread adds new
ones before it commits them, so that none is missing. Removed subjects stay until there are many.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from threading import Lock

from natsbroker.storage.sortedsubjects import SortedSubjects
from natsbroker.subjects.searching import PatternSearch

LOOKED_AT = 4096
"""The number of subjects that are looked at while the thread that writes may have to wait."""

STALE = 10_000
"""The number of subjects that there may be beside twice as many as the database has."""


class _Names:
    def __init__(self) -> None:
        self.inOrder = SortedSubjects()
        self._all: set[bytes] = set()

    def add(self, subjects: Iterable[bytes]) -> None:
        for subject in subjects:
            if subject not in self._all:
                self._all.add(subject)
                self.inOrder.add(subject)

    @property
    def count(self) -> int:
        return len(self._all)


class SubjectNames:
    def __init__(self) -> None:
        self._lock = Lock()
        self._learning = Lock()
        self._known: dict[int, _Names] = {}
        self._unfinished: dict[int, _Names] = {}
        self._pending: Mapping[int, Collection[bytes]] = {}

    def adding(self, subjects: Mapping[int, Collection[bytes]], counts: Mapping[int, int]) -> None:
        """Add subjects before they are committed; C{counts} is by log."""
        with self._lock:
            self._pending = subjects
            for identity, some in subjects.items():
                names = self._known.get(identity, self._unfinished.get(identity))
                if names is not None:
                    names.add(some)
                    if names.count > 2 * counts[identity] + STALE:
                        self._known.pop(identity, None)

    def forget(self, identity: int) -> None:
        with self._lock:
            self._known.pop(identity, None)

    def find(
        self, identity: int, search: PatternSearch, start: bytes
    ) -> tuple[list[bytes], bytes] | None:
        """
        Some subjects at or behind a place that a pattern matches, and the place to continue at,
        which is empty at the end. C{None} if L{learn} must be called first.
        """
        with self._lock:
            names = self._known.get(identity)
            return None if names is None else names.inOrder.find(search, start, LOOKED_AT)

    def learn(self, identity: int, read: Callable[[], Iterable[bytes]]) -> None:
        """Learn subjects from C{read}, which begins a transaction in the database."""
        with self._learning:
            with self._lock:
                if identity in self._known:
                    return
                # A commit underway may be too new for what is read, and have added its subjects.
                names = self._unfinished[identity] = _Names()
                names.add(self._pending.get(identity, ()))
            try:
                subjects = list(read())
                with self._lock:
                    names.add(subjects)
                    self._known[identity] = names
            finally:
                with self._lock:
                    del self._unfinished[identity]
