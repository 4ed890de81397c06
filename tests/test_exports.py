"""
The public facade: every contract is there, under one name, and says what it means.

Promises: C{natsbroker.interfaces} exports each interface that the modules of
C{natsbroker.interfaces} declare and
nothing else; each interface is small, and it and all its members have docstrings.

Must never know: who provides the interfaces.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from zope.interface.interface import InterfaceClass, Method

import natsbroker
from natsbroker import interfaces

ROOT = Path(natsbroker.__file__).resolve().parent

LARGEST = 8
"""How many methods an interface may have. Small ones get third-party providers, large ones none."""


def declared() -> dict[str, InterfaceClass]:
    """
    @return: every interface that a module of C{natsbroker.interfaces} declares, by name.
    """
    found = {}
    for path in sorted((ROOT / "interfaces").glob("[a-z]*.py")):
        module = importlib.import_module(f"natsbroker.interfaces.{path.stem}")
        for name, value in vars(module).items():
            if isinstance(value, InterfaceClass) and value.__module__ == module.__name__:
                found[name] = value
    return found


def test_facadeIsComplete() -> None:
    """The facade exports every declared interface and nothing else, in alphabetical order."""
    assert interfaces.__all__ == sorted(declared())


def test_facadeIsTheSame() -> None:
    """A name of the facade is the declared interface itself."""
    assert {name: getattr(interfaces, name) for name in interfaces.__all__} == declared()


@pytest.mark.parametrize("name", sorted(declared()))
class TestInterface:
    """Each contract by itself."""

    def test_isNamedAsOne(self, name: str) -> None:
        """An interface's name begins with a capital I and another capital."""
        assert name[0] == "I" and name[1].isupper()

    def test_isDocumented(self, name: str) -> None:
        """An interface and all its methods and attributes say what they mean."""
        interface = declared()[name]
        members = dict(interface.namesAndDescriptions())
        silent = [key for key, member in members.items() if not (member.__doc__ or "").strip()]
        assert (interface.__doc__ or "").strip()
        assert silent == []

    def test_isSmall(self, name: str) -> None:
        """An interface has few enough methods that somebody else will provide it."""
        members = [member for _, member in declared()[name].namesAndDescriptions()]
        assert len([each for each in members if isinstance(each, Method)]) <= LARGEST
