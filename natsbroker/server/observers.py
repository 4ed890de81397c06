"""
Those who are told what happens in a broker.

Promises: everybody is told, also when somebody before fails, and that is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.logger import Logger
from zope.interface.verify import verifyObject

from natsbroker.advisories import Advisory
from natsbroker.interfaces import IObserver

__all__ = ["Observers"]

_log = Logger(namespace="natsbroker")


class Observers:
    """
    The observers of one broker.
    """

    def __init__(self, observers: Iterable[IObserver] = ()) -> None:
        self._observers: list[IObserver] = []
        for observer in observers:
            self.add(observer)

    def add(self, observer: IObserver) -> Callable[[], None]:
        """
        Tell one more.

        @return: a callable without arguments that ends it.
        """
        verifyObject(IObserver, observer)
        self._observers.append(observer)

        def remove() -> None:
            self._observers = [each for each in self._observers if each is not observer]

        return remove

    def notify(self, advisory: Advisory) -> None:
        """
        Tell everybody.
        """
        for observer in list(self._observers):
            try:
                observer.observe(advisory)
            except BaseException:
                _log.failure("An observer failed")
