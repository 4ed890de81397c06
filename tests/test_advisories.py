"""
The advisories for observers.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest

from natsbroker import advisories
from natsbroker.advisories import Advisory

ALL = [getattr(advisories, name) for name in advisories.__all__]


def test_listIsComplete() -> None:
    """The list has every advisory, and nothing else."""
    made = [value for value in vars(advisories).values() if isinstance(value, type)]
    assert {kind for kind in made if issubclass(kind, Advisory)} == set(ALL)


@pytest.mark.parametrize("kind", ALL)
class TestEach:
    """Each advisory."""

    def test_isAValue(self, kind: type[Advisory]) -> None:
        """An advisory is a frozen value: an observer cannot change it for the next one."""
        assert is_dataclass(kind)
        made = kind(*["x" for _ in fields(kind)])
        assert made == kind(*["x" for _ in fields(kind)])
        for field in fields(kind):
            with pytest.raises(FrozenInstanceError):
                setattr(made, field.name, "y")

    def test_isDocumented(self, kind: type[Advisory]) -> None:
        """An advisory has a docstring."""
        assert (kind.__doc__ or "").strip()
