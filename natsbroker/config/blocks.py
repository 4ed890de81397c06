"""
A tree read by the tables of keys: values of the right type, and everything wrong with it.

This module promises that every key of a file is either read, or reported: with a wrong
type, as unknown, or as not supported yet.  It must never know what a key means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from natsbroker.config.errors import (
    OPEN,
    ConfigError,
    NotSupportedYet,
    Position,
    UnknownField,
)
from natsbroker.config.keys.types import (
    OLD_DURATION,
    AnyType,
    BlockType,
    Key,
    ListType,
    MapType,
    Section,
    ValueType,
    plain,
)
from natsbroker.config.language.tree import Array, Entry, Node, Table, kindOf
from natsbroker.config.unsupported import missing

__all__ = ["Diagnostics", "NamedValues", "ParsedBlock", "positionsIn", "readTable"]

Kind = TypeVar("Kind")


@dataclass
class Diagnostics:
    """
    What was found on the way.

    @ivar errors: what the broker cannot start with.
    @ivar warnings: what it can start with, but C{-t} refuses, as nats-server does.
    """

    errors: list[ConfigError] = field(default_factory=list)
    warnings: list[ConfigError] = field(default_factory=list)

    def error(self, message: str, path: str, position: Position) -> None:
        """
        Take down an error.
        """
        self.errors.append(ConfigError(message, path, position))

    def errorAt(self, block: ParsedBlock, name: str, message: str) -> None:
        """
        Take down an error at a key of a block, or at the block when the key is not there.
        """
        self.error(message, block.pathTo(name), block.place(name))

    def errorsAt(self, block: ParsedBlock, problems: Iterable[tuple[str, str]]) -> None:
        """
        Take down an error at each of some keys of a block.

        @param problems: the names of the keys, each with what is wrong with it.
        """
        for name, message in problems:
            self.errorAt(block, name, message)

    def refuseEmpty(self, block: ParsedBlock, *names: str) -> None:
        """
        Take down an error at each text of a login that is there, but empty: an empty variable must
        not open a listener.
        """
        empty = [each for each in names if each in block and not block.text(each)]
        self.errorsAt(block, ((each, OPEN) for each in empty))


class NamedValues(dict[str, object]):
    """
    Values by names of the operator's choice.

    @ivar positions: where each name stands.
    """

    def __init__(self) -> None:
        super().__init__()
        self.positions: dict[str, Position] = {}


@dataclass
class ParsedBlock:
    """
    A block as it was read.

    @ivar path: its dotted path; empty for the root.
    @ivar position: where its key stands, or its brace when it is an item of an array.
    @ivar values: by canonical name; what could not be read is not there.
    @ivar positions: where each key stands.
    @ivar others: the keys that the block's table leaves to somebody else.
    """

    path: str
    position: Position
    values: dict[str, object] = field(default_factory=dict)
    positions: dict[str, Position] = field(default_factory=dict)
    others: dict[str, object] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def pathTo(self, name: str) -> str:
        """
        Name a key of this block by its dotted path.
        """
        return f"{self.path}.{name}" if self.path else name

    def place(self, name: str) -> Position:
        """
        Locate a key of this block, or the block when the key is not there.
        """
        return self.positions.get(name, self.position)

    def take(self, name: str, kind: type[Kind]) -> Kind | None:
        """
        Get a value if it is there and of a type.
        """
        value = self.values.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            return None
        return value

    def text(self, name: str, default: str = "") -> str:
        """
        Get a string.
        """
        value = self.take(name, str)
        return default if value is None else value

    def flag(self, name: str, default: bool = False) -> bool:
        """
        Get a boolean.
        """
        value = self.take(name, bool)
        return default if value is None else value

    def integer(self, name: str, default: int = 0) -> int:
        """
        Get an integer; C{0} in the file means the default, as in nats-server.
        """
        return self.take(name, int) or default

    def seconds(self, name: str, default: float = 0.0) -> float:
        """
        Get a time in seconds; C{0} in the file means the default, as in nats-server.
        """
        return self.take(name, float) or default

    def block(self, name: str) -> ParsedBlock | None:
        """
        Get a block.
        """
        return self.take(name, ParsedBlock)

    def blockOrEmpty(self, name: str) -> ParsedBlock:
        """
        Get a block, or an empty one that stands where this one does.
        """
        return self.block(name) or ParsedBlock(self.pathTo(name), self.position)

    def blocks(self, name: str) -> list[ParsedBlock]:
        """
        Get the blocks of an array that could be read.
        """
        items = self.take(name, list) or []
        return [item for item in items if isinstance(item, ParsedBlock)]

    def named(self, name: str) -> Iterator[tuple[str, ParsedBlock]]:
        """
        Iterate over blocks with names.
        """
        found: Mapping[str, object] = self.take(name, dict) or {}
        for key, value in found.items():
            if isinstance(value, ParsedBlock):
                yield key, value

    def texts(self, name: str) -> tuple[str, ...]:
        """
        Get strings from a string or an array of strings.
        """
        value = self.values.get(name)
        if isinstance(value, list):
            return tuple(item for item in value if isinstance(item, str))
        return (value,) if isinstance(value, str) else ()

    def mapping(self, name: str, kind: type[Kind]) -> dict[str, Kind]:
        """
        Get a map whose values are of a type.
        """
        found: Mapping[str, object] = self.take(name, dict) or {}
        return {key: value for key, value in found.items() if isinstance(value, kind)}


@dataclass(frozen=True)
class _Location:
    """
    Where in the file and in the tables something is read.

    @ivar path: with the operator's names and the indices.
    @ivar pattern: with C{*} and C{[]} in their place.
    """

    path: str
    pattern: str
    position: Position

    def key(self, name: str, position: Position) -> _Location:
        """
        Go to a key of a block.
        """
        dot = "." if self.path else ""
        return _Location(f"{self.path}{dot}{name}", f"{self.pattern}{dot}{name}", position)

    def item(self, index: int, position: Position) -> _Location:
        """
        Go to an item of an array.
        """
        return _Location(f"{self.path}[{index}]", f"{self.pattern}[]", position)

    def name(self, name: str, position: Position) -> _Location:
        """
        Go to a name that the operator chose.
        """
        return _Location(f"{self.path}.{name}", f"{self.pattern}.*", position)


def readTable(table: Table, section: Section, findings: Diagnostics) -> ParsedBlock:
    """
    Read a whole file.
    """
    return _Walk(findings).block(table, section, _Location("", "", table.position))


class _Walk:
    """
    Reads every key once.
    """

    def __init__(self, findings: Diagnostics) -> None:
        self._findings = findings

    def block(self, table: Table, section: Section, at: _Location) -> ParsedBlock:
        """
        Read a block by its table.
        """
        reading = ParsedBlock(at.path, at.position)
        unknown = []
        for entry in table:
            name = section.canonical(entry.key)
            if name is None:
                unknown.append(entry)
                continue
            place = at.key(name, entry.position)
            reading.positions[name] = entry.position
            reading.values.pop(name, None)
            found = self.value(entry.node, section.keys[name], place)
            if found is not None:
                reading.values[name] = found[0]
                self._checkFeature(found[0], place)
        self._unknown(unknown, section, reading)
        return reading

    def _unknown(self, entries: list[Entry], section: Section, reading: ParsedBlock) -> None:
        for entry in entries:
            if section.opener and section.opener in reading:
                reading.others[entry.key] = plain(entry.node)
            elif not (entry.used and section.variables):
                path = reading.pathTo(entry.key)
                self._findings.errors.append(UnknownField(entry.key, path, entry.position))

    def _checkFeature(self, value: object, at: _Location) -> None:
        # A block that is switched off asks for nothing, whatever else it says.
        isOff = isinstance(value, ParsedBlock) and not value.flag("enabled", True)
        feature = missing(at.pattern, False if isOff else value)
        if feature is not None:
            error = NotSupportedYet(str(feature), at.path, at.position)
            self._findings.errors.append(error)

    def value(self, node: Node, key: Key, at: _Location) -> tuple[object] | None:
        """
        Read a value in the first kind that takes it.

        @return: the value in a tuple, or L{None} after reporting why there is none.
        """
        for kind in key.types:
            if kind.takes(node):
                return self._inForm(node, kind, at)
        self._findings.error(f"expected {key.written}, got {kindOf(node)}", at.path, at.position)
        return None

    def _inForm(self, node: Node, kind: AnyType, at: _Location) -> tuple[object] | None:
        if isinstance(kind, ValueType):
            return self._leaf(node, kind, at)
        if isinstance(kind, ListType) and isinstance(node, Array):
            return (self._many(node, kind.item, at),)
        if isinstance(kind, BlockType) and isinstance(node, Table):
            return (self.block(node, kind.section, at),)
        if isinstance(kind, MapType) and isinstance(node, Table):
            return (self._named(node, kind, at),)
        raise TypeError(f"{kind.name} cannot be read from {type(node).__name__}")

    def _leaf(self, node: Node, kind: ValueType, at: _Location) -> tuple[object] | None:
        try:
            value = kind.read(node)
        except ValueError as error:
            self._findings.error(str(error), at.path, at.position)
            return None
        if kind is OLD_DURATION:
            name = at.path.rpartition(".")[2]
            message = f'invalid use of field "{name}": {name} should be converted to a duration'
            self._findings.warnings.append(ConfigError(message, position=at.position))
        return (value,)

    def _many(self, array: Array, item: Key, at: _Location) -> list[object]:
        found = []
        for index, node in enumerate(array.items):
            value = self.value(node, item, at.item(index, node.position))
            if value is not None:
                found.append(value[0])
        return found

    def _named(self, table: Table, kind: MapType, at: _Location) -> NamedValues:
        found = NamedValues()
        for entry in table:
            if kind.variables and entry.used:
                continue
            value = self.value(entry.node, kind.item, at.name(entry.key, entry.position))
            if value is not None:
                found[entry.key] = value[0]
                found.positions[entry.key] = entry.position
        return found


def positionsIn(reading: ParsedBlock) -> dict[str, str]:
    """
    Where each key of a block stands, and each key below it, by its dotted path.
    """
    found = {reading.pathTo(name): str(place) for name, place in reading.positions.items()}
    for name, value in reading.values.items():
        if isinstance(value, NamedValues):
            path = reading.pathTo(name)
            found |= {f"{path}.{key}": str(place) for key, place in value.positions.items()}
        below: Iterable[object] = (value,)
        if isinstance(value, (dict, list)):
            below = value.values() if isinstance(value, dict) else value
        for each in below:
            if isinstance(each, ParsedBlock):
                found |= positionsIn(each)
    return found


def plainValues(value: object) -> object:
    """
    Turn what was read into plain values: blocks become dictionaries.
    """
    if isinstance(value, ParsedBlock):
        return {name: plainValues(inner) for name, inner in value.values.items()}
    if isinstance(value, dict):
        return {name: plainValues(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plainValues(inner) for inner in value]
    return value
