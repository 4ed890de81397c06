"""
Fenced blocks of Markdown documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

INCLUDE = "{literalinclude}"
"""The kind of a block that shows a file of the project from outside of C{docs}."""

FENCE = re.compile(r"^(?P<mark>```+)(?P<kind>[^\n`]*)\n(?P<text>.*?)^(?P=mark)[ \t]*$", re.M | re.S)

_FILE = re.compile(r"`(?P<name>[\w.][\w./-]*)`:\n\n\Z")


@dataclass(frozen=True)
class Block:
    """
    A fenced piece of a document.

    @ivar kind: the word after the fence: C{python}, C{sh}, or nothing.
    @ivar line: the number of lines before its text.
    @ivar file: the name of the file that the block shows, if the paragraph before it ends with the
        name in a code span and a colon; or the path from the top of a file that is included; or
        nothing.
    """

    kind: str
    text: str
    line: int
    file: str = ""


def blocksOf(document: str) -> Iterator[Block]:
    """
    @return: the fenced blocks of C{document}, in order.
    """
    for fence in FENCE.finditer(document):
        before = document.count("\n", 0, fence.start("text"))
        kind, _, path = fence["kind"].strip().partition(" ")
        if kind == INCLUDE:
            path = re.sub(r"^(\.\./)+", "", path.strip())
            yield Block(kind, (ROOT / path).read_text("utf-8"), before, path)
            continue
        file = _FILE.search(document, max(0, fence.start() - 200), fence.start())
        yield Block(fence["kind"].strip(), fence["text"], before, file["name"] if file else "")
