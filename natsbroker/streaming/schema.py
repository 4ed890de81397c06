"""
Message classes of Google's protobuf library, made from the text of a C{.proto} file.

Promises: the subset of proto3 that our files are written in (messages and enumerations at the top,
scalar and enumeration fields, C{repeated}); anything else in a file is an error when it is loaded,
not a guess. The classes live in a descriptor pool of their own, so another program's messages of
the same name do not collide with ours. A test holds the result equal to what protoc makes.
Must never know: what a message means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

__all__ = ["SchemaError", "describe", "messageClasses"]

_TOKEN = re.compile(r'\s+|//[^\n]*|([A-Za-z_][\w.]*|\d+|"[^"]*"|[{}=;])')

_SCALARS = {
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "string": FieldDescriptorProto.TYPE_STRING,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
}


class SchemaError(ValueError):
    """
    The text is not in the subset of proto3 that is understood.
    """


def messageClasses(text: str, name: str) -> dict[str, Any]:
    """
    Make the classes of all messages of a file.

    @param name: of the file, for the descriptors.
    @return: the classes by the messages' names.
    @raise SchemaError: if the text is not understood.
    """
    pool = DescriptorPool()
    pool.AddSerializedFile(describe(text, name).SerializeToString())
    messages = pool.FindFileByName(name).message_types_by_name
    return {each: GetMessageClass(descriptor) for each, descriptor in messages.items()}


def describe(text: str, name: str) -> FileDescriptorProto:
    """
    Read a file.

    @raise SchemaError: if the text is not understood.
    """
    return _Reader(text).file(name)


def _tokensOf(text: str) -> Iterator[str]:
    offset = 0
    while offset < len(text):
        found = _TOKEN.match(text, offset)
        if found is None:
            raise SchemaError(f"not understood: {text[offset : offset + 20]!r}")
        if found[1]:
            yield found[1]
        offset = found.end()


class _Reader:
    """
    Reads one file, token by token.
    """

    def __init__(self, text: str) -> None:
        self._tokens = _tokensOf(text)
        self._enumerations: set[str] = set()

    def file(self, name: str) -> FileDescriptorProto:
        """
        All of it.
        """
        self._expect("syntax", "=", '"proto3"', ";", "package")
        file = FileDescriptorProto(name=name, syntax="proto3", package=self._word())
        self._expect(";")
        for word in self._tokens:
            if word == "message":
                file.message_type.append(self._message(file.package))
            elif word == "enum":
                file.enum_type.append(self._enumeration())
            else:
                raise SchemaError(f"not understood: {word}")
        return file

    def _word(self) -> str:
        return next(self._tokens, "the end")

    def _expect(self, *words: str) -> None:
        for word in words:
            found = self._word()
            if found != word:
                raise SchemaError(f"{word} expected, not {found}")

    def _body(self) -> Iterator[str]:
        """
        The first token of each statement between braces.
        """
        self._expect("{")
        for word in self._tokens:
            if word == "}":
                return
            yield word
        raise SchemaError("a brace is not closed")

    def _number(self) -> int:
        self._expect("=")
        number = self._word()
        if not number.isdecimal():
            raise SchemaError(f"a number expected, not {number}")
        self._expect(";")
        return int(number)

    def _enumeration(self) -> EnumDescriptorProto:
        made = EnumDescriptorProto(name=self._word())
        for word in self._body():
            made.value.add(name=word, number=self._number())
        self._enumerations.add(made.name)
        return made

    def _message(self, package: str) -> DescriptorProto:
        made = DescriptorProto(name=self._word())
        for word in self._body():
            label = FieldDescriptorProto.LABEL_OPTIONAL
            if word == "repeated":
                label = FieldDescriptorProto.LABEL_REPEATED
                word = self._word()
            field = made.field.add(name=self._word(), label=label)
            if word in _SCALARS:
                field.type = _SCALARS[word]
            elif word in self._enumerations:
                field.type = FieldDescriptorProto.TYPE_ENUM
                field.type_name = f".{package}.{word}"
            else:
                raise SchemaError(f"not a type that is known here: {word}")
            field.number = self._number()
        return made
