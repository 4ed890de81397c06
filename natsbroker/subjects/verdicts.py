"""The verdicts of patterns about the subjects of many messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock

from natsbroker.steps import Steps, finish, pieces
from natsbroker.subjects.grammar import hasWildcard, matches
from natsbroker.subjects.index import InvalidPattern, SubjectIndex, TooManyShapes

#: Up to this many patterns are compared one by one.
_FEW = 8

#: The long lists whose index is kept: they are asked for page by page.
_REMEMBERED = 16


class SubjectVerdicts(dict[bytes, bool]):
    """Tells whether one of the patterns matches a literal subject. Each subject is matched once."""

    def __init__(self, patterns: Iterable[bytes]) -> None:
        super().__init__()
        self.patterns = tuple(patterns)
        self._test = testOf(self.patterns)

    def __missing__(self, subject: bytes) -> bool:
        verdict = self[subject] = self._test(subject)
        return verdict


def testOf(patterns: tuple[bytes, ...]) -> Callable[[bytes], bool]:
    isLong = len(patterns) > _FEW
    tests = finish(indexing(patterns)) if isLong else [*map(subjectTest, patterns)]
    return lambda subject: any(test(subject) for test in tests)


_indexes: dict[tuple[bytes, ...], list[Callable[[bytes], bool]]] = {}
_lock = Lock()


def indexing(patterns: tuple[bytes, ...]) -> Steps[list[Callable[[bytes], bool]]]:
    """
    An index that tests many patterns at once, and tests for the patterns that it does not take. It
    is remembered for further L{SubjectVerdicts} of the same patterns.
    """
    tests = _indexes.get(patterns)
    if tests is not None:
        return tests
    index: SubjectIndex[None] = SubjectIndex(len(patterns))
    tests = [index.hasInterest]
    for some in pieces(patterns):
        for pattern in some:
            try:
                index.insert(pattern, None)
            except (InvalidPattern, TooManyShapes):
                tests.append(subjectTest(pattern))
        yield
    # Threads that read ask for indexes too.
    with _lock:
        while len(_indexes) >= _REMEMBERED:
            del _indexes[next(iter(_indexes))]
        _indexes[patterns] = tests
    return tests


def subjectTest(pattern: bytes) -> Callable[[bytes], bool]:
    """A test like L{matches}, which does not split patterns without C{*}."""
    if not hasWildcard(pattern) and b"" not in pattern.split(b"."):
        return pattern.__eq__
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
