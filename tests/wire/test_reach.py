"""
The forwarding rules, cell by cell.
"""

from __future__ import annotations

import pytest

from natsbroker.wire import reach
from natsbroker.wire.reach import MASKS, REACH
from natsbroker.wire.values import Kind

#: The table again, in a spelling of its own: one row for each origin, one letter for each target
#: in the order of L{Kind}.
EXPECTED = {
    Kind.CLIENT: "yyyyyyy",
    Kind.INTERNAL: "yyyyyyy",
    Kind.LOCAL: "yyynnnn",
    Kind.ROUTE: "yynnnny",
    Kind.GATEWAY: "yynynyy",
    Kind.HUB: "yynnyyy",
    Kind.SPOKE: "yynyyyy",
}

CELLS = [
    pytest.param(origin, target, answer == "y", id=f"{origin.name}-{target.name}")
    for origin, row in EXPECTED.items()
    for target, answer in zip(Kind, row, strict=True)
]


def documented() -> dict[tuple[str, str], bool]:
    """
    @return: the cells of the table in the module's docstring.
    """
    lines = [line.split() for line in (reach.__doc__ or "").splitlines()]
    start = next(place for place, words in enumerate(lines) if words[:1] == ["from"])
    targets = lines[start][3:]
    return {
        (row[0], target): answer == "yes"
        for row in lines[start + 1 : start + 8]
        for target, answer in zip(targets, row[1:], strict=True)
    }


@pytest.mark.parametrize(("origin", "target", "answer"), CELLS)
class TestCells:
    """All forty-nine pairs of kinds."""

    def test_reaches(self, origin: Kind, target: Kind, answer: bool) -> None:
        """Whether a message from this kind of origin may go to this kind of target."""
        assert (target in REACH[origin]) is answer
        assert (target in REACH[origin]) is answer
        assert bool(MASKS[origin] >> target & 1) is answer

    def test_isDocumented(self, origin: Kind, target: Kind, answer: bool) -> None:
        """The documented table equals the rules."""
        assert documented()[(origin.name, target.name)] is answer


def test_complete() -> None:
    """There is a row for every kind of origin, and a column for every kind of target."""
    assert set(REACH) == set(Kind)
    assert len(CELLS) == len(documented()) == 49
