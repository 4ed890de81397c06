"""
The signals that a process handles.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from natsbroker.daemon.signals import Signals
from tests.server.support import logLines


class Reactor:
    """A reactor that keeps the calls for its thread."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def callFromThread(self, call: Callable[..., None], *arguments: Any) -> None:
        self.calls.append((call, arguments))

    def run(self) -> None:
        """Make the calls."""
        calls, self.calls = self.calls, []
        for call, arguments in calls:
            call(*arguments)


class TestReceiving:
    """Signals to this process."""

    def test_answeredInReactor(self) -> None:
        """A handler runs in the reactor, and the signal is logged with nats-server's name."""
        reactor, answers = Reactor(), []
        signals = Signals(reactor, {signal.SIGUSR2: lambda: answers.append("ldm")})
        signals.install()
        try:
            os.kill(os.getpid(), signal.SIGUSR2)
            assert answers == []
            with logLines() as lines:
                reactor.run()
        finally:
            signals.uninstall()
        assert answers == ["ldm"]
        assert lines == ['[INF] Trapped "user defined signal 2" signal']

    def test_uninstalled(self) -> None:
        """The earlier handlers are restored."""
        before = signal.getsignal(signal.SIGUSR2)
        signals = Signals(Reactor(), {signal.SIGUSR2: lambda: None})
        signals.install()
        assert signal.getsignal(signal.SIGUSR2) is not before
        signals.uninstall()
        signals.uninstall()
        assert signal.getsignal(signal.SIGUSR2) is before
