"""
A JSON object from outside, read member by member.

As in nats-server, names ignore case, and C{null} means absent. Duplicate names, wrong types,
integers beyond 64 bits, and text that is not Unicode are refused with L{FieldError}, however deep
or malformed the input.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

_LARGEST = 1 << 63


class FieldError(ValueError):
    pass


class _Pairs(list[tuple[str, Any]]):
    pass


class Fields:
    __slots__ = ("_members",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self._members: dict[str, Any] = {}
        for name, value in pairs:
            folded = name.casefold()
            if folded in self._members:
                raise FieldError(f"{_shown(name)} is given twice")
            self._members[folded] = value

    @classmethod
    def parse(cls, data: bytes) -> Fields:
        """Read a JSON object; L{FieldError} if the data is not one."""
        try:
            value = json.loads(
                data.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_Pairs
            )
        except (ValueError, RecursionError) as error:
            raise FieldError("not JSON") from error
        if not isinstance(value, _Pairs):
            raise FieldError("not a JSON object")
        return cls(value)

    def __contains__(self, name: str) -> bool:
        return self._members.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def part(self, names: Collection[str], **more: Any) -> Fields:
        """The members with these lower-case names, and further JSON values or L{Fields}."""
        members = {name: value for name, value in self._members.items() if name in names}
        for name, value in more.items():
            isObject = isinstance(value, Fields)
            members[name] = _Pairs(value._members.items()) if isObject else value
        return Fields(list(members.items()))

    def text(self, name: str) -> str:
        value = self._take(name, str)
        return "" if value is None else _text(name, value)

    def integer(self, name: str, absent: int = 0) -> int:
        value = self._members.get(name)
        if value is None:
            return absent
        return _integer(name, value)

    def flag(self, name: str) -> bool:
        return bool(self._take(name, bool))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(_text(name, item) for item in self._take(name, list) or ())

    def integers(self, name: str) -> dict[str, int]:
        """The members of an object of integers, whose names keep their case."""
        pairs = self._take(name, _Pairs) or _Pairs()
        return {_text(name, key): _integer(name, value) for key, value in pairs}

    def block(self, name: str) -> Fields | None:
        pairs = self._take(name, _Pairs)
        return None if pairs is None else Fields(pairs)

    def blocks(self, name: str) -> list[Fields]:
        return [_block(name, item) for item in self._take(name, list) or ()]

    def blocksByName(self, name: str) -> dict[str, list[Fields]]:
        """The members of an object of arrays of objects, whose names keep their case."""
        pairs = self._take(name, _Pairs) or _Pairs()
        blocks = {}
        for key, value in pairs:
            if type(value) is not list:
                raise FieldError(f"{name} has the wrong type")
            blocks[_text(name, key)] = [_block(name, item) for item in value]
        return blocks

    def textsOrBlocks(self, name: str) -> list[str | Fields]:
        return [
            _text(name, item) if isinstance(item, str) else _block(name, item)
            for item in self._take(name, list) or ()
        ]

    def isText(self, name: str) -> bool:
        return isinstance(self._members.get(name), str)

    def _take(self, name: str, kind: type[Any]) -> Any:
        value = self._members.get(name)
        if value is not None and type(value) is not kind:
            raise FieldError(f"{name} has the wrong type")
        return value


def _block(name: str, value: Any) -> Fields:
    if type(value) is not _Pairs:
        raise FieldError(f"{name} has the wrong type")
    return Fields(value)


def _integer(name: str, value: Any) -> int:
    if type(value) is not int or not -_LARGEST <= value < _LARGEST:
        raise FieldError(f"{name} is not an integer of 64 bits")
    return value


def _text(name: str, value: Any) -> str:
    if type(value) is not str:
        raise FieldError(f"{name} is not a text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FieldError(f"{name} is not Unicode") from error
    return value


def _shown(name: str) -> str:
    return ascii(name[:64])


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def encoded(subjects: Iterable[str]) -> list[bytes]:
    return [subject.encode("utf-8") for subject in subjects]
