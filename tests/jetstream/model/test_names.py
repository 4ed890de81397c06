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
    subjectsOverlap,
)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "*", ">", "a\\b", "a/b", "a\tb", "a\n"])
def test_invalidNames(name: str) -> None:
    """A name is not empty and has nothing that a subject or path would split."""
    assert not isValidName(name)


def test_validNames() -> None:
    """Any other character is fine."""
    assert isValidName("Ünïcode-1_$")
    assert hasPathSeparator("a\\b")
    assert not hasPathSeparator("a.b")


@pytest.mark.parametrize(
    ("group", "isValid"), [("a/b_c=D-9", True), ("", False), ("x" * 17, False)]
)
def test_groups(group: str, isValid: bool) -> None:
    """A priority group has at most sixteen characters of a few kinds."""
    assert isValidGroup(group) is isValid


def test_subjects() -> None:
    """Subjects of configurations follow the grammar of all subjects."""
    assert isValidSubjectText("a.*.>")
    assert not isValidSubjectText("a..b")
    assert isLiteralSubject("a*.b")
    assert subjectsOverlap("a.*", "*.b")
    assert isSubsetSubject("a.b", "a.>")


def test_metadataSize() -> None:
    """Metadata is measured in bytes."""
    assert metadataSize("é", "ab") == 4
