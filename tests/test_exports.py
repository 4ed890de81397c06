"""
The package C{natsbroker.interfaces}, which exports every interface under one name. Each interface
is small, and each member has a docstring.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from zope.interface.interface import InterfaceClass, Method

import natsbroker
from natsbroker import interfaces
from natsbroker.interfaces import records

ROOT = Path(natsbroker.__file__).resolve().parent

LARGEST = 8
"""The most methods of an interface. Small ones get third-party providers, large ones none."""


def declared() -> dict[str, InterfaceClass]:
    """
    @return: every interface that a module of C{natsbroker.interfaces} declares, by name.
    """
    contracts = {}
    for path in sorted((ROOT / "interfaces").glob("[a-z]*.py")):
        module = importlib.import_module(f"natsbroker.interfaces.{path.stem}")
        for name, value in vars(module).items():
            if isinstance(value, InterfaceClass) and value.__module__ == module.__name__:
                contracts[name] = value
    return contracts


#: Values of the wire that contracts take or give.
WIRE = {"ClientInfo", "Grant", "Kind", "Message", "Run"}


def test_facadeIsComplete() -> None:
    """The package exports every interface, and the values and errors that these use."""
    assert set(interfaces.__all__) == set(declared()) | set(records.__all__) | WIRE
    assert len(set(interfaces.__all__)) == len(interfaces.__all__)


def test_interfacesAreTheDeclaredOnes() -> None:
    """An exported interface is the declared one itself."""
    assert {name: getattr(interfaces, name) for name in declared()} == declared()


@pytest.mark.parametrize("name", sorted(declared()))
class TestInterface:
    """Each interface."""

    def test_isNamedAsOne(self, name: str) -> None:
        """The name of an interface begins with a capital I and another capital letter."""
        assert name[0] == "I" and name[1].isupper()

    def test_isDocumented(self, name: str) -> None:
        """An interface and all its methods and attributes have descriptions."""
        interface = declared()[name]
        members = dict(interface.namesAndDescriptions())
        silent = [key for key, member in members.items() if not (member.__doc__ or "").strip()]
        assert (interface.__doc__ or "").strip()
        assert silent == []

    def test_isSmall(self, name: str) -> None:
        """An interface has few enough methods to be implemented by others."""
        members = [member for _, member in declared()[name].namesAndDescriptions()]
        assert len([member for member in members if isinstance(member, Method)]) <= LARGEST
