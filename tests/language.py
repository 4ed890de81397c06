"""
Finds phrases and names that the project no longer uses, in code, prose and tests.

To list them in files or directories, by default in all that are checked::

    python -m tests.language [PATH...]
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PLACES = ("natsbroker", "docs", "tests", "examples", "benchmarks", "twisted")
"""The directories that are read."""

PAGES = ("README.md", "CONTRIBUTING.md")
"""The files at the top that are read."""

SUFFIXES = frozenset({".py", ".pyi", ".pyx", ".pxd", ".pxi", ".md", ".rst"})
SKIPPED = frozenset({"node_modules", "build", "__pycache__", ".build"})

LISTS = frozenset({"tests/language.py", "tests/test_language.py"})
"""Files that quote the phrases because they are about them."""

PHRASES = {
    "whoever": "name the role: the client, the caller, the account",
    "whom": "name the role",
    "anew": "again",
    "so many": "say the number, or: that many",
    "is told": "receives, is notified, learns",
    "are told": "receive, are notified, learn",
    "what is told": "a noun: the announcement, the report",
    "no bytes": "empty",
    "the real server": "nats-server",
    "a blank": "a space",
    "promises:": "state the behaviour directly, if it is worth stating",
    "must never know": "drop it; tests/test_imports.py holds the layers",
    "for people": "human-readable",
    "door": "the field's noun: bus, entry point",
    "doors": "the field's noun: buses, entry points",
    "led": "with a reply prefix",
    "a way": "a noun: a path, a means, a route",
    "as it stands": "unchanged",
    "gone on with": "continued",
    "of one's own": "custom",
}
"""Phrases in lower case, each with what to write instead."""

_NAMES = """
AccountDoors Acknowledging AdmittedConversation Advising Audience Authority Awaited Complaints
Connecting Conversation Crossing Debts Decoys Demand Exchange FastStream Findings Foreigners
Form FreshPatterns GatewayPassage HeardSids Hello Hub ILogCatalogue ILogUser IPrepared Intake
Joint LeafDoors Leaving LedBack LinkBook LinkDoors LinkGround LinkRoll LogElsewhere Manner
Missing Neighbours News Outlet PENANCE Passage Placing Presence Publishing Reading RestingFile
Roll Subscribing Surroundings Talk Talkers Telling TimedConversation ToldSids Troubles Turn
TurnTaker Turnstile Wish apart beacon claimed derived diverts door inside leading led making
places post postMany printable quoted readable recorder runs shown spelled takeOver tellAll
test_again test_nothing test_others test_refused test_wrong
"""

NAMES = frozenset(_NAMES.split())
"""
Classes, functions and modules are not called by these any more. No variable is called C{each} or
C{found} either.
"""

_SPACE = r"[ \t]*(?:[ \t]|\n[ \t#*]*)"
_WORDS = re.compile(
    r"\b(?:"
    + "|".join(
        re.escape(phrase).replace(r"\ ", _SPACE)
        for phrase in sorted(PHRASES, key=len, reverse=True)
        if not phrase.endswith(":")
    )
    + r")\b|\bpromises:"
)
_NOBODY = re.compile(r"\bNobody\b")
_SAYS = re.compile(r"\bwhat (?:(?:the|an?|its|their|his) )?[\w{}.]+ says\b", re.IGNORECASE)
_BEGUN = re.compile(r'"""\s*(?:What|Who|How|So|Nor|And|But)\b')
_COMMENT_BEGUN = re.compile(
    r"(?:\A|^(?![ \t]*#:).*\n)[ \t]*#: (?:What|Who|How|So|Nor|And|But)\b", re.MULTILINE
)
_ONLY_SEE = re.compile(r'"""\s*See L\{[\w.]+\}\.?\s*"""')
_VAGUE = re.compile(
    r"\bfor (?:\(?\w+\)?, )*\(?(?:each|found)\b\)?(?:, \(?\w+\)?)* in\b"
    r"|\blambda (?:\w+, )*(?:each|found)\b|\bas (?:each|found):|\((?:each|found) :="
    r"|^ *(?:\w+, )*(?:each|found)(?:, \w+)*(?:: [^=\n]+)? [+|]?= |^ *(?:each|found): .*,$"
    r"|\bdef \w+\([^)]*\b(?:each|found)[,:)]",
    re.MULTILINE,
)
_DEFINED = re.compile(r"^[ \t]*(?:async |cdef |cpdef )*(?:class|def)[ \t]+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """
    A phrase or a name in a file.

    @ivar line: the line's number, from 1.
    @ivar text: the phrase or name.
    @ivar instead: the replacement.
    """

    line: int
    text: str
    instead: str


def _matches(text: str) -> Iterator[tuple[int, str, str]]:
    for match in _WORDS.finditer(text.lower()):
        phrase = re.sub(r"[\s#*]+", " ", match[0])
        yield match.start(), phrase, PHRASES[phrase]
    for match in _NOBODY.finditer(text):
        yield match.start(), match[0], "begin with the noun: No client ..., Nothing ..."
    for match in _SAYS.finditer(text):
        yield match.start(), match[0], "a noun: the text, the value, the message"
    for match in _ONLY_SEE.finditer(text):
        yield match.start(), match[0], "no docstring: the interface has it"
    for match in _DEFINED.finditer(text):
        if match[1] in NAMES:
            yield match.start(1), match[1], "the field's name; see docs/glossary.md"


def findingsIn(path: str, text: str) -> list[Finding]:
    """
    @param path: the file's path below the project's top, for its name.
    @param text: the content of the file.
    @return: the banned phrases and names in the text, by line.
    """
    stem = Path(path).stem
    findings = [
        Finding(text.count("\n", 0, start) + 1, what, instead)
        for start, what, instead in sorted(_matches(text))
    ]
    findings += [
        Finding(text.count("\n", 0, match.end()) + 1, match[0], "a noun phrase or a verb")
        for match in _BEGUN.finditer(text)
    ]
    if path.startswith("natsbroker/"):
        findings += [
            Finding(text.count("\n", 0, match.end()) + 1, match[0], "a noun phrase")
            for match in _COMMENT_BEGUN.finditer(text)
        ]
    if path.endswith(".py"):
        findings += [
            Finding(text.count("\n", 0, match.end()) + 1, match[0], "a noun that says what it is")
            for match in _VAGUE.finditer(text)
        ]
    if stem in NAMES:
        findings.insert(0, Finding(1, f"module {stem}", "the field's name; see docs/glossary.md"))
    return findings


def files(places: Iterable[str]) -> Iterator[str]:
    """
    @param places: directories and files below the project's top.
    @return: the paths of the files that are read.
    """
    for place in places:
        if (ROOT / place).is_file():
            yield place
        for directory, below, names in os.walk(ROOT / place):
            below[:] = sorted(set(below) - SKIPPED)
            for name in sorted(names):
                path = Path(directory, name).relative_to(ROOT).as_posix()
                if Path(name).suffix in SUFFIXES and path not in LISTS:
                    yield path


def report(places: Iterable[str]) -> Iterator[str]:
    """
    @param places: directories and files below the project's top.
    @return: a line for each finding: its place, its text, and the replacement.
    """
    for path in files(places):
        for finding in findingsIn(path, (ROOT / path).read_text("utf-8")):
            text = " ".join(finding.text.split())
            yield f"{path}:{finding.line}: {text} -> {finding.instead}"


if __name__ == "__main__":
    print("\n".join(report(sys.argv[1:] or (*PLACES, *PAGES))))
