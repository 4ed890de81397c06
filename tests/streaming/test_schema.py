"""
Message classes from the text of a file.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from natsbroker.streaming.schema import SchemaError, describe, messageClasses

BEGINNING = 'syntax = "proto3"; package p;\n'


def text(name: str) -> str:
    """The text of one of our files."""
    return files("natsbroker.streaming").joinpath(name).read_text("utf-8")


class TestMessageClasses:
    """L{messageClasses}."""

    def test_fields(self) -> None:
        """Every scalar that our files use can be set, sent and read."""
        made = messageClasses(
            BEGINNING
            + "message M { bool a = 1; bytes b = 2; int32 c = 3; int64 d = 4; string e = 5;"
            + " uint32 f = 6; repeated uint64 g = 70; } // the end",
            "m.proto",
        )["M"]
        message = made(a=True, b=b"\0", c=-1, d=-(1 << 63), e="\xe9", f=1 << 31, g=[1, 1 << 63])
        assert made.FromString(message.SerializeToString()) == message

    def test_enumeration(self) -> None:
        """A field can have an enumeration of the same file as its type, and any number in it."""
        made = messageClasses(BEGINNING + "enum E { A = 0; B = 1; } message M { E e = 1; }", "m")
        assert made["M"].FromString(b"\x08\x01").e == 1
        assert made["M"].FromString(b"\x08\x07").e == 7

    def test_poolOfItsOwn(self) -> None:
        """The same name can be used twice: the classes have nothing to do with each other."""
        one = messageClasses(BEGINNING + "message M { string a = 1; }", "m")["M"]
        other = messageClasses(BEGINNING + "message M { int32 b = 1; }", "m")["M"]
        assert (one(a="x").a, other(b=1).b) == ("x", 1)

    @pytest.mark.parametrize(
        "wrong",
        [
            'syntax = "proto2"; package p;',
            'syntax = "proto3";',
            BEGINNING + "import",
            BEGINNING + "message M { sint32 a = 1; }",
            BEGINNING + "message M { string a = x; }",
            BEGINNING + "message M { string a = 1",
            BEGINNING + "message M { string",
            BEGINNING + "message M { map<string, string> a = 1; }",
            BEGINNING + "message M",
        ],
    )
    def test_notUnderstood(self, wrong: str) -> None:
        """Whatever is not in the subset is an error, not a guess."""
        with pytest.raises(SchemaError):
            messageClasses(wrong, "m")


@pytest.mark.parametrize("name", ["protocol.proto", "state.proto"])
def test_asProtocReadsIt(name: str, tmp_path: Path) -> None:
    """protoc makes the same descriptors of our files as we do."""
    pytest.importorskip("grpc_tools", reason="protoc is not installed")
    (tmp_path / name).write_text(text(name), "utf-8")
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--descriptor_set_out=set", name],
        cwd=tmp_path,
        check=True,
    )
    theirs = FileDescriptorSet.FromString((tmp_path / "set").read_bytes()).file[0]
    assert _bare(theirs) == _bare(describe(text(name), name))


def _bare(file: FileDescriptorProto) -> FileDescriptorProto:
    """A copy without the names for JSON, which nothing here uses."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    for message in copy.message_type:
        for field in message.field:
            field.ClearField("json_name")
    return copy
