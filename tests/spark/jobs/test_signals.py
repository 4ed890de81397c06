"""
Being asked to end.
"""

from __future__ import annotations

import io
import os
import signal
import threading

import pytest

from natsbroker.spark.jobs.common import JobRun, stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked(number: signal.Signals) -> None:
    """A signal asks the job to end. Afterwards the former handler is restored."""
    before = signal.getsignal(number)
    with stopping() as stop:
        assert not stop.isSet()
        assert not stop.wait(0)
        os.kill(os.getpid(), number)
        assert stop.wait(60)
        assert stop.isSet()
    assert signal.getsignal(number) is before


def test_wakes() -> None:
    """A signal ends a long wait."""
    with stopping() as stop:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        assert stop.wait(600)
        timer.join()


def test_restored() -> None:
    """Signals have their old handlers also after a failure."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ZeroDivisionError), stopping():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGTERM) is before


def test_inTime() -> None:
    """A job that ends soon after a signal leaves no thread and no wakeup descriptor."""
    job = JobRun("archive", (), io.StringIO(), io.StringIO())
    threads = threading.active_count()
    with stopping(job) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(60)
    assert threading.active_count() == threads
    assert signal.set_wakeup_fd(-1) == -1
