"""
The table of the subjects that are sent to another cluster.
"""

from __future__ import annotations

import pytest

from natsbroker.gateways.tables import (
    INTEREST_ONLY,
    OPTIMISTIC,
    TRANSITIONING,
    InterestTable,
)
from natsbroker.subjects.permissions import PermissionSet
from natsbroker.subjects.shapes import TooManyShapes


def table(mode: str = OPTIMISTIC, mostRefused: int = 100) -> InterestTable:
    """An interest table."""
    return InterestTable("there", "A", mode, mostRefused=mostRefused)


def plain(made: InterestTable, *subjects: bytes) -> list[bool]:
    """For each subject, whether it is sent for plain subscriptions."""
    return [made.match(subject)[0] for subject in subjects]


@pytest.mark.parametrize(
    ("mode", "answers"),
    [
        (OPTIMISTIC, [True, False, True]),
        (TRANSITIONING, [True, False, True]),
        (INTEREST_ONLY, [False, False, True]),
    ],
)
def test_modes(mode: str, answers: list[bool]) -> None:
    """The mode of a table decides whether unknown, refused and wanted subjects are sent."""
    made = table(mode)
    made.refuse(b"refused")
    made.want(b"wanted", b"")
    assert plain(made, b"unspoken", b"refused", b"wanted") == answers


def test_wantedAndRefused() -> None:
    """A subject that matches a wanted pattern is sent, also if it was refused before."""
    made = table(TRANSITIONING)
    made.refuse(b"a.b")
    made.want(b"a.>", b"")
    assert plain(made, b"a.b") == [True]


def test_wantedTwice() -> None:
    """A pattern that was wanted twice is unwanted after one end."""
    made = table(INTEREST_ONLY)
    made.want(b"a.*", b"")
    made.want(b"a.*", b"")
    assert made.unwant(b"a.*", b"")
    assert not made.unwant(b"a.*", b"")
    assert plain(made, b"a.b") == [False]


def test_groups() -> None:
    """Each group is listed once, however many of its patterns match."""
    made = table(INTEREST_ONLY)
    for pattern, queue in ((b"a.*", b"q"), (b"a.b", b"q"), (b"a.b", b"r"), (b"c", b"s")):
        made.want(pattern, bytes(bytearray(queue)))
    assert sorted(made.match(b"a.b")[1]) == [b"q", b"r"]
    assert made.unwant(b"a.*", b"q") and made.unwant(b"a.b", b"r")
    assert list(made.match(b"a.b")[1]) == [b"q"]
    assert not made.unwant(b"a.b", b"r")


def test_permitted() -> None:
    """A subject that permissions deny has no receivers."""
    made = InterestTable("there", "A", OPTIMISTIC, PermissionSet([b"eu.>"], [b"eu.secret"]))
    made.want(b">", b"q")
    assert plain(made, b"eu.x", b"us.x", b"eu.secret") == [True, False, False]
    assert [list(made.match(subject)[1]) for subject in (b"eu.x", b"us.x")] == [[b"q"], []]


def test_mostRefused() -> None:
    """The oldest refusal is forgotten when there are too many."""
    made = table(mostRefused=2)
    for subject in (b"a", b"b", b"c"):
        made.refuse(subject)
    assert plain(made, b"a", b"b", b"c") == [True, False, False]
    assert made.figures()["no_interest"] == 2


def test_readmit() -> None:
    """
    Interest in a pattern removes the refusals of matching subjects, and interest in a subject its
    own.
    """
    made = table()
    for subject in (b"a.1", b"a.2", b"b", b"c"):
        made.refuse(subject)
    made.readmit(b"a.*")
    made.readmit(b"b")
    made.readmit(b"unheard.of")
    assert plain(made, b"a.1", b"a.2", b"b", b"c") == [True, True, True, False]


def test_switch() -> None:
    """
    A change of the mode is counted with its time, and refusals have no effect once all interest is
    known.
    """
    made = table()
    made.refuse(b"a")
    made.switch(OPTIMISTIC, 1.0)
    assert (made.switches, made.switched) == (0, 0.0)
    made.switch(TRANSITIONING, 2.0)
    made.switch(INTEREST_ONLY, 3.0)
    assert (made.switches, made.switched, made.figures()["no_interest"]) == (2, 3.0, 0)


def test_tooManyShapes() -> None:
    """A table takes a limited number of wildcard shapes, and does not keep refused ones."""
    made = table(INTEREST_ONLY)
    tokens = 12
    with pytest.raises(TooManyShapes):
        for number in range(1, 1 << tokens):
            pattern = b".".join(b"*" if number >> place & 1 else b"a" for place in range(tokens))
            made.want(pattern, b"q")
    assert not made.unwant(pattern, b"q")


def test_figures() -> None:
    """The figures for monitoring are readable."""
    made = table(INTEREST_ONLY)
    made.want(b"a", b"")
    made.want(b"a", b"q")
    assert made.figures() == {
        "mode": "interest-only",
        "no_interest": 0,
        "interest": 1,
        "queues": 1,
        "account_wanted": True,
        "switches": 0,
        "switched": 0.0,
    }
    assert list(made.interests()) == [(b"a", b""), (b"a", b"q")]
    asked = [(b"a", b""), (b"a", b"q"), (b"a", b"r"), (b"b", b"")]
    assert [made.wants(*request) for request in asked] == [True, True, False, False]


def test_isOpen() -> None:
    """Whether subjects without known interest are sent."""
    made = table()
    opened = [made.isOpen]
    made.isAccountWanted = False
    opened.append(made.isOpen)
    made.isAccountWanted = True
    for mode in (TRANSITIONING, INTEREST_ONLY):
        made.switch(mode, 1.0)
        opened.append(made.isOpen)
    assert opened == [True, False, True, False]
