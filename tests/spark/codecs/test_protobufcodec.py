"""
Payloads in Protobuf.
"""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
from google.protobuf.internal import api_implementation
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.spark.codecs.datatypes import ddlText
from natsbroker.spark.codecs.payloads import BadPayload
from natsbroker.spark.codecs.protobufcodec import ProtobufCodec
from natsbroker.spark.errors import OptionError

_TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)


def _whole(bits: int, isSigned: bool = True) -> st.SearchStrategy[int]:
    if isSigned:
        return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    return st.integers(0, (1 << bits) - 1)


SCALARS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "double": ("DOUBLE", st.floats(allow_nan=False)),
    "float": ("FLOAT", st.floats(allow_nan=False, width=32)),
    "int64": ("BIGINT", _whole(64)),
    "sint64": ("BIGINT", _whole(64)),
    "sfixed64": ("BIGINT", _whole(64)),
    "uint64": ("DECIMAL(20, 0)", _whole(64, False)),
    "fixed64": ("DECIMAL(20, 0)", _whole(64, False)),
    "int32": ("INT", _whole(32)),
    "sint32": ("INT", _whole(32)),
    "sfixed32": ("INT", _whole(32)),
    "uint32": ("BIGINT", _whole(32, False)),
    "fixed32": ("BIGINT", _whole(32, False)),
    "bool": ("BOOLEAN", st.booleans()),
    "string": ("STRING", _TEXTS),
    "bytes": ("BINARY", st.binary(max_size=5)),
}


def field(name: str, kind: str, **more: Any) -> FieldDescriptorProto:
    """A field; what is no scalar is a message."""
    made = FieldDescriptorProto(name=name, label=more.pop("label", 1), **more)
    word = f"TYPE_{kind.upper()}"
    if kind in {*SCALARS, "enum"}:
        made.type = FieldDescriptorProto.Type.Value(word)
    else:
        made.type, made.type_name = FieldDescriptorProto.TYPE_MESSAGE, kind
    return made


def fileOf(*messages: DescriptorProto, **more: Any) -> Any:
    """A file with messages, whose fields are numbered."""
    for message in messages:
        for number, field in enumerate(message.field, 1):
            field.number = field.number or number
    syntax = more.pop("syntax", "proto3")
    named = {"name": "t.proto", "package": "t", "syntax": syntax, **more}
    return descriptor_pb2.FileDescriptorProto(message_type=messages, **named)


def setOf(*files: Any) -> bytes:
    """A set of descriptors, as protoc writes it."""
    return descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()


def classOf(*files: Any, name: str = "t.M") -> Any:
    """The class of the messages."""
    pool = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def seen(codec: ProtobufCodec, data: bytes) -> dict[str, Any]:
    """The content of a payload, as Arrow returns it."""
    [content] = pa.array([codec.decode(data)], pa.struct(list(codec.columns))).to_pylist()
    assert isinstance(content, dict)
    return content


def _rich() -> Any:
    """
    A file with a message that has every kind of field.
    """
    optional: dict[str, Any] = {"proto3_optional": True}
    fields = [field(f"one_{kind}", kind) for kind in SCALARS]
    fields += [field(f"many_{kind}", kind, label=3) for kind in SCALARS]
    fields += [
        field(f"maybe_{kind}", kind, oneof_index=number + 1, **optional)
        for number, kind in enumerate(SCALARS)
    ]
    fields += [
        field("left", "int32", oneof_index=0),
        field("right", "string", oneof_index=0),
        field("inner", ".t.In"),
        field("inners", ".t.In", label=3),
        field("colour", "enum", type_name=".t.Colour"),
        field("texts", ".t.M.TextsEntry", label=3),
        field("ids", ".t.M.IdsEntry", label=3),
        field("at", ".google.protobuf.Timestamp"),
        field("wrapped", ".google.protobuf.Int64Value"),
        field("nothing", ".t.Nothing"),
    ]
    message = DescriptorProto(name="M", field=fields)
    message.oneof_decl.add(name="choice")
    for kind in SCALARS:
        message.oneof_decl.add(name=f"_maybe_{kind}")
    for name, key, kind in (("TextsEntry", "string", ".t.In"), ("IdsEntry", "uint64", "bool")):
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        entry.field.extend([field("key", key, number=1), field("value", kind, number=2)])
    inner = DescriptorProto(name="In", field=[field("x", "sint32")])
    file = fileOf(
        message,
        inner,
        DescriptorProto(name="Nothing"),
        dependency=["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"],
    )
    colour = file.enum_type.add(name="Colour")
    for number, name in enumerate(("RED", "GREEN")):
        colour.value.add(name=name, number=number)
    return file


RICH = _rich()
MESSAGE = classOf(RICH)
CODEC = ProtobufCodec(setOf(RICH), "t.pb", "t.M")


def _seenScalar(kind: str, value: Any) -> Any:
    return Decimal(value) if kind.endswith("64") and kind[0] in "uf" else value


