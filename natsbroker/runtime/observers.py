"""The observers of a broker, and the statistics of calls into plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter

from twisted.logger import Logger

from natsbroker.advisories import Advisory
from natsbroker.interfaces import IObserver
from natsbroker.interfaces.providers import require

_log = Logger(namespace="natsbroker")


@dataclass(slots=True)
class PluginCalls:
    """
    The statistics of calls into plugins of one kind.

    @ivar failures: the calls that raised, or returned something useless.
    @ivar seconds: the time that all calls took, until their answers.
    """

    number: int = 0
    failures: int = 0
    seconds: float = 0.0


class Observers:
    def __init__(self, observers: Iterable[IObserver] = ()) -> None:
        self.calls = PluginCalls()
        self._observers: list[IObserver] = []
        for observer in observers:
            self.add(observer)

    def add(self, observer: IObserver) -> Callable[[], None]:
        require(IObserver, observer, "observe")
        self._observers.append(observer)

        def remove() -> None:
            self._observers = [other for other in self._observers if other is not observer]

        return remove

    def notify(self, advisory: Advisory) -> None:
        calls, began, observers = self.calls, perf_counter(), list(self._observers)
        for observer in observers:
            try:
                observer.observe(advisory)
            except BaseException:
                calls.failures += 1
                _log.failure("An observer failed")
        calls.number += len(observers)
        calls.seconds += perf_counter() - began
