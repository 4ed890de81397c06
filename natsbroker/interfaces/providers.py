"""
Checks of what a program passes to the broker, with errors that say what to pass instead. They are
made when something is passed, never for a message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from inspect import iscoroutinefunction
from typing import Any
from weakref import WeakSet

from zope.interface.exceptions import Invalid
from zope.interface.interface import Method
from zope.interface.verify import verifyObject

_KNOWN: defaultdict[tuple[str, ...], WeakSet[type]] = defaultdict(WeakSet)
"""
The classes that were verified, by the required methods. Requests subscribe often, and would verify
the same class each time.
"""


def require(interface: Any, given: object, *methods: str) -> None:
    """
    @param methods: what the object has to have, as plain functions; by default all of the
        interface, and the declaration that it provides it.
    @raise TypeError: if it lacks something, or is a class.
    """
    if type(given) in _KNOWN[methods]:
        return
    name = interface.getName()
    if given is None:
        raise TypeError(f"got None and not {name}: is a return missing?")
    if isinstance(given, type):
        kind = given.__name__
        raise TypeError(f"{kind} is a class, not an object that provides {name}: pass {kind}(...)")
    lacking = [
        method for method in methods or interface.names(all=True) if not hasattr(given, method)
    ]
    problems = []
    if lacking:
        problems.append(f"it has no {', '.join(_shown(interface[method]) for method in lacking)}")
    problems += [
        f"its {method} is a coroutine function, which nobody awaits"
        for method in methods
        if iscoroutinefunction(getattr(given, method, None))
    ]
    if not methods and not interface.providedBy(given):
        problems.append(f"its class has no @implementer({name})")
    if not methods and not problems:
        try:
            verifyObject(interface, given)
        except Invalid as error:
            problems.append(str(error))
    if problems:
        shown = getattr(given, "__qualname__", "") or f"an object of {type(given).__qualname__}"
        raise TypeError(f"{shown} provides no {name}: {', and '.join(problems)}")
    if methods and all(hasattr(type(given), method) for method in methods):
        _KNOWN[methods].add(type(given))


def _shown(attribute: Any) -> str:
    hasSignature = isinstance(attribute, Method)
    return str(attribute.__name__) + (str(attribute.getSignatureString()) if hasSignature else "")


def requireSeveral(**arguments: object) -> None:
    """Raise C{TypeError} for a single object in place of several."""
    for name, given in arguments.items():
        if isinstance(given, (bytes, str)) or not isinstance(given, Iterable):
            raise TypeError(f"{name} takes several: write {name}=[...], not {type(given).__name__}")
