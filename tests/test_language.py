"""
New text uses the field's words: banned phrases and names do not come back.
"""

from __future__ import annotations

import pytest

from tests.language import NAMES, ROOT, allowances, counts, excess, findingsIn


def test_filesStayWithinLedger() -> None:
    """No file has more banned phrases and names than the ledger counts from before the rule."""
    more = excess(counts(), allowances())
    lines = [
        f"{path}:{each.line}: {' '.join(each.text.split())} -> {each.instead}"
        for path in more
        for each in findingsIn(path, (ROOT / path).read_text("utf-8"))
    ]
    assert not more, f"more than the ledger allows in {more}:\n" + "\n".join(lines)


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
    """Banned phrases are found over a line's end and in any case, names where they are given."""
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
    """Words that contain a banned one are allowed, and uses of a name from elsewhere."""
    assert findingsIn("natsbroker/clients/session.py", text) == []


@pytest.mark.parametrize("word", ["What", "Who", "How", "So", "Nor", "And", "But"])
def test_docstringBeginsWithNounOrVerb(word: str) -> None:
    """A docstring of the package begins with a noun phrase or a verb; one of a test is free."""
    lines = f'def stored():\n    """\n    {word} a stream keeps.\n    """\n'
    short = f'    """{word} a stream keeps."""'
    found = [findingsIn("natsbroker/clients/session.py", text) for text in (lines, short)]
    assert [[each.line for each in one] for one in found] == [[3], [1]]
    assert findingsIn("tests/clients/test_session.py", lines) == []
    assert findingsIn("natsbroker/clients/session.py", '"""Whether so. What else?"""') == []


def test_moduleNameIsFound() -> None:
    """A module with a banned name counts as one finding."""
    assert [each.line for each in findingsIn(f"natsbroker/server/{min(NAMES)}.py", "")] == [1]


def test_movedFileKeepsItsAllowance() -> None:
    """Files that moved share the allowance of those that are gone; growth beyond it is reported."""
    allowed = {"natsbroker/gone.py": 3, "README.md": 1}
    assert excess({"natsbroker/room/moved.py": 3, "README.md": 1}, allowed) == {}
    assert excess({"natsbroker/room/moved.py": 3, "README.md": 2}, allowed) == {
        "natsbroker/room/moved.py": 3,
        "README.md": 1,
    }
