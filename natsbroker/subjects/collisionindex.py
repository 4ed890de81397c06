"""An index of patterns by owner. It tells whether a pattern overlaps with one of another owner."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Protocol

from natsbroker.steps import PIECE, Steps, pieces
from natsbroker.subjects.collisions import Shape, compared, keyOf, shapeOf

#: The owners of the patterns of one shape, by the tokens that one shape of question compares.
_Table = dict[Hashable, Counter[str]]

#: Tables have this many times as many entries as there are patterns, and a few more.
_MOST = 4
_FEW = 4096


class PatternOwner(Protocol):
    @property
    def subjects(self) -> tuple[str, ...]: ...


class CollisionIndex:
    """Not thread-safe. The steps of several searches and changes may be interleaved."""

    def __init__(self) -> None:
        self._owners: dict[str, PatternOwner] = {}
        self._groups: dict[Shape, dict[tuple[str, bytes], list[bytes]]] = {}
        self._tables: OrderedDict[tuple[Shape, tuple[int, ...]], _Table] = OrderedDict()
        self._count = self._changes = 0
        # Patterns of owners that are known by now: those that leave, and those that come.
        self._due: deque[Iterator[tuple[str, str, bool]]] = deque()

    def update(
        self, owners: Mapping[str, PatternOwner], changed: set[str] | None = None
    ) -> Steps[None]:
        """
        Replace all owners by name; unchanged ones, the same objects, cost little.

        @param changed: the names of owners that may have changed. Only these are compared, and they
            are taken from the set.
        """
        known, names = self._owners, list(changed or ())
        if changed is None:
            names = [name for name in known if name not in owners]
            names += [name for name, owner in owners.items() if known.get(name) is not owner]
            yield
        for some in pieces(names):
            for name in some:
                self._replace(name, owners.get(name))
                if changed is not None:
                    changed.discard(name)
            yield
        # In the order in which they came, also from other updates: these end no earlier.
        while self._due:
            changes = list(islice(self._due[0], PIECE))
            for name, subject, isNew in changes:
                self._change(name, subject.encode(), isNew)
            if len(changes) < PIECE:
                self._due.popleft()
            if changes:
                yield

    def _replace(self, name: str, owner: PatternOwner | None) -> None:
        before = self._owners.pop(name, None)
        if owner is not None:
            self._owners[name] = owner
        old = () if before is None else before.subjects
        new = () if owner is None else owner.subjects
        if old != new:
            ours, theirs = dict.fromkeys(old), dict.fromkeys(new)
            leaving = ((name, subject, False) for subject in ours if subject not in theirs)
            coming = ((name, subject, True) for subject in theirs if subject not in ours)
            self._due.append(chain(leaving, coming))

    def _change(self, owner: str, pattern: bytes, isNew: bool) -> None:
        self._changes += 1
        tokens = pattern.split(b".")
        shape = shapeOf(tokens)
        group = self._groups.setdefault(shape, {})
        if isNew:
            group[owner, pattern] = tokens
            self._count += 1
        else:
            del group[owner, pattern]
            self._count -= 1
            if not group:
                del self._groups[shape]
        for (of, positions), table in self._tables.items():
            if of == shape:
                _note(table, keyOf(positions)(tokens), owner, 1 if isNew else -1)

    def meets(self, patterns: Sequence[str], owner: str) -> Steps[bool]:
        """Tell whether one of the patterns overlaps with a pattern of another owner."""
        for some in pieces(patterns):
            for pattern in some:
                if (yield from self._meets(pattern.encode().split(b"."), owner)):
                    return True
            yield
        return False

    def _meets(self, tokens: list[bytes], owner: str) -> Steps[bool]:
        mine = shapeOf(tokens)
        for shape in list(self._groups):
            positions = compared(mine, shape)
            if positions is not None:
                table = yield from self._table(shape, tuple(positions))
                owners = table.get(keyOf(positions)(tokens), ())
                if len(owners) > (owner in owners):
                    return True
        return False

    def _table(self, shape: Shape, positions: tuple[int, ...]) -> Steps[_Table]:
        table = self._tables.get((shape, positions))
        if table is not None:
            self._tables.move_to_end((shape, positions))
            return table
        key = keyOf(positions)
        while True:
            changes, table = self._changes, _Table()
            for some in pieces(list(self._groups.get(shape, {}).items())):
                for (owner, _), tokens in some:
                    _note(table, key(tokens), owner, 1)
                if len(some) < len(self._groups.get(shape, ())):
                    yield
            if changes == self._changes:
                break
        self._tables[shape, positions] = table
        while len(self._tables) > 1 and self.entries > _MOST * self._count + _FEW:
            self._tables.popitem(last=False)
        return table

    @property
    def entries(self) -> int:
        return sum(map(len, self._tables.values()))


def _note(table: _Table, key: Hashable, owner: str, difference: int) -> None:
    owners = table.setdefault(key, Counter())
    owners[owner] += difference
    if not owners[owner]:
        del owners[owner]
        if not owners:
            del table[key]
