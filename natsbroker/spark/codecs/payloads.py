"""The common part of decoders of payloads."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from natsbroker.spark.errors import OptionError

#: The number of decoders that are kept.
_MOST = 256

_ID = struct.Struct(">bI")


class BadPayload(ValueError):
    """Bytes that are not a value of a schema."""


def numbered(data: bytes) -> tuple[int, int]:
    """The number of the schema in Confluent's five bytes, and the place of the value."""
    if len(data) < _ID.size or data[0]:
        raise BadPayload("it does not begin with a zero byte and the number of a schema")
    return int(_ID.unpack_from(data)[1]), _ID.size


class Codec(Protocol):
    columns: Any

    def decode(self, data: bytes) -> Mapping[str, Any]:
        """The values by the names of the columns; missing ones are null."""


@dataclass
class FramedCodec:
    """
    Reads values that name their schema. Each value is checked by its own schema, and converted to
    the columns of one schema.

    @ivar opened: gives the key of a payload's schema, and where its value begins.
    @ivar codecOf: the codec of a key; C{KeyError} if there is none.
    @ivar key: of the schema that has the columns.
    @ivar brought: converts a value of another schema, given its key, its codec and the value.
    """

    opened: Callable[[bytes], tuple[Any, int]]
    codecOf: Callable[[Any], Codec]
    key: Any
    brought: Callable[[Any, Codec, bytes], Mapping[str, Any]]

    def __post_init__(self) -> None:
        self.codecOf = lru_cache(_MOST)(self.codecOf)
        self.columns = self.codecOf(self.key).columns

    def decode(self, data: bytes) -> Mapping[str, Any]:
        try:
            key, place = self.opened(data)
            codec = self.codecOf(key)
        except OptionError as error:
            raise BadPayload(str(error)) from None
        except KeyError:
            raise BadPayload(f"its schema, {key}, is not known") from None
        fields = codec.decode(data[place:])
        return fields if key == self.key else self.brought(key, codec, data[place:])
