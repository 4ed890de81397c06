"""Mappings C{PATTERN=KIND:WHAT} of subjects to schemas and tables; the first match counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from natsbroker.spark.codecs.avrocodec import confluent, readAvro, registeredAvro, singleObjects
from natsbroker.spark.codecs.datatypes import readSchema
from natsbroker.spark.codecs.jsoncodec import JSONCodec, registeredJSON
from natsbroker.spark.codecs.payloads import BadPayload, Codec
from natsbroker.spark.codecs.protobufcodec import ProtobufCodec, registeredProtobuf
from natsbroker.spark.codecs.registry import RegistryAccess, SchemaRegistry
from natsbroker.spark.errors import OptionError
from natsbroker.subjects.grammar import isValidSubject, matches

#: The end of the name of a table of dead letters, and its beginning if their subject
#: matches no mapping.
DLQ, OTHERS = "__dlq", "others"

KINDS = ("json", "avro", "avro-single", "avro-confluent", "protobuf", "registry")

_TEXT = re.compile(rf"(?P<pattern>\S+?)=(?P<kind>{'|'.join(KINDS)}):(?P<what>.+)", re.S)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.A)


@dataclass(frozen=True)
class PayloadMapping:
    """
    @ivar what: the columns in Spark's language, the name of a schema, or the name of a message. For
        a registry, the number of a schema and the message, such as C{7#pkg.Order}.
    @ivar isUnknownBad: whether fields unknown to the schema make a payload bad.
    """

    text: str
    pattern: str
    table: str
    kind: str
    what: str
    files: tuple[tuple[str, bytes], ...] = ()
    isUnknownBad: bool = True
    registry: RegistryAccess | None = None


def readMappings(
    texts: Sequence[str],
    names: Mapping[str, str],
    isUnknownBad: bool = True,
    registry: RegistryAccess | None = None,
) -> tuple[PayloadMapping, ...]:
    if not texts:
        raise OptionError("name at least one schema: PATTERN=KIND:WHAT")
    mappings: list[PayloadMapping] = []
    for text in texts:
        parts = _TEXT.fullmatch(text)
        if parts is None:
            kinds = ", ".join(KINDS)
            raise OptionError(f"schema: {text!r} is not PATTERN=KIND:WHAT with one of {kinds}")
        pattern, kind = parts["pattern"], parts["kind"]
        if not isValidSubject(pattern.encode("utf-8", "surrogateescape")):
            raise OptionError(f"schema: {pattern!r} is not a subject")
        try:
            what, files = _contents(kind, parts["what"])
        except OSError as error:
            raise OptionError(f"{error.filename}: {error.strerror or error}") from None
        if kind == "registry":
            if registry is None or not registry.url:
                raise OptionError(f"schema: {text} needs a registry")
            # The newest schema of the registry, so that all workers have the same columns.
            subject, _, message = what.partition("#")
            what = f"{SchemaRegistry(registry).latest(subject)}#{message}"
        table = names.get(pattern) or _named(pattern)
        made = PayloadMapping(text, pattern, table, kind, what, files, isUnknownBad, registry)
        codecOf(made)
        mappings.append(made)
    _checkTables(mappings, names)
    return tuple(mappings)


def placeOf(mappings: Sequence[PayloadMapping], subject: str) -> int:
    literal = subject.encode("utf-8", "surrogateescape")
    for place, mapping in enumerate(mappings):
        if matches(mapping.pattern.encode("utf-8", "surrogateescape"), literal):
            return place
    return -1


@lru_cache(maxsize=64)
def codecOf(mapping: PayloadMapping) -> Codec:
    if mapping.kind == "json":
        return JSONCodec(readSchema(mapping.what), mapping.isUnknownBad)
    if mapping.kind == "protobuf":
        [(name, data)] = mapping.files
        return ProtobufCodec(data, name, mapping.what, mapping.isUnknownBad)
    if mapping.kind == "registry" and mapping.registry is not None:
        return _registered(mapping, SchemaRegistry(mapping.registry))
    files = dict(mapping.files)
    if mapping.kind == "avro":
        return readAvro(files[mapping.what], mapping.what)
    if mapping.kind == "avro-single":
        return singleObjects(files, mapping.what)
    return confluent(files, mapping.what)


def _registered(mapping: PayloadMapping, registry: SchemaRegistry) -> Codec:
    """
    A codec for the columns of one schema. Payloads of another one in JSON and Protobuf are read
    without fields unknown to this one.
    """
    digits, _, message = mapping.what.partition("#")
    number, isUnknownBad = int(digits), mapping.isUnknownBad
    try:
        kind = registry.schema(number).kind
        if kind == "AVRO":
            return registeredAvro(registry, number)
        if kind == "PROTOBUF":
            return registeredProtobuf(registry, number, message, isUnknownBad)
        if kind == "JSON":
            return registeredJSON(registry, number, isUnknownBad)
    except BadPayload as error:
        raise OptionError(str(error)) from None
    raise OptionError(f"registry: schema {number} is {kind}: AVRO, PROTOBUF and JSON are supported")


def _named(pattern: str) -> str:
    words = {"*": "any", ">": "all"}
    tokens = [
        words.get(token, re.sub(r"\W", "_", token, flags=re.A)) for token in pattern.split(".")
    ]
    return "_".join(tokens)


def _checkTables(mappings: Sequence[PayloadMapping], names: Mapping[str, str]) -> None:
    patterns = {mapping.pattern for mapping in mappings}
    for pattern in names:
        if pattern not in patterns:
            raise OptionError(f"table: there is no schema for {pattern}")
    seen: dict[str, str] = {OTHERS: "messages without a schema"}
    for mapping in mappings:
        name = mapping.table
        if not _NAME.fullmatch(name) or name.endswith(DLQ):
            raise OptionError(f"table: {name!r} cannot be the name of a table; see --table")
        if name.lower() in seen:
            raise OptionError(
                f"table: {name} is the table of {seen[name.lower()]} and of {mapping.pattern}: say"
                f" --table {mapping.pattern}=NAME"
            )
        seen[name.lower()] = mapping.pattern


def _contents(kind: str, what: str) -> tuple[str, tuple[tuple[str, bytes], ...]]:
    if kind == "registry":
        return what, ()
    if kind == "json":
        if len(what) > 1 and what[0] == what[-1] and what[0] in "\"'":
            return what[1:-1], ()
        try:
            return Path(what).read_text("utf-8"), ()
        except UnicodeDecodeError:
            raise OptionError(f"{what}: it is not a text") from None
    if kind == "avro" or (kind == "avro-single" and "#" not in what):
        path = Path(what)
        return path.name, ((path.name, path.read_bytes()),)
    place, _, which = what.rpartition("#")
    if not place or not which:
        form = "FILE#MESSAGE" if kind == "protobuf" else "DIRECTORY#SCHEMA"
        raise OptionError(f"schema: {what!r} is not {form}")
    paths = [Path(place)]
    if kind != "protobuf":
        paths = sorted(file for file in paths[0].iterdir() if file.suffix == ".avsc")
    return which, tuple((file.name, file.read_bytes()) for file in paths)
