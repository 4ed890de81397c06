"""
Which subjects of many messages some patterns match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from natsbroker.subjects.grammar import hasWildcard, matches


class SubjectVerdicts(dict[bytes, bool]):
    """
    Whether one of the patterns matches a literal subject; found out once for each subject.
    """

    def __init__(self, patterns: Iterable[bytes]) -> None:
        super().__init__()
        self.patterns = tuple(patterns)
        self._tests = [subjectTest(each) for each in self.patterns]

    def __missing__(self, subject: bytes) -> bool:
        verdict = self[subject] = any(test(subject) for test in self._tests)
        return verdict


def subjectTest(pattern: bytes) -> Callable[[bytes], bool]:
    """
    What tells as L{matches} does whether a pattern matches a literal subject, without splitting it
    where the pattern has no wildcard but a last C{>}.
    """
    prefix = pattern[:-1]
    isPrefix = pattern.endswith(b".>") and not hasWildcard(prefix[:-1])
    return partial(_beginsWith, prefix) if isPrefix else partial(matches, pattern)


def _beginsWith(prefix: bytes, subject: bytes) -> bool:
    return (
        subject.startswith(prefix)
        and len(subject) > len(prefix)
        and subject[-1:] != b"."
        and b".." not in subject
        and subject[:1] != b"."
    )
