"""
A disk as it may be found after the power was cut.

It follows a trace of calls and knows, of each sector, what is durable and what was written to it
since; and of each directory, what was renamed, made or removed since it was synced.

What may be found is anything that POSIX allows and disks do: any sector that was not synced may
have any of the contents that it had since; files may be as long as they were at any time since; of
the changes of names that were not synced, the first few may be there, or any of them.

What was synced is never lost, unless the disk is one that lies about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random

from tests.storage.shim import Event

__all__ = ["Disk", "Survival"]

SECTOR = 512

_HOLE = bytes(1 << 16)


class Survival(Enum):
    """The choice of unsynced data that survives."""

    NOTHING = "nothing"
    EVERYTHING = "everything"
    SOME = "some of it"
    UNTIL = "what came before some moment"


@dataclass
class _File:
    """
    A file or a directory, whatever its name.

    @ivar isDirectory: whether it is a directory; then it has no contents.
    @ivar now: its contents as the process sees them.
    @ivar durable: its contents on the disk.
    @ivar versions: for each sector that was written since: when, and what was in it then.
    @ivar sizes: how long it was since: when, and the length.
    """

    isDirectory: bool = False
    now: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    versions: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    sizes: list[tuple[int, int]] = field(default_factory=list)

    def resize(self, length: int, when: int) -> None:
        """Cut off the file, or lengthen it with zeros."""
        if length != len(self.now):
            del self.now[length:]
            self.now.extend(bytes(length - len(self.now)))
            self.sizes.append((when, length))

    def write(self, offset: int, data: bytes, when: int) -> range:
        """
        Write.

        @return: the sectors that were written.
        """
        if offset + len(data) > len(self.now):
            self.resize(offset + len(data), when)
        self.now[offset : offset + len(data)] = data
        sectors = range(offset // SECTOR, -(-(offset + len(data)) // SECTOR))
        for sector in sectors:
            content = bytes(self.now[sector * SECTOR : (sector + 1) * SECTOR])
            self.versions.setdefault(sector, []).append((when, content))
        return sectors

    def sync(self, until: int, sectors: Iterable[int] | None = None) -> None:
        """
        Make durable what was written up to some moment.

        @param sectors: only these.
        """
        for when, length in self.sizes:
            if when <= until:
                _resize(self.durable, length)
        self.sizes = [change for change in self.sizes if change[0] > until]
        size = len(self.durable)
        for sector in list(self.versions if sectors is None else sectors):
            versions = self.versions.get(sector, [])
            old = [content for when, content in versions if when <= until]
            if old:
                # It may have been longer when that was written.
                _put(self.durable, sector, old[-1])
                del self.durable[size:]
            left = versions[len(old) :]
            if left:
                self.versions[sector] = left
            else:
                self.versions.pop(sector, None)

    def found(self, random: Random, survival: Survival, moment: int) -> bytes:
        """The contents of the file that may be found after a power cut."""
        if survival is Survival.EVERYTHING:
            return bytes(self.now)
        data = bytearray(self.durable)
        if survival is Survival.NOTHING:
            return bytes(data)
        sizes = [length for when, length in self.sizes if when <= moment]
        if survival is Survival.SOME:
            sizes = random.choice([sizes[:number] for number in range(len(sizes) + 1)])
        if sizes:
            _resize(data, sizes[-1])
        for sector, versions in self.versions.items():
            kept = [content for when, content in versions if when <= moment]
            if survival is Survival.SOME:
                kept = kept[: random.randint(0, len(kept))]
            if kept and sector * SECTOR < len(data):
                length = len(data)
                _put(data, sector, kept[-1])
                del data[length:]
        return bytes(data)


def _resize(data: bytearray, length: int) -> None:
    """Cut off some contents, or lengthen them with zeros."""
    del data[length:]
    data.extend(bytes(length - len(data)))


def _put(data: bytearray, sector: int, content: bytes) -> None:
    """
    Put a sector in its place.
    """
    start = sector * SECTOR
    if start + len(content) > len(data):
        _resize(data, start + len(content))
    data[start : start + len(content)] = content


def _withoutZeros(data: bytes) -> bytes:
    """
    The written part of a file whose end is a hole: comparing blocks is faster than looking at
    bytes.
    """
    end = len(data)
    while end >= len(_HOLE) and data.startswith(_HOLE, end - len(_HOLE)):
        end -= len(_HOLE)
    return data[:end].rstrip(b"\0")


@dataclass(frozen=True)
class _Renaming:
    """A change of names, after which each of these names is the file, or is gone."""

    when: int
    names: tuple[tuple[str, _File | None], ...]

    @property
    def directories(self) -> set[str]:
        """The directories whose names change."""
        return {str(Path(name).parent) for name, _ in self.names}


class Disk:
    """The disk below one directory."""

    def __init__(self, directory: Path, isHonest: bool = True) -> None:
        """
        @param directory: what is there from the beginning; it is durable.
        @param isHonest: whether the disk really syncs.
        """
        self._isHonest = isHonest
        self._time = 0
        self._open: dict[int, tuple[_File | None, str]] = {}
        self._syncing: dict[int, int] = {}
        self._names: dict[str, _File] = {}
        self._durable: dict[str, _File] = {}
        self._changes: list[_Renaming] = []
        for path in directory.rglob("*") if directory.exists() else ():
            data = b"" if path.is_dir() else path.read_bytes()
            file = _File(path.is_dir(), bytearray(data), bytearray(data))
            name = str(path.relative_to(directory))
            self._names[name] = self._durable[name] = file

    def follow(self, event: Event) -> None:
        """
        Take the next call into account.
        """
        self._time += 1
        if event.what in _HANDLERS:
            getattr(self, f"_{_HANDLERS[event.what]}")(event)

    def _made(self, event: Event) -> None:
        """
        A directory was made.
        """
        self._rename((event.name, _File(isDirectory=True)))

    def _opened(self, event: Event) -> None:
        """
        A file was opened, or made.
        """
        file = self._names.get(event.name)
        if event.flag == "n":
            file = _File()
            self._rename((event.name, file))
        elif event.flag == "t" and file is not None:
            file.resize(0, self._time)
        self._open[event.file] = (file, event.name)

    def _closed(self, event: Event) -> None:
        """
        A file was closed.
        """
        self._open.pop(event.file, None)

    def _written(self, event: Event) -> None:
        """
        Something was written, durably if the file was opened so.
        """
        file = self._open[event.file][0]
        if file is not None:
            sectors = file.write(event.offset, event.data, self._time)
            if event.flag == "d" and self._isHonest:
                file.sync(self._time, sectors)

    def _resized(self, event: Event) -> None:
        """
        A file was cut off or made longer.
        """
        file = self._open[event.file][0]
        length = event.offset + event.length
        if file is not None and (event.what == "t" or length > len(file.now)):
            file.resize(length, self._time)

    def _syncs(self, event: Event) -> None:
        """
        A sync begins: what was written before it counts.
        """
        self._syncing[event.file] = self._time

    def _synced(self, event: Event) -> None:
        """A sync has ended."""
        file, name = self._open[event.file]
        until = self._syncing.pop(event.file)
        if not self._isHonest:
            return
        if file is not None and not file.isDirectory:
            file.sync(until)
            return
        kept = []
        for change in self._changes:
            if change.when <= until and name in change.directories:
                self._apply(self._durable, change)
            else:
                kept.append(change)
        self._changes = kept

    def _unlinked(self, event: Event) -> None:
        """
        A name was removed.
        """
        self._rename((event.name, None))

    def _renamed(self, event: Event) -> None:
        """A file was renamed."""
        old, _, new = event.name.partition("\n")
        changes: list[tuple[str, _File | None]] = []
        for name, file in self._names.items():
            if name == old or name.startswith(f"{old}/"):
                changes += [(new + name[len(old) :], file), (name, None)]
        self._rename(*changes)

    def _linked(self, event: Event) -> None:
        """A file has one more name."""
        old, _, new = event.name.partition("\n")
        self._rename((new, self._names[old]))

    def _rename(self, *names: tuple[str, _File | None]) -> None:
        """Note a change of names that is not synced yet."""
        change = _Renaming(self._time, names)
        self._apply(self._names, change)
        self._changes.append(change)

    @staticmethod
    def _apply(names: dict[str, _File], change: _Renaming) -> None:
        """Apply a change of names to what is durable."""
        for name, file in change.names:
            if file is None:
                names.pop(name, None)
            else:
                names[name] = file

    def cut(self, random: Random, survival: Survival, directory: Path) -> None:
        """
        Cut the power, and write what is found then.

        @param directory: where to; it is made.
        """
        moment = random.randint(0, self._time)
        if survival is not Survival.UNTIL:
            moment = self._time
        names = dict(self._durable)
        for change in self._surviving(random, survival, moment):
            self._apply(names, change)
        directory.mkdir(parents=True)
        for name in sorted(names):
            path = directory / name
            file = names[name]
            if not path.parent.exists():
                continue  # whose own name is lost
            if file.isDirectory:
                path.mkdir()
                continue
            data = file.found(random, survival, moment)
            with path.open("wb") as out:
                out.write(_withoutZeros(data))
                out.truncate(len(data))

    def _surviving(self, random: Random, survival: Survival, moment: int) -> list[_Renaming]:
        """The unsynced changes of names that survive the power cut."""
        if survival is Survival.NOTHING:
            return []
        changes = [change for change in self._changes if change.when <= moment]
        if survival is Survival.SOME:
            if random.random() < 0.5:
                return changes[: random.randint(0, len(changes))]
            return [change for change in changes if random.random() < 0.5]
        return changes


_HANDLERS = {
    "o": "opened",
    "c": "closed",
    "w": "written",
    "t": "resized",
    "f": "resized",
    "s": "syncs",
    "e": "synced",
    "m": "made",
    "u": "unlinked",
    "x": "unlinked",
    "r": "renamed",
    "l": "linked",
}
