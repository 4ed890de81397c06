"""
Names and subjects as configurations have them.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.model.names import (
    hasPathSeparator,
    isLiteralSubject,
    isSubsetSubject,
    isValidGroup,
    isValidName,
    isValidSubjectText,
    metadataSize,
    overlapping,
    subjectsOverlap,
)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "*", ">", "a\\b", "a/b", "a\tb", "a\n"])
def test_invalidNames(name: str) -> None:
    """An empty name, and one with separators of subjects or paths, is invalid."""
    assert not isValidName(name)


def test_validNames() -> None:
    """A name may have any other characters."""
    assert isValidName("Ünïcode-1_$")
    assert hasPathSeparator("a\\b")
    assert not hasPathSeparator("a.b")


@pytest.mark.parametrize(
    ("group", "isValid"), [("a/b_c=D-9", True), ("", False), ("x" * 17, False)]
)
def test_groups(group: str, isValid: bool) -> None:
    """A priority group has at most sixteen characters: letters, digits and some signs."""
    assert isValidGroup(group) is isValid


def test_subjects() -> None:
    """Subjects in configurations follow the rules of all subjects."""
    assert isValidSubjectText("a.*.>")
    assert not isValidSubjectText("a..b")
    assert isLiteralSubject("a*.b")
    assert subjectsOverlap("a.*", "*.b")
    assert isSubsetSubject("a.b", "a.>")


def test_metadataSize() -> None:
    """Metadata is measured in bytes."""
    assert metadataSize({"é": "ab", "": "c"}) == 5


SUBJECTS = [
    "a",
    "*",
    ">",
    "a.b",
    "a.*",
    "*.b",
    "a.>",
    "*.>",
    "a.b.>",
    "a.*.c",
    "*.*",
    "ab",
    "a.b.c",
]


@pytest.mark.parametrize("ours", [*SUBJECTS, "a..b", "a.>.b", "", "a.b\n", ".".join("a" * 40)])
def test_overlapping(ours: str) -> None:
    """The quick test for overlapping subjects has the same result as the general one."""
    overlaps = overlapping([ours])
    for theirs in [*SUBJECTS, ".".join("a" * 40)]:
        assert bool(overlaps(theirs)) == subjectsOverlap(ours, theirs), theirs


def test_overlappingSome() -> None:
    """A subject overlaps with a list if it overlaps with one of the list's subjects."""
    assert overlapping(["a.b", "c.>"])("*.d")
    assert not overlapping(["a.b", "c.>"])("d.d")
    assert not overlapping([])("a")
    assert overlapping([f"s{number}" for number in range(50)])("s49")
