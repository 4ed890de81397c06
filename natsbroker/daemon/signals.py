"""Signals of the operating system; their handlers run in the reactor."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import Any

from twisted.logger import Logger

_log = Logger(namespace="natsbroker")

_WORDS = {
    signal.SIGINT: "interrupt",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hangup",
    signal.SIGUSR1: "user defined signal 1",
    signal.SIGUSR2: "user defined signal 2",
    signal.SIGURG: "urgent I/O condition",
}
"""Their names in the log, as with nats-server."""


class Signals:
    def __init__(
        self, reactor: Any, answers: Mapping[signal.Signals, Callable[[], object]]
    ) -> None:
        self._reactor = reactor
        self._answers = dict(answers)
        self._before: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """To be called in the main thread."""
        for number in self._answers:
            self._before[number] = signal.signal(number, self._trapped)

    def uninstall(self) -> None:
        before, self._before = self._before, {}
        for number, handler in before.items():
            signal.signal(number, handler)

    def _trapped(self, number: int, frame: object) -> None:
        self._reactor.callFromThread(self._answer, signal.Signals(number))

    def _answer(self, which: signal.Signals) -> None:
        _log.info('Trapped "{name}" signal', name=_WORDS.get(which, which.name))
        self._answers[which]()
