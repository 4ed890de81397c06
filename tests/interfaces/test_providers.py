"""
Tests for L{natsbroker.interfaces.providers}.
"""

from __future__ import annotations

from typing import Any

import pytest
from zope.interface import implementer

from natsbroker.broker import Broker
from natsbroker.interfaces import IObserver
from natsbroker.interfaces.providers import require, requireSeveral


@implementer(IObserver)
class Watching:
    def observe(self, advisory: object) -> None:
        """Take an advisory, as the interface requires."""


@implementer(IObserver)
class Narrow:
    def observe(self) -> None:  # type: ignore[override]
        """Take too few arguments."""


class Late:
    async def observe(self, advisory: object) -> None:
        """Take an advisory as a coroutine."""


class Undeclared:
    def observe(self, advisory: object) -> None:
        """Take an advisory in a class that does not declare the interface."""


def function(message: object) -> None:
    """A plain function, as subscribers are in other libraries."""


@pytest.mark.parametrize(
    ("given", "methods", "text"),
    [
        (None, (), "got None and not IObserver: is a return missing?"),
        (Watching, (), r"Watching is a class, not an object .* IObserver: pass Watching\(...\)"),
        (function, ("observe",), r"function provides no IObserver: it has no observe\(advisory\)$"),
        (
            object(),
            (),
            r"object of object provides no IObserver: it has no observe\(advisory\), and",
        ),
        (Undeclared(), (), r"IObserver: its class has no @implementer\(IObserver\)"),
        (Late(), ("observe",), "its observe is a coroutine function, which nobody awaits"),
        (Narrow(), (), "doesn't allow enough arguments"),
    ],
)
def test_noProvider(given: object, methods: tuple[str, ...], text: str) -> None:
    """An unusable provider is refused with the names of the missing methods and of its class."""
    with pytest.raises(TypeError, match=text):
        require(IObserver, given, *methods)


def test_usableProvider() -> None:
    """A usable provider is accepted. A declaration is not needed if the methods are named."""
    require(IObserver, Watching())
    require(IObserver, Undeclared(), "observe")
    requireSeveral(services=(), observers=[1], others=iter(()))


def test_several() -> None:
    """A single object in place of a list is refused with a correct example."""
    arguments: Any
    for name in ("services", "observers", "connectionKinds", "endpoints"):
        for given in (Watching(), "tcp:4222"):
            arguments = {name: given}
            kind = type(given).__name__
            text = rf"{name} takes several: write {name}=\[...\], not {kind}"
            with pytest.raises(TypeError, match=text):
                Broker(**arguments)
