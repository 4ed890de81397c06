"""
Tests of L{tests.walkthroughs}, with documents made for the tests.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.walkthroughs import ROOT, Command, File, Stumbled, freePorts, stepsOf, walk

PAGE = """# A page

Write `greet.sh`:

```sh
echo "hello, $1"
```

```console
$ name=world
$ sh greet.sh \\
    $name
hello, world
```
"""


def test_stepsOf() -> None:
    """Files and commands are read in order, with the shown output."""
    assert list(stepsOf(PAGE)) == [
        File("greet.sh", 'echo "hello, $1"\n', 5),
        [
            Command("name=world", "", 10),
            Command("sh greet.sh \\\n    $name", "hello, world\n", 11),
        ],
    ]


def test_includedFiles() -> None:
    """A file of the checkout that the page includes is available at its path."""
    (file,) = stepsOf("```{literalinclude} ../../examples/smallest.py\n:language: python\n```\n")
    assert isinstance(file, File)
    assert file.name == "examples/smallest.py"
    assert file.text == (ROOT / file.name).read_text("utf-8")


def test_commandsShareOneShell(tmp_path: Path) -> None:
    """Variables that one command sets are available to the next."""
    assert walk(PAGE, tmp_path) == ["name=world", "sh greet.sh \\\n    $name"]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        pytest.param("hello, world", "goodbye", id="another text"),
        pytest.param("hello, world", "hello, world; echo more", id="more than is shown"),
    ],
)
def test_otherOutputIsReported(tmp_path: Path, shown: str, printed: str) -> None:
    """A command that prints something else than the document shows is an error."""
    with pytest.raises(Stumbled, match="line 5: echo"):
        walk(f"x\n\n\n```console\n$ echo {printed}\n{shown}\n```\n", tmp_path)


def test_failureIsReported(tmp_path: Path) -> None:
    """A command that shows no output must succeed."""
    with pytest.raises(Stumbled, match="with status 3"):
        walk("```console\n$ (exit 3)\n```\n", tmp_path)


def test_backgroundIsAwaited(tmp_path: Path) -> None:
    """After a command in the background the next one waits for the shown output, and may end it."""
    page = """
```console
$ sh -c 'sleep 0.2; echo ready > file; echo ready; exec sleep 600' &
...
ready
$ cat file
ready
$ kill $!
```
"""
    assert len(walk(page, tmp_path)) == 3


def test_unknownBlocksAreReported() -> None:
    """A block that cannot be played is an error."""
    with pytest.raises(Stumbled, match="neither a file nor a transcript"):
        list(stepsOf("```python\nprint(1)\n```\n"))


def test_filesStayInTheFolder(tmp_path: Path) -> None:
    """A file outside the folder is not written."""
    with pytest.raises(Stumbled, match="outside"):
        walk("`../x`:\n\n```text\n```\n", tmp_path)


def test_freePorts(tmp_path: Path) -> None:
    """
    Each port of a document is replaced everywhere by a free one, and other numbers are unchanged.
    """
    page = "```console\n$ echo 4222 6222 4222 14222 4096\n...\n```\n"
    (typed,) = walk(page, tmp_path)
    numbers = re.fullmatch(r"echo (\d+) (\d+) \1 14222 4096", typed)
    assert numbers
    assert {"4222", "6222"}.isdisjoint(numbers.groups())
    assert sorted(freePorts(page)) == ["4222", "6222"]


def test_somePrograms_areOnlyShown(tmp_path: Path) -> None:
    """Commands that change the machine are not run."""
    assert walk("```console\n$ sudo touch /nowhere/x\n$ true\n```\n", tmp_path) == ["true"]
