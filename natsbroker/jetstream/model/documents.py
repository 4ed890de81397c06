"""
JSON documents, each declared once: by a frozen dataclass, whose fields are the keys with their
types and their order.

Text is read as by nats-server where clients notice. Keys match without regard to case. A key with
C{null} counts as missing. The last of equal keys counts. Characters that are not Unicode become
U+FFFD. The texts of errors are msgspec's, which verifies the types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_args, get_type_hints

from msgspec import DecodeError, Meta, Raw, ValidationError, convert, json

from natsbroker.jetstream.model.gojson import EncodedList
from natsbroker.steps import PIECE, Steps, finish, pieces
from natsbroker.wire.text import decoded, whole
from natsbroker.wire.timestamps import Timestamp, formatTime, parseTime

T = TypeVar("T")

Int32 = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
UInt64 = Annotated[int, Meta(ge=0)]

_PLAIN: Final = frozenset({str, int, bool})

_MOST_BITS: Final = 64
"""
The size of the largest integer, in bits. msgspec supports no larger bound than that of C{Int64}.
"""

Always = Annotated[T, "always"]
"""The type of a key that is shown even if its value is the one that it has by default."""


class JsonError(ValueError):
    """A text that is not JSON, or JSON that is not the expected document."""


class LongList(tuple[T, ...]):
    """
    A list of more elements than make a step. It is encoded once, when it is read, and two are equal
    if their texts are.

    @ivar text: the JSON of it.
    """

    text: Raw

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, LongList) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    # Lists with the same text have the same elements.
    __hash__ = tuple.__hash__


class _Key(NamedTuple):
    """
    @ivar nested: the class of the documents in the value; C{None} for a plain value.
    @ivar isAlways: whether the key is shown with any value, and not only if it is not the default.
    """

    nested: type | None
    isAlways: bool
    default: Any


_KEYS: dict[type, Mapping[str, _Key]] = {}


def _keysOf(kind: type) -> Mapping[str, _Key]:
    if kind not in _KEYS:
        hints, empty = get_type_hints(kind, include_extras=True), kind()
        _KEYS[kind] = {
            field.name: _keyOf(hints[field.name], getattr(empty, field.name))
            for field in fields(kind)
        }
    return _KEYS[kind]


def _keyOf(hint: Any, default: Any) -> _Key:
    isAlways = "always" in getattr(hint, "__metadata__", ())
    return _Key(_documentIn(hint), isAlways, default)


def _documentIn(hint: Any) -> type | None:
    if is_dataclass(hint):
        return hint if isinstance(hint, type) else None
    return next(filter(None, map(_documentIn, get_args(hint))), None)


def toJSON(document: Any, areEncoded: bool = False) -> dict[str, Any]:
    """
    The keys of a document, in their order. Maps are sorted.

    @param areEncoded: whether a L{LongList} is its text, for L{natsbroker.jetstream.model.gojson},
        or a list.
    """
    shown = {}
    for name, (_, isAlways, default) in _keysOf(type(document)).items():
        value = getattr(document, name)
        if isAlways or value != default:
            shown[name] = value if type(value) in _PLAIN else shownValue(value, areEncoded)
    return shown


def showing(value: Any) -> Steps[Any]:
    """Do what L{shownValue} does, in steps, because a document may have lists of any length."""
    if isinstance(value, tuple):
        parts = []
        for number, part in enumerate(value):
            if number % PIECE == 0:
                yield
            parts.append(part if type(part) in _PLAIN else (yield from showing(part)))
        return parts
    if not is_dataclass(value):
        return shownValue(value, False)
    shown = {}
    for name, (_, isAlways, default) in _keysOf(type(value)).items():
        inner = getattr(value, name)
        if isAlways or inner != default:
            shown[name] = inner if type(inner) in _PLAIN else (yield from showing(inner))
    return shown


def encodable(document: Any) -> dict[str, Any]:
    """
    The keys of a document for L{natsbroker.jetstream.model.gojson}, without the cost of converting
    long lists.
    """
    return toJSON(document, True)


def shownValue(value: Any, areEncoded: bool) -> Any:
    """A value of a document, as L{toJSON} has it."""
    if isinstance(value, Timestamp):
        return formatTime(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        if areEncoded and isinstance(value, LongList):
            return value.text
        return [part if type(part) in _PLAIN else shownValue(part, areEncoded) for part in value]
    if isinstance(value, dict):
        return dict(sorted(value.items()))
    return toJSON(value, areEncoded) if is_dataclass(value) else value


def read(text: bytes, kind: type[T], isStrict: bool = True) -> T:
    return finish(reading(text, kind, isStrict))


def reading(text: bytes, kind: type[T], isStrict: bool = True) -> Steps[T]:
    """
    Read a document in steps, because it may bring lists of any length.

    @param isStrict: whether unknown keys are errors.
    @raise JsonError: if the text is not such a document.
    """
    document = parsed(text)
    yield
    return (yield from documentOf(document, kind, isStrict))


def parsed(text: bytes) -> Any:
    """
    @return: the value, made of dictionaries, lists and plain values.
    @raise JsonError: if the text is not JSON.
    """
    try:
        return json.decode(whole(decoded(text)))
    except (DecodeError, RecursionError) as error:
        raise JsonError(str(error).removeprefix("JSON is malformed: ")) from error


def documentOf(document: Any, kind: type[T], isStrict: bool = True, place: str = "$") -> Steps[T]:
    """
    @param document: a value that was L{parsed}.
    @param place: its place, for the texts of errors.
    @raise JsonError: if it is not such a document.
    """
    if document is not None and not isinstance(document, dict):
        raise JsonError(f"Expected an object - at `{place}`")
    keys, values = _keysOf(kind), {}
    for key, value in (document or {}).items():
        name = key if key in keys else key.lower()
        if name not in keys:
            if isStrict:
                raise JsonError(f'json: unknown field "{key}"')
        elif value is not None:
            nested = keys[name].nested
            if nested is not None:
                value = yield from _nested(value, nested, isStrict, f"{place}.{name}")
            elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
                raise JsonError(f"Expected `int` of {_MOST_BITS} bits - at `{place}.{name}`")
            values[name] = value
    try:
        made: Any = convert(values, kind, dec_hook=lambda _, text: parseTime(text))
    except ValidationError as error:
        raise JsonError(str(error).replace("`$", f"`{place}", 1)) from error
    long = {}
    for name, value in values.items():
        if type(value) is list and len(value) > PIECE:
            long[name] = yield from _longList(getattr(made, name))
        elif type(value) is dict and len(value) > PIECE:
            yield  # A long map is verified in one piece, and its copy is released in another.
    result: T = replace(made, **long) if long else made
    return result


def _longList(elements: tuple[T, ...]) -> Steps[LongList[T]]:
    made, text = LongList(elements), EncodedList()
    for some in pieces(elements):
        text.add([encodable(part) if is_dataclass(part) else part for part in some])
        yield
    made.text = Raw(bytes(text))
    return made


def _nested(value: Any, kind: type, isStrict: bool, place: str) -> Steps[Any]:
    """Replace objects by documents. Other values stay, and are refused with the whole."""
    if isinstance(value, dict):
        return (yield from documentOf(value, kind, isStrict, place))
    if not isinstance(value, list):
        return value
    made = []
    for number, part in enumerate(value):
        if number % PIECE == 0:
            yield
        isDocument = part is None or isinstance(part, dict)
        inside = f"{place}[{number}]"
        made.append((yield from documentOf(part, kind, isStrict, inside)) if isDocument else part)
    return made
