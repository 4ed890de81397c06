"""
The known subjects of a stream.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.streams import subjectstates
from natsbroker.jetstream.streams.subjectstates import SubjectState, SubjectStates, SubjectUnknown


def test_appends() -> None:
    """After a search, the state of a subject follows new messages until it is forgotten."""
    states = SubjectStates()
    states.stored(b"a", 1)
    with pytest.raises(SubjectUnknown):
        states.find(b"a")
    states.found(b"a", SubjectState(1, 1))
    states.stored(b"a", 2)
    states.stored(b"b", 3)
    assert states.find(b"a", True) == (2, 2)
    assert states.find(b"b").last == 3
    with pytest.raises(SubjectUnknown):
        states.find(b"b", True)
    states.forget(b"a")
    with pytest.raises(SubjectUnknown):
        states.find(b"a")


def test_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of remembered subjects is limited; the oldest are forgotten."""
    monkeypatch.setattr(subjectstates, "KNOWN", 2)
    states = SubjectStates()
    for subject in (b"a", b"b", b"c"):
        states.found(subject, SubjectState(1, 1))
    with pytest.raises(SubjectUnknown):
        states.find(b"a")
    assert states.find(b"c").messages == 1


def test_lastOf() -> None:
    """The last sequence of a subject that is not known is 0."""
    states = SubjectStates()
    assert states.lastOf(b"a") == 0
    states.found(b"a", SubjectState(2, 7))
    assert states.lastOf(b"a") == 7
