"""
Which messages are decoded by what.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from natsbroker.spark.codecs.mappings import codecOf, placeOf, readMappings
from natsbroker.spark.errors import OptionError

ID = b'{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}'


class TestReading:
    """Mappings as texts."""

    def test_json(self, tmp_path: Path) -> None:
        """The columns of a JSON mapping stand in quotes or in a file."""
        (tmp_path / "x.ddl").write_text("id BIGINT,\n v DOUBLE\n")
        texts = ['a.*=json:"id BIGINT"', f"b.>=json:{tmp_path}/x.ddl", "c=b=json:'x INT'"]
        one, two, three = readMappings(texts, {})
        assert (one.pattern, one.table, one.what) == ("a.*", "a_any", "id BIGINT")
        assert codecOf(two).columns.names == ["id", "v"]
        assert (three.pattern, three.table) == ("c=b", "c_b")

    def test_avro(self, tmp_path: Path) -> None:
        """An Avro mapping names a schema file, or a directory and the schema of the table."""
        for name in ("7.avsc", "8.avsc", "other.txt"):
            (tmp_path / name).write_bytes(ID)
        texts = [
            f"a=avro:{tmp_path}/7.avsc",
            f"b=avro-single:{tmp_path}/7.avsc",
            f"c=avro-single:{tmp_path}#8.avsc",
            f"d=avro-confluent:{tmp_path}#7",
        ]
        mappings = readMappings(texts, {})
        assert [[name for name, _ in mapping.files] for mapping in mappings] == [
            ["7.avsc"],
            ["7.avsc"],
            ["7.avsc", "8.avsc"],
            ["7.avsc", "8.avsc"],
        ]
        for mapping in mappings:
            assert codecOf(mapping).columns.names == ["id"]

    def test_protobuf(self, tmp_path: Path) -> None:
        """A Protobuf mapping names a descriptor file and a message in it."""
        file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
        file.message_type.add(name="M").field.add(name="x", number=1, type=5, label=1)
        path = tmp_path / "d.pb"
        path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
        [mapping] = readMappings([f"a=protobuf:{path}#t.M"], {})
        assert codecOf(mapping).decode(b"\x08\x07") == {"x": 7}
        [lax] = readMappings([f"a=protobuf:{path}#t.M"], {}, isUnknownBad=False)
        assert codecOf(lax).decode(b"\x10\x07") == {"x": 0}
        with pytest.raises(OptionError, match=r"d.pb: it has no message t.N"):
            readMappings([f"a=protobuf:{path}#t.N"], {})

    def test_workers(self, tmp_path: Path) -> None:
        """A mapping that is pickled for workers contains its schemas."""
        (tmp_path / "a.avsc").write_bytes(ID)
        mappings = readMappings([f"a=avro:{tmp_path}/a.avsc"], {})
        (tmp_path / "a.avsc").unlink()
        [again] = pickle.loads(pickle.dumps(mappings))
        assert codecOf(again).decode(b"\x08") == {"id": 4}

    def test_names(self) -> None:
        """Tables have the names of their patterns, or given names."""
        texts = ['a.b-c.*.>=json:"x INT"', 'd=json:"x INT"']
        mappings = readMappings(texts, {"d": "dee"})
        assert [mapping.table for mapping in mappings] == ["a_b_c_any_all", "dee"]

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("a", "is not PATTERN=KIND:WHAT with one of json, avro"),
            ("a=xml:b", "is not PATTERN=KIND:WHAT"),
            ("a..b=json:'x INT'", "'a..b' is not a subject"),
            ("a=json:'x'", "a type is expected"),
            ("a=json:/none/x", "/none/x: No such file or directory"),
            ("a=avro:/none/x", "/none/x: No such file or directory"),
            ("a=avro-confluent:/none", "is not DIRECTORY#SCHEMA"),
            ("a=avro-confluent:/none#7", "/none: No such file or directory"),
            ("a=protobuf:x.pb", "is not FILE#MESSAGE"),
        ],
    )
    def test_invalidMappings(self, text: str, error: str) -> None:
        """An invalid mapping is refused."""
        with pytest.raises(OptionError, match=error):
            readMappings([text], {})

    @pytest.mark.parametrize(
        ("patterns", "names", "error"),
        [
            ([], {}, "name at least one schema"),
            (["a.b", "a_b"], {}, "a_b is the table of a.b and of a_b: say --table a_b=NAME"),
            (["a", "b"], {"b": "A"}, "A is the table of a and of b"),
            (["others"], {}, "others is the table of messages without a schema and of others"),
            (["a"], {"a": "../b"}, "'../b' cannot be the name of a table"),
            (["a"], {"a": "b__dlq"}, "'b__dlq' cannot be the name of a table"),
            (["a"], {"b": "c"}, "table: there is no schema for b"),
        ],
    )
    def test_tables(self, patterns: list[str], names: dict[str, str], error: str) -> None:
        """Mappings whose tables have the same name are refused."""
        with pytest.raises(OptionError, match=error):
            readMappings([f"{pattern}=json:'x INT'" for pattern in patterns], names)


@pytest.mark.parametrize(
    ("subject", "place"),
    [("a.b", 0), ("a.c", 1), ("a.b.c", 2), ("a", -1), ("b", -1), ("a..b", -1), ("a.\\xff", 1)],
)
def test_firstMatch(subject: str, place: int) -> None:
    """The first mapping that matches decides."""
    patterns = ["a.b", "a.*", "a.>"]
    mappings = readMappings([f"{pattern}=json:'x INT'" for pattern in patterns], {"a.b": "t"})
    assert placeOf(mappings, subject) == place
