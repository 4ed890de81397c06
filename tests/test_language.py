"""
The language of the project: banned phrases and names are not used again.
"""

from __future__ import annotations

import pytest

from tests.language import NAMES, PAGES, PLACES, findingsIn, report


def test_noFileHasBannedText() -> None:
    """No file has a banned phrase or name, or a docstring that begins with a forbidden word."""
    lines = list(report((*PLACES, *PAGES)))
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        '"""Whoever subscribes."""',
        "# one of so\n    # many\n",
        "Nobody subscribes.",
        "class Turnstile:",
        "    async def postMany(self):",
        "cdef class Hub:",
        '"""\n    See L{IOutbox}.\n    """',
        "Promises: much.",
        "what the server says",
        "two doors",
    ],
)
def test_bannedTextIsFound(text: str) -> None:
    """
    Banned phrases are found across line ends and in any case, and banned names in definitions.
    """
    assert len(findingsIn("natsbroker/clients/session.py", text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "indoors, filled, renew",
        "nobody subscribes",
        "class Turnover:",
        "hub = Hub(); Turn",
        "It promises nothing",
        "See L{IOutbox} for the order of writes.",
    ],
)
def test_likeTextIsAllowed(text: str) -> None:
    """
    Words that contain a banned phrase are permitted, and so are uses of names that others define.
    """
    assert findingsIn("natsbroker/clients/session.py", text) == []


@pytest.mark.parametrize("word", ["What", "Who", "How", "So", "Nor", "And", "But"])
def test_docstringBeginsWithNounOrVerb(word: str) -> None:
    """A docstring of the package or of a test begins with a noun phrase or a verb."""
    lines = f'def stored():\n    """\n    {word} a stream keeps.\n    """\n'
    short = f'    """{word} a stream keeps."""'
    for path in ("natsbroker/clients/session.py", "tests/clients/test_session.py"):
        findings = [findingsIn(path, text) for text in (lines, short)]
        assert [[finding.line for finding in one] for one in findings] == [[3], [1]]
    assert findingsIn("natsbroker/clients/session.py", '"""Whether so. What else?"""') == []


def test_commentOfConstantBeginsWithNoun() -> None:
    """A comment that documents a constant begins with a noun phrase."""
    path = "natsbroker/clients/session.py"
    assert [finding.line for finding in findingsIn(path, "a = 1\n\n#: How many.\nb = 2\n")] == [3]
    assert findingsIn(path, "#: The most sessions.\n#: So few fit.\n# How it works.\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "for each in lanes:",
        "[each.name for (_, each), number in lanes]",
        "    found: dict[str, int] = {}",
        "    found |= other",
        "    each, state = pair",
        "if (found := find(name)) is not None:",
        "except ValueError as found:",
        "key=lambda each: each.name",
        "def lost(self, found: Page, start: int) -> Page:",
        "        found: RecordList,",
    ],
)
def test_variableSaysWhatItIs(text: str) -> None:
    """No variable of the package, a test, an example or a benchmark is called each or found."""
    for path in ("natsbroker/hot.py", "tests/test_hot.py", "examples/x.py", "benchmarks/x.py"):
        assert len(findingsIn(path, text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "A lane for each of them, in order",
        "states.found(subject)",
        "x.found = y",
        "foundry = each_",
    ],
)
def test_likeVariableIsAllowed(text: str) -> None:
    """Prose, attributes and methods may use the words each and found."""
    assert findingsIn("natsbroker/clients/session.py", text) == []


def test_moduleNameIsFound() -> None:
    """A module with a banned name counts as one finding."""
    assert [finding.line for finding in findingsIn(f"natsbroker/server/{min(NAMES)}.py", "")] == [1]
