"""
The types that JSON is decoded into: what each accepts, and the text of the error for the rest.

A table of L{Field} describes a request once, for decoding and for encoding. Decoding is Go's: keys
match without regard to case, and C{null} changes nothing. The first value that does not fit is the
error. The texts are those of Go 1.27, with which nats-server 2.15.1 is built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from natsbroker.steps import PIECE, Steps, finish
from natsbroker.wire.gojson import (
    JsonEndError,
    JsonError,
    JsonNode,
    JsonSyntaxError,
    goQuoted,
    read,
    skipSpace,
)
from natsbroker.wire.timestamps import Timestamp, formatTime, parseTime

T = TypeVar("T")
_NUMBER = re.compile("[0-9]+")
_INTEGER = re.compile(rb"-?[0-9]+")
_FOLDED = str.maketrans({"\u017f": "s", "\u212a": "k"})


class _Decoding:
    """
    One decoding, and the place at which it is.

    @ivar root: the Go name of the outermost struct.
    @ivar path: the keys and numbers that lead to the place.
    """

    def __init__(self, text: bytes, strict: bool, root: str) -> None:
        self.text = text
        self.strict = strict
        self.root = root
        self.path: list[str] = []

    def mismatch(self, found: str, type_: str) -> JsonError:
        """
        @return: the error for a value of one type where another belongs.
        """
        if not self.path:
            return JsonError(f"json: cannot unmarshal {found} into Go value of type {type_}")
        # The path is a JSON pointer, with full stops for its slashes.
        steps = [each.replace("~", "~0").replace("/", "~1") for each in self.path]
        what = "" if _NUMBER.fullmatch(steps[-1]) else "Go struct field "
        place = f"{self.root}.{'.'.join(steps)} of type {type_}"
        return JsonError(f"json: cannot unmarshal {found} into {what}{place}")

    def raw(self, node: JsonNode) -> bytes:
        """
        @return: the text of a value.
        """
        return self.text[node.start : node.end]


class Shape:
    """
    A type of Go, as JSON shows it.

    @ivar name: what Go calls it in errors.
    @cvar isNested: whether values are read with L{steps}, because they hold any number of others.
    """

    name: str = ""
    isNested = False

    def zero(self) -> Any:
        """
        @return: the value of a field that is not there.
        """
        raise NotImplementedError

    def read(self, node: JsonNode, current: Any, decoding: _Decoding) -> Any:
        """
        @param current: the value so far: a key may come twice.
        @return: the new value.
        """
        raise NotImplementedError

    def steps(self, node: JsonNode, current: Any, decoding: _Decoding) -> Steps[Any]:
        """Do what L{read} does in steps."""
        raise NotImplementedError

    def build(self, value: Any) -> Any:
        """
        @return: the finished value for what L{read} or L{steps} returned last.
        """
        return value

    def toJSON(self, value: Any) -> Any:
        """
        @return: what is encoded for a finished value.
        """
        return value

    def isEmpty(self, value: Any) -> bool:
        """Tell whether C{omitempty} leaves this value out."""
        return not value


class _Integer(Shape):
    """A whole number within the bounds of its type."""

    def __init__(self, name: str, bits: int, signed: bool = True) -> None:
        self.name = name
        self._signed = signed
        self._least = -(1 << bits - 1) if signed else 0
        self._most = (1 << (bits - 1 if signed else bits)) - 1

    def zero(self) -> int:
        return 0

    def read(self, node: JsonNode, current: Any, decoding: _Decoding) -> Any:
        if node.kind == "null":
            return current
        if node.kind != "number":
            raise decoding.mismatch(node.kind, self.name)
        if _INTEGER.fullmatch(node.value) and (self._signed or node.value[:1] != b"-"):
            if len(node.value) <= 20:
                number = int(node.value)
                if self._least <= number <= self._most:
                    return number
        raise decoding.mismatch(f"number {node.value.decode()}", self.name)


class _Simple(Shape):
    """A string or a boolean."""

    def __init__(self, name: str, kind: str, zero: Any) -> None:
        self.name = name
        self._kind = kind
        self._zero = zero

    def zero(self) -> Any:
        return self._zero

    def read(self, node: JsonNode, current: Any, decoding: _Decoding) -> Any:
        if node.kind == self._kind:
            return node.value
        if node.kind != "null":
            raise decoding.mismatch(node.kind, self.name)
        return current


class _Time(Shape):
    """A time in RFC 3339."""

    name = "time.Time"

    def zero(self) -> Timestamp | None:
        return None

    def read(self, node: JsonNode, current: Any, decoding: _Decoding) -> Any:
        if node.kind == "null":
            return current
        if node.kind != "string":
            raise decoding.mismatch(node.kind, self.name)
        try:
            return parseTime(node.value)
        except ValueError as error:
            raise JsonError(str(error)) from error

    def toJSON(self, value: Any) -> str:
        return formatTime(value)

    def isEmpty(self, value: Any) -> bool:
        return False


class Choice(Shape):
    """One word of several, which decides by the text of the value and not by its type."""

    def __init__(
        self,
        words: type[Enum],
        refusal: Callable[[bytes], str] | None = None,
        aliases: Mapping[bytes, Enum] | None = None,
        fold: bool = False,
    ) -> None:
        """
        @param refusal: makes the error text of a value that is none of the words.
        @param aliases: further texts and what they mean.
        @param fold: whether capitals do not count.
        """
        self.name = words.__name__
        self._words = {f'"{each.value}"'.encode(): each for each in words}
        self._words.update(aliases or {})
        self._refusal = refusal or _cannotUnmarshal
        self._fold = fold
        self._zero = next(iter(words))

    def zero(self) -> Enum:
        return self._zero

    def read(self, node: JsonNode, current: Any, decoding: _Decoding) -> Any:
        text = decoding.raw(node)
        found = self._words.get(text.lower() if self._fold else text)
        if found is None:
            raise JsonError(self._refusal(text))
        return found

    def toJSON(self, value: Any) -> Any:
        return value.value

    def isEmpty(self, value: Any) -> bool:
        return value is self._zero


def _cannotUnmarshal(text: bytes) -> str:
    return f"can not unmarshal {goQuoted(text)}"


class StringChoice(Choice):
    """One word of several that is read as a string first."""

    def read(self, node: JsonNode, current: Any, decoding: _Decoding) -> Any:
        if node.kind not in ("string", "null"):
            raise JsonError(f"json: cannot unmarshal {node.kind} into Go value of type string")
        found = self._words.get(f'"{node.value}"'.encode())
        if found is None:
            raise JsonError(self._refusal(decoding.raw(node)))
        return found


class ListOf(Shape):
    """A slice."""

    isNested = True

    def __init__(self, item: Shape) -> None:
        self.name = f"[]{item.name}"
        self._item = item

    def zero(self) -> Any:
        return ()

    def steps(self, node: JsonNode, current: Any, decoding: _Decoding) -> Steps[Any]:
        if node.kind == "null":
            return ()
        if node.kind != "array":
            raise decoding.mismatch(node.kind, self.name)
        item, items = self._item, []
        for place, each in enumerate(node.value, 1):
            decoding.path.append(str(place - 1))
            if item.isNested:
                value = yield from item.steps(each, item.zero(), decoding)
            else:
                value = item.read(each, item.zero(), decoding)
            items.append(item.build(value))
            decoding.path.pop()
            if place % PIECE == 0:
                yield
        return tuple(items)

    def toJSON(self, value: Any) -> Any:
        return [self._item.toJSON(each) for each in value]


class MapOf(Shape):
    """A map with strings as keys. It is encoded in the order of the keys."""

    isNested = True

    def __init__(self, item: Shape) -> None:
        self.name = f"map[string]{item.name}"
        self._item = item

    def zero(self) -> Any:
        return {}

    def steps(self, node: JsonNode, current: Any, decoding: _Decoding) -> Steps[Any]:
        if node.kind == "null":
            return {}
        if node.kind != "object":
            raise decoding.mismatch(node.kind, self.name)
        item = self._item
        items = current  # A copy for each time that the key comes would be quadratic.
        for place, (key, each) in enumerate(node.value, 1):
            decoding.path.append(key)
            if item.isNested:
                value = yield from item.steps(each, item.zero(), decoding)
            else:
                value = item.read(each, item.zero(), decoding)
            items[key] = item.build(value)
            decoding.path.pop()
            if place % PIECE == 0:
                yield
        return items

    def toJSON(self, value: Any) -> Any:
        return {key: self._item.toJSON(value[key]) for key in sorted(value)}


class Optional(Shape):
    """A pointer: C{None} for C{null} and for a field that is not there."""

    def __init__(self, target: Shape) -> None:
        self.name = f"*{target.name}"
        self.isNested = target.isNested
        self._target = target

    def zero(self) -> Any:
        return None

    def read(self, node: JsonNode, current: Any, decoding: _Decoding) -> Any:
        if node.kind == "null":
            return None
        return self._target.read(node, self._before(current), decoding)

    def steps(self, node: JsonNode, current: Any, decoding: _Decoding) -> Steps[Any]:
        if node.kind == "null":
            return None
        return (yield from self._target.steps(node, self._before(current), decoding))

    def _before(self, current: Any) -> Any:
        return self._target.zero() if current is None else current

    def build(self, value: Any) -> Any:
        return None if value is None else self._target.build(value)

    def toJSON(self, value: Any) -> Any:
        return None if value is None else self._target.toJSON(value)

    def isEmpty(self, value: Any) -> bool:
        return value is None


@dataclass(frozen=True)
class Field:
    """
    One key of a struct.

    @ivar name: the key, and the name of the attribute.
    @ivar always: whether an empty value is encoded too.
    """

    name: str
    shape: Shape
    always: bool = False


@dataclass(frozen=True)
class Struct(Shape, Generic[T]):
    """
    A struct, and the class of ours that stands for it.

    @ivar type_: what Go calls it, without its package.
    @ivar make: makes the finished value from keyword arguments.
    """

    isNested = True

    type_: str
    make: Callable[..., T]
    fields: Sequence[Field]
    _exact: dict[str, Field] = field(init=False, repr=False, compare=False)
    _folded: dict[str, Field] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"server.{self.type_}")
        object.__setattr__(self, "_exact", {each.name: each for each in self.fields})
        object.__setattr__(self, "_folded", {each.name.lower(): each for each in self.fields})

    def zero(self) -> dict[str, Any]:
        return {}

    def steps(self, node: JsonNode, current: Any, decoding: _Decoding) -> Steps[Any]:
        if node.kind == "null":
            return current
        if node.kind != "object":
            raise decoding.mismatch(node.kind, self.name)
        values = current
        for place, (key, child) in enumerate(node.value, 1):
            if place % PIECE == 0:
                yield
            found = self._exact.get(key) or self._folded.get(key.translate(_FOLDED).lower())
            if found is None:
                if decoding.strict:
                    raise JsonError(f"json: unknown field {goQuoted(key)}")
                continue
            decoding.path.append(key)
            shape = found.shape
            before = values[found.name] if found.name in values else shape.zero()
            if shape.isNested:
                values[found.name] = yield from shape.steps(child, before, decoding)
            else:
                values[found.name] = shape.read(child, before, decoding)
            decoding.path.pop()
        return values

    def build(self, value: Any) -> T:
        shapes = self._exact
        return self.make(**{key: shapes[key].shape.build(each) for key, each in value.items()})

    def toJSON(self, value: Any) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        for each in self.fields:
            item = getattr(value, each.name)
            if each.always or not each.shape.isEmpty(item):
                answer[each.name] = each.shape.toJSON(item)
        return answer

    def isEmpty(self, value: Any) -> bool:
        return False


STRING: Final = _Simple("string", "string", "")
BOOL: Final = _Simple("bool", "bool", False)
INT: Final = _Integer("int", 64)
INT32: Final = _Integer("int32", 32)
INT64: Final = _Integer("int64", 64)
UINT64: Final = _Integer("uint64", 64, signed=False)
UINT16: Final = _Integer("uint16", 16, signed=False)
DURATION: Final = _Integer("time.Duration", 64)
TIME: Final = _Time()


def decode(text: bytes, shape: Struct[T]) -> T:
    return finish(decodeInSteps(text, shape))


def decodeInSteps(text: bytes, shape: Struct[T]) -> Steps[T]:
    """
    Decode a request of the API: unknown keys are errors, and errors of syntax name their offset.

    Several values may follow each other; the later ones overwrite keys of the earlier. An empty
    text is a request without any key.

    @raise JsonError: if the text is not such a request.
    """
    position, value = skipSpace(text), shape.zero()
    while position < len(text):
        try:
            node = yield from read(text, position)
        except JsonSyntaxError as error:
            raise JsonError(f"{error} at offset {error.offset}") from error
        value = yield from _decoded(node, text, shape, value, strict=True)
        position = skipSpace(text, node.end)
        yield
    return shape.build(value)


def decodeLoosely(text: bytes, shape: Struct[T]) -> T:
    return finish(decodeLooselyInSteps(text, shape))


def decodeLooselyInSteps(text: bytes, shape: Struct[T]) -> Steps[T]:
    """
    Decode a text that holds one value, and pass over unknown keys.

    @raise JsonError: if the text is not such a request.
    """
    try:
        node = yield from read(text)
    except JsonEndError as error:
        raise JsonError("unexpected end of JSON input") from error
    position = skipSpace(text, node.end)
    if position < len(text):
        shown = goQuoted(chr(text[position]))[1:-1]
        raise JsonError(f"invalid character '{shown}' after top-level value")
    return shape.build((yield from _decoded(node, text, shape, shape.zero(), strict=False)))


def _decoded(node: JsonNode, text: bytes, shape: Struct[T], value: Any, strict: bool) -> Steps[Any]:
    """
    @return: the value so far with the keys of the node.
    """
    return (yield from shape.steps(node, value, _Decoding(text, strict, shape.type_)))
