"""
The nats-server.conf language: text to a tree of tables, arrays and scalars, in time that grows with
the length of the text.

Files and environment arrive as arguments. Text that nats-server 2.15 accepts and this module
refuses, on purpose:

  - a file that includes itself, and more than L{MAX_INCLUDES} inclusions;
  - a text that ends inside of quotes (nats-server drops the text before them);
  - a key of a map without a value, and a number with an unknown unit (nats-server drops
    those silently, or gives the value to another key);
  - a number that does not fit into 64 bits once its unit is applied;
  - references that repeat themselves into more than L{MAX_EXPANSION} values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from natsbroker.config.errors import ConfigError, Position, SyntaxProblem
from natsbroker.config.files import readText
from natsbroker.config.language.lexer import Lexeme, Lexer
from natsbroker.config.language.scalars import (
    LexemeKind,
    booleanFrom,
    datetimeFrom,
    floatFrom,
    integerFrom,
)
from natsbroker.config.language.tree import (
    ArrayNode,
    Node,
    Scalar,
    ScalarNode,
    TableEntry,
    TableNode,
)

MAX_INCLUDES = 1000
"""The most files that one configuration may include, repeated ones too."""

MAX_NESTING = 30
"""The greatest depth of inclusions, and of variables of the environment in each other."""

MAX_EXPANSION = 1_000_000
"""The most values that references may repeat, all together."""

_BCRYPT = "2a$"
_HASH = re.compile(r"^(2[by]\$).*", re.DOTALL)
_ENVIRONMENT_KEY = "pk"
_REFERENCE = "variable reference for"

_CONVERSIONS: dict[LexemeKind, Callable[[str], Scalar]] = {
    LexemeKind.STRING: str,
    LexemeKind.BOOLEAN: booleanFrom,
    LexemeKind.INTEGER: integerFrom,
    LexemeKind.FLOAT: floatFrom,
    LexemeKind.DATETIME: datetimeFrom,
}


def parseFile(
    path: str, environment: Mapping[str, str], read: Callable[[str], str] = readText
) -> TableNode:
    reader = _LexemeReader(environment, read)
    return reader.file(path, Position(path))


def parse(
    text: str,
    environment: Mapping[str, str],
    source: str = "",
    read: Callable[[str], str] = readText,
) -> TableNode:
    """
    @param source: what errors name as the file; inclusions are relative to its folder.
    """
    return _LexemeReader(environment, read).text(text, source)


@dataclass
class _LexemeReader:
    """
    @ivar opened: the paths that are being read, the outermost first.
    @ivar resolving: the names of the environment that are being read.
    """

    environment: Mapping[str, str]
    read: Callable[[str], str]
    opened: list[str] = field(default_factory=list)
    resolving: list[str] = field(default_factory=list)
    resolved: dict[str, Node | None] = field(default_factory=dict)
    included: int = 0
    expanded: int = 0

    def file(self, path: str, wanted: Position) -> TableNode:
        if path in self.opened:
            chain = " -> ".join([*self.opened[self.opened.index(path) :], path])
            raise SyntaxProblem(f"file includes itself: {chain}", position=wanted)
        if len(self.opened) >= MAX_NESTING:
            raise SyntaxProblem(f"include '{path}' nests too deep", position=wanted)
        try:
            text = self.read(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise SyntaxProblem(f"open {path}: {reason}", position=wanted) from None
        self.opened.append(path)
        try:
            return self.text(text, path)
        finally:
            self.opened.pop()

    def text(self, text: str, source: str) -> TableNode:
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise SyntaxProblem(f"not text: {error}", position=Position(source)) from None
        return _Assembly(self, text, source).table()

    def fromEnvironment(self, name: str) -> Node | None:
        if name in self.resolving:
            raise SyntaxProblem(f"variable reference cycle for '{name}'")
        if len(self.resolving) >= MAX_NESTING:
            raise SyntaxProblem(f"variable reference '{name}' nests too deep")
        if name not in self.resolved:
            try:
                text = self.environment.get(name)
            except (UnicodeError, ValueError):  # a name that the platform cannot have
                text = None
            self.resolving.append(name)
            try:
                table = self.text(f"{_ENVIRONMENT_KEY}={text}", "") if text is not None else None
            finally:
                self.resolving.pop()
            entry = table.entries.get(_ENVIRONMENT_KEY) if table else None
            self.resolved[name] = entry.node if entry else None
        return self.resolved[name]

    def countInclude(self, position: Position) -> None:
        self.included += 1
        if self.included > MAX_INCLUDES:
            message = f"more than {MAX_INCLUDES} files are included"
            raise SyntaxProblem(message, position=position)

    def countExpansion(self, node: Node, position: Position) -> None:
        self.expanded += node.weight
        if self.expanded > MAX_EXPANSION:
            message = f"references repeat more than {MAX_EXPANSION} values"
            raise SyntaxProblem(message, position=position)


@dataclass
class _OpenTable:
    position: Position
    entries: dict[str, TableEntry] | None
    items: list[Node]
    weight: int = 1
    key: Lexeme | None = None


class _Assembly:
    def __init__(self, reader: _LexemeReader, text: str, source: str) -> None:
        self._reader = reader
        self._lexer = Lexer(text, source)
        self._places = self._lexer.places
        self._source = source
        self._length = len(text)
        self._open = [_OpenTable(Position(source, 1, 1), {}, [])]

    def table(self) -> TableNode:
        for token in self._lexer:
            self._take(token)
        top = self._open[0]
        if top.key is not None and top.key.text != "}":
            position = self._places.at(top.key.offset)
            raise SyntaxProblem(f"config is invalid: '{top.key.text}' has no value", "", position)
        if top.entries is None:
            raise TypeError("the top level of a configuration is a map")
        return TableNode(top.position, top.entries, top.weight)

    def _take(self, token: Lexeme) -> None:
        kind = token.kind
        if kind is LexemeKind.KEY:
            self._open[-1].key = token
        elif kind is LexemeKind.MAP_START:
            self._open.append(_OpenTable(self._places.at(token.offset), {}, []))
        elif kind is LexemeKind.ARRAY_START:
            self._open.append(_OpenTable(self._places.at(token.offset), None, []))
        elif kind in (LexemeKind.MAP_END, LexemeKind.ARRAY_END):
            self._close()
        elif kind is LexemeKind.VARIABLE:
            self._put(self._referenced(token))
        elif kind is LexemeKind.INCLUDE:
            self._include(token)
        else:
            self._put(self._leaf(token))

    def _close(self) -> None:
        ended = self._open.pop()
        if ended.entries is None:
            self._put(ArrayNode(ended.items, ended.position, ended.weight))
        else:
            self._put(TableNode(ended.position, ended.entries, ended.weight))

    def _put(self, node: Node) -> None:
        around = self._open[-1]
        around.weight += node.weight
        if around.entries is None:
            around.items.append(node)
        elif around.key is not None:
            key = around.key
            around.entries[key.text] = TableEntry(key.text, node, self._places.at(key.offset))
            around.key = None

    def _leaf(self, token: Lexeme) -> ScalarNode:
        position = self._places.at(token.offset)
        try:
            value = _CONVERSIONS[token.kind](token.text)
        except ValueError as error:
            raise SyntaxProblem(str(error), position=position) from None
        isSized = token.kind is LexemeKind.INTEGER and token.text[-1:].isalpha()
        return ScalarNode(value, position, token.text if isSized else "")

    def _referenced(self, token: Lexeme) -> Node:
        name, position = token.text, self._places.at(token.offset)
        if name.startswith(_BCRYPT):
            return ScalarNode("$" + name, position)
        node = self._fromContext(name)
        if node is None:
            node = self._fromEnvironment(name, position)
        self._reader.countExpansion(node, position)
        return replace(node, position=position)

    def _fromContext(self, name: str) -> Node | None:
        for around in reversed(self._open):
            entry = (around.entries or {}).get(name)
            if entry is not None:
                entry.used = True
                return entry.node
        return None

    def _fromEnvironment(self, name: str, position: Position) -> Node:
        shown = _HASH.sub(r"\1...", name)
        about = f"{_REFERENCE} '{shown}' on line {position.line}"
        try:
            node = self._reader.fromEnvironment(name)
        except ConfigError as error:
            message = error.message
            if not message.startswith(_REFERENCE):  # a reference inside tells enough
                message = f"{about} could not be parsed: {message}"
            raise SyntaxProblem(message, position=position) from None
        if node is None:
            hint = "" if shown == name else "; a bcrypt hash needs quotes"
            raise SyntaxProblem(f"{about} can not be found{hint}", position=position)
        return replace(node, isOutside=True) if isinstance(node, ScalarNode) else node

    def _include(self, token: Lexeme) -> None:
        position = self._places.at(token.offset)
        self._reader.countInclude(position)
        path = os.path.normpath(f"{os.path.dirname(self._source) or '.'}/{token.text}")
        try:
            included = self._reader.file(path, position)
        except ConfigError as error:
            message = f"{error.message} (in include '{token.text}' at {position})"
            raise SyntaxProblem(message, position=error.position) from None
        around = self._open[-1]
        if around.entries is not None:
            around.entries.update(included.entries)
            around.weight += included.weight
