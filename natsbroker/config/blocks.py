"""
Parsed blocks: values of the types in the table of keys, with their places. Every key of a file is
read, or reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from natsbroker.config.errors import (
    NO_PASSWORD,
    NO_USER,
    ConfigError,
    NotSupportedYet,
    Position,
    UnknownField,
)
from natsbroker.config.files import readText
from natsbroker.config.keys.types import (
    OLD_DURATION,
    AnyType,
    BlockSchema,
    Key,
    ListType,
    MapType,
    ValueType,
    plain,
)
from natsbroker.config.language.tree import (
    ArrayNode,
    Node,
    ScalarNode,
    TableEntry,
    TableNode,
    kindOf,
)

Kind = TypeVar("Kind")


@dataclass
class Diagnostics:
    """
    @ivar read: gives the text of a file that the configuration names.
    @ivar warnings: only C{-t} refuses these, as nats-server does.
    """

    read: Callable[[str], str] = readText
    errors: list[ConfigError] = field(default_factory=list)
    warnings: list[ConfigError] = field(default_factory=list)

    def error(self, message: str, path: str, position: Position) -> None:
        self.errors.append(ConfigError(message, path, position))

    def errorAt(self, block: ParsedBlock, name: str, message: str) -> None:
        self.error(message, block.pathTo(name), block.place(name))

    def warnAt(self, block: ParsedBlock, name: str, message: str) -> None:
        self.warnings.append(ConfigError(message, block.pathTo(name), block.place(name)))

    def errorsAt(self, block: ParsedBlock, problems: Iterable[tuple[str, str]]) -> None:
        for name, message in problems:
            self.errorAt(block, name, message)

    def refuseHalfLogin(self, block: ParsedBlock) -> None:
        """Add an error at a user without a password, and at a password without a user."""
        if "user" in block.positions and "pass" not in block.positions:
            self.errorAt(block, "user", NO_PASSWORD)
        elif "pass" in block.positions and "user" not in block.positions:
            self.errorAt(block, "pass", NO_USER)


_UNKNOWN = BlockSchema("")


class NamedValues(dict[str, object]):
    def __init__(self) -> None:
        super().__init__()
        self.positions: dict[str, Position] = {}


@dataclass
class ParsedBlock:
    """
    @ivar path: its dotted path; empty for the root.
    @ivar position: where its key stands, or its brace when it is an item of an array.
    @ivar others: the keys that a plugin reads.
    @ivar outside: the keys whose value comes from the environment.
    @ivar section: its keys.
    """

    path: str
    position: Position
    values: dict[str, object] = field(default_factory=dict)
    positions: dict[str, Position] = field(default_factory=dict)
    others: dict[str, object] = field(default_factory=dict)
    outside: set[str] = field(default_factory=set)
    section: BlockSchema = field(default=_UNKNOWN, compare=False, repr=False)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def pathTo(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def place(self, name: str) -> Position:
        return self.positions.get(name, self.position)

    def take(self, name: str, kind: type[Kind]) -> Kind | None:
        value = self.values.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            return None
        return value

    def text(self, name: str, default: str = "") -> str:
        value = self.take(name, str)
        return default if value is None else value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.take(name, bool)
        return default if value is None else value

    def integer(self, name: str, default: int = 0) -> int:
        return self.take(name, int) or default

    def seconds(self, name: str, default: float = 0.0) -> float:
        return self.take(name, float) or default

    def fieldsOf(self, kind: type, zeros: bool = False) -> dict[str, Any]:
        """
        The values whose keys are fields of a frozen class, for its constructor.

        @param kind: a dataclass; fields that hold blocks are left out.
        @param zeros: whether C{0} stands for itself. Otherwise it means the default, as in
            nats-server.
        """
        given = {
            self.section.keys[name].attribute or name: name
            for name in self.values
            if name in self.section.keys
        }
        values: dict[str, Any] = {}
        for member in fields(kind):
            name = given.get(member.name)
            value = None if name is None else self.values[name]
            if name is not None and isinstance(member.default, tuple):
                values[member.name] = self.texts(name)
            elif isinstance(value, (bool, str)) or (
                isinstance(value, (int, float)) and (value or zeros)
            ):
                values[member.name] = value
            elif isinstance(value, dict):
                values[member.name] = dict(value)
        return values

    def block(self, name: str) -> ParsedBlock | None:
        return self.take(name, ParsedBlock)

    def blockOrEmpty(self, name: str) -> ParsedBlock:
        return self.block(name) or ParsedBlock(self.pathTo(name), self.position)

    def blocks(self, name: str) -> list[ParsedBlock]:
        items = self.take(name, list) or []
        return [item for item in items if isinstance(item, ParsedBlock)]

    def named(self, name: str) -> Iterator[tuple[str, ParsedBlock]]:
        return iter(self.mapping(name, ParsedBlock).items())

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.values.get(name)
        if isinstance(value, (list, tuple)):
            return tuple(item for item in value if isinstance(item, str))
        return (value,) if isinstance(value, str) else ()

    def mapping(self, name: str, kind: type[Kind]) -> dict[str, Kind]:
        values: Mapping[str, object] = self.take(name, dict) or {}
        return {key: value for key, value in values.items() if isinstance(value, kind)}


def readTable(table: TableNode, section: BlockSchema, findings: Diagnostics) -> ParsedBlock:
    return _BlockReader(findings).block(table, section, "", table.position)


class _BlockReader:
    def __init__(self, findings: Diagnostics) -> None:
        self._findings = findings

    def block(
        self, table: TableNode, section: BlockSchema, path: str, position: Position
    ) -> ParsedBlock:
        block = ParsedBlock(path, position, section=section)
        before = len(self._findings.errors)
        unknown = []
        for entry in table:
            name = section.canonical(entry.key)
            if name is None:
                unknown.append(entry)
                continue
            key = section.keys[name]
            block.positions[name] = entry.position
            block.values.pop(name, None)
            if isinstance(entry.node, ScalarNode) and entry.node.isOutside:
                block.outside.add(name)
            wrapped = self._value(entry.node, key, block.pathTo(name), entry.position)
            if wrapped is not None:
                block.values[name] = wrapped[0]
                # A block that is switched off needs no features, whatever its keys are.
                value = wrapped[0]
                isOff = isinstance(value, ParsedBlock) and not value.flag("enabled", True)
                feature = key.unsupported
                if feature is not None and not feature.accepts(False if isOff else value):
                    message, path = str(feature), block.pathTo(name)
                    self._findings.errors.append(NotSupportedYet(message, path, entry.position))
        self._unknown(unknown, section, block)
        if not block.flag("enabled", True):
            errors = self._findings.errors
            errors[before:] = [
                error for error in errors[before:] if not isinstance(error, NotSupportedYet)
            ]
        return block

    def _unknown(self, entries: list[TableEntry], section: BlockSchema, block: ParsedBlock) -> None:
        for entry in entries:
            if section.opener and section.opener in block:
                block.others[entry.key] = plain(entry.node)
                block.positions[entry.key] = entry.position
            elif not (entry.used and section.variables):
                path = block.pathTo(entry.key)
                self._findings.errors.append(
                    UnknownField(entry.key, path, entry.position, section.names)
                )

    def _value(self, node: Node, key: Key, path: str, position: Position) -> tuple[object] | None:
        """
        @return: the value in a tuple, or C{None} after reporting why there is none.
        """
        for kind in key.types:
            if kind.takes(node):
                return self._typed(node, kind, key, path, position)
        self._findings.error(f"expected {key.typeNames}, got {kindOf(node)}", path, position)
        return None

    def _typed(
        self, node: Node, kind: AnyType, key: Key, path: str, position: Position
    ) -> tuple[object] | None:
        if isinstance(kind, ValueType):
            return self._leaf(node, kind, key, path, position)
        if isinstance(kind, ListType) and isinstance(node, ArrayNode):
            return (self._many(node, kind.item, path),)
        if isinstance(kind, BlockSchema) and isinstance(node, TableNode):
            return (self.block(node, kind, path, position),)
        if isinstance(kind, MapType) and isinstance(node, TableNode):
            return (self._named(node, kind, path),)
        raise TypeError(f"{kind.name} cannot be read from {type(node).__name__}")

    def _leaf(
        self, node: Node, kind: ValueType, key: Key, path: str, position: Position
    ) -> tuple[object] | None:
        try:
            value = kind.read(node)
            if isinstance(node, TableNode) and isinstance(value, Mapping):
                value = _withPlaces(value, node)
            if key.check is not None:
                value = key.check(value)
        except ValueError as error:
            self._findings.error(str(error), path, position)
            return None
        if kind is OLD_DURATION:
            name = path.rpartition(".")[2]
            message = f'invalid use of field "{name}": {name} should be converted to a duration'
            self._findings.warnings.append(ConfigError(message, position=position))
        return (value,)

    def _many(self, array: ArrayNode, item: Key, path: str) -> list[object]:
        values = []
        for index, node in enumerate(array.items):
            value = self._value(node, item, f"{path}[{index}]", node.position)
            if value is not None:
                values.append(value[0])
        return values

    def _named(self, table: TableNode, kind: MapType, path: str) -> NamedValues:
        values = NamedValues()
        for entry in table:
            if kind.variables and entry.used:
                continue
            value = self._value(entry.node, kind.item, f"{path}.{entry.key}", entry.position)
            if value is not None:
                values[entry.key] = value[0]
                values.positions[entry.key] = entry.position
        return values


def _withPlaces(values: Mapping[str, object], table: TableNode) -> NamedValues:
    """The map that a plugin reads, with the places of its keys."""
    placed = NamedValues()
    placed.update(values)
    placed.positions = {entry.key: entry.position for entry in table}
    return placed


def _placesIn(values: NamedValues, path: str) -> dict[str, str]:
    places = {f"{path}.{key}": str(place) for key, place in values.positions.items()}
    for key, value in values.items():
        if isinstance(value, NamedValues):
            places |= _placesIn(value, f"{path}.{key}")
    return places


def positionsIn(block: ParsedBlock) -> dict[str, str]:
    places = {block.pathTo(name): str(place) for name, place in block.positions.items()}
    for name, value in block.values.items():
        if isinstance(value, NamedValues):
            places |= _placesIn(value, block.pathTo(name))
        below: Iterable[object] = (value,)
        if isinstance(value, (dict, list)):
            below = value.values() if isinstance(value, dict) else value
        for inner in below:
            if isinstance(inner, ParsedBlock):
                places |= positionsIn(inner)
    return places


def plainValues(value: object) -> object:
    if isinstance(value, ParsedBlock):
        return {name: plainValues(inner) for name, inner in value.values.items()}
    if isinstance(value, dict):
        return {name: plainValues(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plainValues(inner) for inner in value]
    return value
