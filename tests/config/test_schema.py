"""
Tests for L{natsbroker.config.schema}: the schema compared with the reader of the same table.
"""

from __future__ import annotations

import io
import json
from typing import Any

import jsonschema
import pytest

from natsbroker.config.blocks import Diagnostics, readTable
from natsbroker.config.errors import ConfigError, ConfigErrors, NotSupportedYet, Position
from natsbroker.config.keys.root import ROOT
from natsbroker.config.keys.types import BlockSchema
from natsbroker.config.language.parser import parse
from natsbroker.config.language.tree import ArrayNode, Node, ScalarNode, TableEntry, TableNode
from natsbroker.config.schema import jsonSchema, main
from natsbroker.server.configuration.build import buildTree
from tests.config.support import PEM, filesystem
from tests.config.test_against_server import ENVIRONMENT, FILES, Case, cases

SCHEMA = jsonSchema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
READ = filesystem({**FILES, **dict.fromkeys(("cert.pem", "key.pem", "ca.pem"), PEM)})

VALUES: list[Any] = [True, False, 0, 7, 1.5, "", "x", "10s", "2G", "5%", "Enabled", "ALWAYS"]
VALUES += [[], ["x"], [7], [{}], {}, {"a": 1}, {"a": "x"}]


def document(node: Node) -> Any:
    """
    @return: a tree as JSON, without the keys that only references use.
    """
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, ArrayNode):
        return [document(item) for item in node.items]
    return {entry.key.lower(): document(entry.node) for entry in node if not entry.used}


def tree(value: Any) -> Node:
    """
    @return: a JSON value as a tree of the configuration language.
    """
    here = Position()
    if isinstance(value, list):
        return ArrayNode([tree(item) for item in value], here)
    if isinstance(value, dict):
        entries = {key: TableEntry(key, tree(item), here) for key, item in value.items()}
        return TableNode(here, entries)
    return ScalarNode(value, here)


def starting() -> list[Case]:
    """
    @return: the cases of corpus.txt with which the broker starts.
    """
    usable = []
    for case in cases():
        try:
            buildTree(parse(case.text, ENVIRONMENT, "s.conf", READ), "s.conf", read=READ)
        except (ConfigError, ConfigErrors):
            continue
        usable.append(case)
    return usable


def blocks() -> list[tuple[BlockSchema, str]]:
    """
    @return: the blocks of the top level with the names of their schemas, and the top level itself.
    """
    sections = [(ROOT, "top_level")]
    for name, key in ROOT.keys.items():
        inner = [schema for schema in key.types if isinstance(schema, BlockSchema)]
        sections += [(schema, name) for schema in inner if schema.title == name]
    return sections


def test_isSchema() -> None:
    """The schema is valid for the draft that it names."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_startingConfigurations() -> None:
    """The schema accepts every configuration of corpus.txt with which the broker starts."""
    taken = starting()
    assert len(taken) > 100
    for case in taken:
        body = document(parse(case.text, ENVIRONMENT, "s.conf", READ))
        assert list(VALIDATOR.iter_errors(body)) == [], case.text


@pytest.mark.parametrize(("block", "name"), blocks(), ids=lambda value: str(value)[:20])
def test_besideTheReader(block: BlockSchema, name: str) -> None:
    """The schema accepts the same values as the reader, for every key and many types."""
    for key in block.keys:
        validator = VALIDATOR.evolve(schema={**SCHEMA, "$ref": f"#/$defs/{name}/properties/{key}"})
        for value in VALUES:
            findings = Diagnostics()
            table = tree({key: value})
            assert isinstance(table, TableNode)
            readTable(table, block, findings)
            isTaken = validator.is_valid(value)
            if not findings.errors:
                assert isTaken, (key, value)
            isLenient = "enabled" in block.keys
            if any(
                str(error.message).startswith("expected ")
                or (isinstance(error, NotSupportedYet) and not isLenient)
                for error in findings.errors
            ):
                assert not isTaken, (key, value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ({"port": "4222"}, "port"),
        ({"bogus": 1}, ""),
        ({"ping_interval": "10"}, "ping_interval"),
        ({"cluster": {"routes": [1]}}, "cluster/routes/0"),
        ({"accounts": {"A": {"users": [{"user": 1}]}}}, "accounts"),
        ({"authorization": {"users": [{"user": 1}]}}, "authorization/users/0/user"),
        ({"mqtt": {"port": "x"}}, "mqtt/port"),
        ({"write_timeout": "retry"}, "write_timeout"),
        ({"authorization": {"more": 1}}, "authorization"),
    ],
    ids=str,
)
def test_refusedDocuments(text: dict[str, Any], place: str) -> None:
    """A wrong type, an unknown key and an unsupported feature are refused at their path."""
    (error,) = VALIDATOR.iter_errors(text)
    assert "/".join(map(str, error.absolute_path)) == place


def test_pluginOptions() -> None:
    """A block that names a plugin may have the plugin's keys too."""
    VALIDATOR.validate({"authorization": {"plugin": "mine", "more": 1}})


def test_switchedOff() -> None:
    """A block that is disabled may have keys of unsupported features."""
    VALIDATOR.validate({"jetstream": {"enabled": False, "cipher": "aes"}})


def test_secrets() -> None:
    """The schema marks secret values."""
    assert SCHEMA["$defs"]["authorization"]["properties"]["token"]["writeOnly"]


class TestCommand:
    """The command C{natsbroker config}."""

    def test_schema(self) -> None:
        """C{natsbroker config schema} prints the schema."""
        stdout = io.StringIO()
        assert main(["schema"], stdout, io.StringIO()) == 0
        assert json.loads(stdout.getvalue()) == SCHEMA

    def test_help(self) -> None:
        """C{natsbroker config --help} prints the usage."""
        stdout = io.StringIO()
        assert main(["--help"], stdout, io.StringIO()) == 0
        assert stdout.getvalue().startswith("Usage: natsbroker config schema")

    @pytest.mark.parametrize("words", [[], ["other"], ["schema", "x"]])
    def test_wrongWords(self, words: list[str]) -> None:
        """Other arguments are refused with the usage."""
        stdout, stderr = io.StringIO(), io.StringIO()
        assert main(words, stdout, stderr) == 2
        assert stderr.getvalue().startswith("Usage:")
        assert (
            stderr.getvalue().splitlines()[-1].startswith("natsbroker config: there is no command ")
        )
