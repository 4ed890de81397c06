"""
The blocks of documents that are only shown: configurations are read, programs are compiled, and the
options of commands are checked.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from natsbroker.config.errors import ConfigErrors, NotSupportedYet
from natsbroker.server.configuration.build import buildText
from tests.config.support import PEM
from tests.documents import INCLUDE, Block, blocksOf
from tests.walkthroughs import commandsOf

ROOT = Path(__file__).resolve().parents[1]

SHOWN = {
    *("text", "console", "sh", "sql", "javascript", "dockerfile", "yaml", "ini", "nginx"),
    *("{interfaces}", "{classes}", "{output}", INCLUDE),
}

NOT_HERE = ("natsbroker.spark", "pyspark")
"""Modules that come with an extra: tests/spark runs the programs that import them."""


class Values(dict[str, str]):
    """Environment variables, which all exist."""

    def __missing__(self, name: str) -> str:
        return "secret"

    def get(self, name: str, default: object = None) -> str:
        return "secret"


def blocks(*kinds: str) -> list[object]:
    """
    @return: the blocks of these kinds in the documents, as test parameters.
    """
    cases: list[object] = []
    for path in sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]):
        for block in blocksOf(path.read_text("utf-8")):
            if block.kind in kinds and ">>>" not in block.text:
                name = f"{path.relative_to(ROOT).as_posix()}:{block.line}"
                cases.append(pytest.param(block, id=name))
    return cases


def mistakesIn(configuration: str) -> list[str]:
    """
    @return: the errors of the configuration reader, except for unsupported features.
    """
    try:
        buildText(configuration, Values(), read=lambda path: PEM)
    except ConfigErrors as failure:
        return [str(error) for error in failure.errors if not isinstance(error, NotSupportedYet)]
    return []


@pytest.mark.parametrize("block", blocks(""))
def test_configurationsAreRead(block: Block) -> None:
    """A block without a kind is a configuration that the broker accepts."""
    if "include" not in block.text:
        assert mistakesIn(block.text) == []


@pytest.mark.parametrize("block", blocks("json"))
def test_jsonIsRead(block: Block) -> None:
    """A block of JSON is one document."""
    json.loads(block.text)


def missingNames(program: str) -> Iterator[str]:
    """
    @return: the names that C{program} imports from the package and that do not exist.
    @raise SyntaxError: if it does not compile.
    """
    tree = compile(program, "block", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("natsbroker"):
            if not str(node.module).startswith(NOT_HERE):
                module = import_module(str(node.module))
                yield from (alias.name for alias in node.names if not hasattr(module, alias.name))


@pytest.mark.parametrize("block", blocks("python"))
def test_programsCompile(block: Block) -> None:
    """A program compiles, and its imports from the package exist."""
    assert list(missingNames(block.text)) == []


@cache
def helpOf(*command: str) -> str:
    """
    @return: the help of a command about its options.
    """
    program, *words = command
    path = Path(sys.executable).with_name(program)
    done = subprocess.run([path, *words, "--help"], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def unknownOptions(line: str) -> list[str]:
    """
    @return: the options of a command line that the command's help does not have.
    """
    words = [Path(word).name if n == 0 else word for n, word in enumerate(shlex.split(line, True))]
    if words[0] == "twistd":
        words = [word for word in words if word != "-n"]
    if words[0] not in ("natsbroker", "twistd") or len(words) < 2:
        return []
    deep = {"spark": 3, "streaming": 2, "natsbroker": 2}.get(words[1], 1)
    options = [word.partition("=")[0] for word in words[deep:] if re.match(r"--?[a-zA-Z]", word)]
    shown = helpOf(*words[:deep])
    return [option for option in options if not re.search(rf"(?<![\w-])-?{option}(?![\w-])", shown)]


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("console", "sh"))
def test_optionsExist(block: Block) -> None:
    """The commands of the package have the options that the documents show."""
    text = block.text if block.text.startswith("$ ") else f"$ {block.text}"
    lines = [command.text.replace("\\\n", " ") for command in commandsOf(Block("", text, 0))]
    unknown = {line: unknownOptions(line) for line in lines if "$(" not in line}
    assert {line: options for line, options in unknown.items() if options} == {}


def test_kindsAreKnown() -> None:
    """Every block has a kind that is checked here, or one that is only shown."""
    known = {"", "json", "python", *SHOWN}
    kinds = {
        block.kind
        for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
        for block in blocksOf(path.read_text("utf-8"))
    }
    assert kinds - known == set()


def test_mistakesAreSeen() -> None:
    """The checks report a wrong key, a missing name and an unknown option."""
    assert mistakesIn("bogus: 1") == [':1:1: unknown field "bogus"']
    assert list(missingNames("from natsbroker.broker import Broker, Nothing")) == ["Nothing"]
    assert unknownOptions("natsbroker -c x.conf --bogus=1 -DV") == ["--bogus"]
