"""
In which types the value of a key may be written.

This module promises a closed set of types, each of which says which nodes it takes and
turns one into a Python value.  It must never know which keys exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from natsbroker.config.addresses import splitAddress
from natsbroker.config.language.tree import Array, Leaf, Node, Scalar, Table
from natsbroker.wire.durations import secondsFrom


@dataclass(frozen=True)
class ValueType:
    """
    One way to write a value.

    @ivar name: with its article, for errors and the reference manual.
    @ivar takes: tells whether a node is written in this way.
    @ivar read: makes the value; raises L{ValueError} with what is wrong.
    """

    name: str
    takes: Callable[[Node], bool]
    read: Callable[[Node], object]


@dataclass(frozen=True)
class Section:
    """
    The keys of a block.

    @ivar title: what the reference manual calls it.
    @ivar keys: by canonical name.
    @ivar opener: other keys are allowed, and kept, in a block that has this key.
    @ivar variables: a key that is not known is fine when a C{$reference} uses it.
    """

    title: str
    keys: Mapping[str, Key]
    opener: str = ""
    variables: bool = True
    _spellings: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, key in self.keys.items():
            for spelling in (name, *key.aliases):
                self._spellings[spelling] = name

    def canonical(self, spelling: str) -> str | None:
        """
        Find the name of a key from any of its spellings, in any case.
        """
        return self._spellings.get(spelling.lower())


@dataclass(frozen=True)
class BlockType:
    """
    The form of a value that is a map with known keys.
    """

    section: Section
    name: str = "a map"

    def takes(self, node: Node) -> bool:
        """
        Tell whether a node is written in this way.
        """
        return isinstance(node, Table)


@dataclass(frozen=True)
class ListType:
    """
    The form of an array whose items are all read alike.
    """

    item: Key
    name: str = "an array"

    def takes(self, node: Node) -> bool:
        """
        Tell whether a node is written in this way.
        """
        return isinstance(node, Array)


@dataclass(frozen=True)
class MapType:
    """
    The form of a map with names of the operator's choice, whose values are all read alike.

    @ivar variables: an entry that a C{$reference} uses is left out.
    """

    item: Key
    variables: bool = False
    name: str = "a map"

    def takes(self, node: Node) -> bool:
        """
        Tell whether a node is written in this way.
        """
        return isinstance(node, Table)


AnyType = ValueType | BlockType | ListType | MapType


class Key:
    """
    What is known about a key.

    @ivar types: the ways to write its value; the first that takes a node reads it.
    @ivar aliases: other spellings.
    """

    __slots__ = ("aliases", "types")

    def __init__(self, *types: AnyType, aliases: str = "") -> None:
        self.types = types
        self.aliases = tuple(aliases.split())

    @property
    def written(self) -> str:
        """
        Name the types, for errors.
        """
        return " or ".join(form.name for form in self.types)


def plain(node: Node) -> object:
    """
    Turn a node into what C{json.loads} would give.
    """
    if isinstance(node, Leaf):
        return node.value
    if isinstance(node, Array):
        return [plain(item) for item in node.items]
    return {entry.key: plain(entry.node) for entry in node}


def _leaf(*kinds: type) -> Callable[[Node], bool]:
    return lambda node: isinstance(node, Leaf) and type(node.value) in kinds


def _value(node: Node) -> Scalar:
    if not isinstance(node, Leaf):
        raise TypeError(f"{type(node).__name__} has no value")
    return node.value


def _seconds(node: Node) -> float:
    value = _value(node)
    return secondsFrom(value) if isinstance(value, str) else _number(value)


def _number(value: Scalar) -> float:
    if not isinstance(value, (int, float)):
        raise TypeError(f"{type(value).__name__} is no number")
    return float(value)


def _address(node: Node) -> tuple[str, int]:
    value = _value(node)
    if isinstance(value, str):
        return splitAddress(value)
    return "", int(_number(value))


def _size(node: Node) -> int:
    value = _value(node)
    if isinstance(value, int):
        return value
    found = re.fullmatch(r"(-?[0-9]{1,18})([KMGT])", str(value))
    if found is None and value:
        raise ValueError("sizes written as strings must end in K, M, G or T")
    return int(found[1]) << " KMGT".index(found[2]) * 10 if found else 0


def _enabled(node: Node) -> bool:
    value = str(_value(node)).lower()
    if value not in ("enabled", "enable", "disabled", "disable"):
        raise ValueError(f"Expected 'enabled' or 'disabled' for string value, got '{value}'")
    return value.startswith("enable")


def _policy(node: Node) -> str:
    value = str(_value(node))
    if value not in ("default", "close", "retry"):
        raise ValueError("must be 'default', 'close' or 'retry'")
    return value


def _isAlways(node: Node) -> bool:
    return isinstance(node, Leaf) and str(node.value).lower() == "always"


def _isHeaders(node: Node) -> bool:
    return isinstance(node, Leaf) and str(node.value).strip().lower() == "headers"


def _percentage(node: Node) -> int:
    value = _value(node)
    text = str(value).removesuffix("%")
    if re.fullmatch(r"[0-9]{1,3}", text) is None or int(text) > 100:
        raise ValueError(f'"{value}" is not a percentage')
    return int(text)


BOOLEAN = ValueType("a boolean", _leaf(bool), _value)
INTEGER = ValueType("an integer", _leaf(int), _value)
STRING = ValueType("a string", _leaf(str), _value)
DURATION = ValueType("a duration", _leaf(str), _seconds)
OLD_DURATION = ValueType("an integer of seconds", _leaf(int), _seconds)
SECONDS = ValueType("a number of seconds", _leaf(int, float), _seconds)
ADDRESS = ValueType("a port or host:port", _leaf(int, str), _address)
SIZE = ValueType("a size", _leaf(int, str), _size)
PERCENTAGE = ValueType("a percentage", _leaf(int, str), _percentage)
ENABLED = ValueType('"enabled" or "disabled"', _leaf(str), _enabled)
ALWAYS = ValueType('"always"', _isAlways, _value)
WRITE_POLICY = ValueType("a string", _leaf(str), _policy)
HEADERS = ValueType('"headers"', _isHeaders, lambda node: "headers")
ANY_MAP = ValueType("a map", lambda node: isinstance(node, Table), plain)