class TestRight:
    """Messages."""

    def test_columns(self) -> None:
        """Every kind of field has its column."""
        text = ddlText(CODEC.columns)
        for kind, (word, _) in SCALARS.items():
            assert f"one_{kind} {word}," in text
            assert f"many_{kind} ARRAY<{word}>," in text
            assert f"maybe_{kind} {word}," in text
        assert text.endswith(
            "left INT, right STRING, inner STRUCT<x: INT>, inners ARRAY<STRUCT<x: INT>>,"
            " colour STRING, texts MAP<STRING, STRUCT<x: INT>>, ids MAP<DECIMAL(20, 0), BOOLEAN>,"
            " at TIMESTAMP, wrapped BIGINT, nothing BOOLEAN"
        )

    @pytest.mark.parametrize("kind", list(SCALARS))
    @given(data=st.data())
    def test_scalars(self, kind: str, data: st.DataObject) -> None:
        """A written value is read as the same: single, repeated, and optional."""
        values = SCALARS[kind][1]
        one, maybe = data.draw(values), data.draw(st.none() | values)
        many = data.draw(st.lists(values, max_size=3))
        message = MESSAGE(**{f"one_{kind}": one, f"many_{kind}": many})
        if maybe is not None:
            setattr(message, f"maybe_{kind}", maybe)
        content = seen(CODEC, message.SerializeToString())
        assert content[f"one_{kind}"] == _seenScalar(kind, one)
        assert content[f"many_{kind}"] == [_seenScalar(kind, value) for value in many]
        assert content[f"maybe_{kind}"] == (None if maybe is None else _seenScalar(kind, maybe))

    @given(st.data())
    def test_nested(self, data: st.DataObject) -> None:
        """Messages in messages, maps, enums, wrappers and times are read as the same."""
        numbers = st.none() | _whole(32)
        inner, inners = data.draw(numbers), data.draw(st.lists(_whole(32), max_size=3))
        texts = data.draw(st.dictionaries(_TEXTS, _whole(32), max_size=3))
        ids = data.draw(st.dictionaries(_whole(64, False), st.booleans(), max_size=3))
        at = data.draw(st.none() | st.datetimes(timezones=st.just(timezone.utc)))
        wrapped = data.draw(st.none() | _whole(64))
        message = MESSAGE(ids=ids, colour=data.draw(st.integers(0, 1)))
        if inner is not None:
            message.inner.x = inner
        for number in inners:
            message.inners.add(x=number)
        for key, value in texts.items():
            message.texts[key].x = value
        if at is not None:
            message.at.FromDatetime(at)
        if wrapped is not None:
            message.wrapped.value = wrapped
        content = seen(CODEC, message.SerializeToString())
        assert content["inner"] == (None if inner is None else {"x": inner})
        assert content["inners"] == [{"x": number} for number in inners]
        assert dict(content["texts"]) == {key: {"x": value} for key, value in texts.items()}
        assert dict(content["ids"]) == {Decimal(key): value for key, value in ids.items()}
        assert content["colour"] == ("RED", "GREEN")[message.colour]
        assert (content["at"], content["wrapped"]) == (at, wrapped)

    def test_presence(self) -> None:
        """Of an empty message fields without presence have their defaults, others are null."""
        content = seen(CODEC, b"")
        assert (content["one_int32"], content["one_string"], content["many_bool"]) == (0, "", [])
        assert content["colour"] == "RED"
        for name in ("maybe_int32", "left", "right", "inner", "at", "wrapped", "nothing"):
            assert content[name] is None
        message = MESSAGE(right="")
        message.nothing.SetInParent()
        content = seen(CODEC, message.SerializeToString())
        assert (content["left"], content["right"], content["nothing"]) == (None, "", True)

    def test_nanoseconds(self) -> None:
        """A time is cut to microseconds."""
        message = MESSAGE()
        message.at.seconds, message.at.nanos = -1, 999_999_999
        moment = datetime(1969, 12, 31, 23, 59, 59, 999_999, timezone.utc)
        assert seen(CODEC, message.SerializeToString())["at"] == moment


def bad(data: bytes, codec: ProtobufCodec = CODEC) -> str:
    """Why a payload is bad."""
    with pytest.raises(BadPayload) as caught:
        codec.decode(data)
    return str(caught.value)


class TestWrong:
    """Payloads that are no messages."""

    @pytest.mark.parametrize("data", [b"\xff", b"\x0a", b"\x0c", b"\x07", b"\x0a\xff\xff\xff\x7fx"])
    def test_broken(self, data: bytes) -> None:
        """Bytes that are no message are bad, also after a message."""
        whole = MESSAGE(one_string="x").SerializeToString()
        for payload in (data, whole + data):
            assert "it is not such a message" in bad(payload)

    def test_unknown(self) -> None:
        """Unknown fields, also in nested messages, are bad, or ignored on request."""
        message = MESSAGE(one_int32=5)
        message.inners.add(x=1).MergeFromString(b"\xf8\x07\x01")
        codec = ProtobufCodec(setOf(RICH), "t.pb", "t.M", isUnknownBad=False)
        for data in (message.SerializeToString(), b"\xf8\x7f\x01"):
            assert "bytes are of fields unknown to the message" in bad(data)
            assert codec.decode(data)["one_int32"] in (0, 5)

    def test_values(self) -> None:
        """Values without an equivalent in the columns are bad."""
        assert bad(MESSAGE(colour=7).SerializeToString()) == "colour: 7 is not a value of t.Colour"
        for seconds, nanos in ((1 << 40, 0), (0, -1), (0, 1_000_000_000)):
            message = MESSAGE()
            message.at.seconds, message.at.nanos = seconds, nanos
            assert (
                bad(message.SerializeToString()) == f"at: {seconds} s and {nanos} ns is not a time"
            )
        number = MESSAGE.DESCRIPTOR.fields_by_name["one_string"].number
        assert "it is not such a message" in bad(bytes([number << 3 | 2, 1, 0xFF]))

    def test_proto2(self) -> None:
        """
        In proto2, a missing required field is bad, and so are extensions and text that is not
        UTF-8.
        """
        message = DescriptorProto(
            name="M",
            field=[field("a", "int32", label=2), field("s", "string")],
            extension_range=[DescriptorProto.ExtensionRange(start=100, end=200)],
        )
        file = fileOf(message, syntax="proto2")
        file.extension.append(field("more", "int32", number=100, extendee=".t.M"))
        codec = ProtobufCodec(setOf(file), "t.pb", "t.M")
        assert seen(codec, b"\x08\x05") == {"a": 5, "s": None}
        assert "it lacks a" in bad(b"", codec)
        assert "is not UTF-8" in bad(b"\x08\x05\x12\x01\xff", codec)
        assert "3 bytes are of fields" in bad(b"\x08\x05\xa0\x06\x01", codec)

    @given(st.binary(max_size=40))
    def test_anyBytes(self, data: bytes) -> None:
        """Random bytes are either bad or decoded to the columns' types."""
        for codec in (CODEC, ProtobufCodec(setOf(RICH), "t.pb", "t.M", isUnknownBad=False)):
            try:
                row = codec.decode(data)
            except BadPayload:
                continue
            pa.array([row], pa.struct(list(codec.columns)))

    def test_deep(self) -> None:
        """A message with very deeply nested groups is bad."""
        groups = b"\xfb\x07" * 100_000 + b"\xfc\x07" * 100_000
        assert "it is not such a message" in bad(groups)


class TestDescriptors:
    """Sets of descriptors."""

    def test_pure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Google's library in pure Python is refused."""
        monkeypatch.setattr(api_implementation, "Type", lambda: "python")
        with pytest.raises(OptionError, match="Protobuf needs the compiled form"):
            ProtobufCodec(setOf(RICH), "t.pb", "t.M")

    def test_imports(self) -> None:
        """Imported files must be in the descriptor file, unless they are Google's own."""
        other = fileOf(
            DescriptorProto(name="Other", field=[field("x", "int32")]),
            name="other.proto",
            package="o",
        )
        file = fileOf(
            DescriptorProto(name="M", field=[field("o", ".o.Other")]), dependency=["other.proto"]
        )
        codec = ProtobufCodec(setOf(file, other), "t.pb", "t.M")
        assert ddlText(codec.columns) == "o STRUCT<x: INT>"
        with pytest.raises(
            OptionError, match=r"t.pb: it has no other.proto: run protoc with --include"
        ):
            ProtobufCodec(setOf(file), "t.pb", "t.M")

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (b"\xff", "it is not a set of descriptors"),
            (b"", "it has no message t.M"),
            (setOf(fileOf(DescriptorProto(name="X"))), "it has no message t.M"),
            (
                setOf(fileOf(DescriptorProto(name="M", field=[field("x", ".t.None")]))),
                "it is not a set of descriptors",
            ),
            (
                setOf(fileOf(DescriptorProto(name="M", field=[field("n", ".t.M", label=3)]))),
                r"n\[\]: t.M contains itself, which columns cannot hold",
            ),
            (
                setOf(
                    fileOf(
                        DescriptorProto(name="M", field=[field("v", ".google.protobuf.Struct")]),
                        dependency=[struct_pb2.DESCRIPTOR.name],
                    )
                ),
                "google.protobuf.Struct contains itself",
            ),
            (
                setOf(
                    fileOf(
                        DescriptorProto(
                            name="M", field=[field("ab", "int32"), field("aB", "int32")]
                        ),
                        syntax="proto2",
                    )
                ),
                "column aB is there twice",
            ),
        ],
    )
    def test_unsupportedDescriptors(self, data: bytes, error: str) -> None:
        """
        A descriptor file without the message, or whose message has no columns, is refused by its
        name.
        """
        with pytest.raises(OptionError, match=f"^t.pb: .*{error}"):
            ProtobufCodec(data, "t.pb", "t.M")
