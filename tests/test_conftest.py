"""
The rule that a logged failure fails its test, shown with generated tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.logger import Logger

from tests import conftest

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]

log = Logger()


def logFailure(error: Exception) -> None:
    """
    Log C{error} as an unexpected failure.
    """
    with log.failuresHandled("as a test asked for"):
        raise error


def outcomes(pytester: pytest.Pytester, text: str) -> dict[str, int]:
    """
    @return: the outcomes of the tests in C{text} under the project's conftest.
    """
    pytester.makeconftest("from tests.conftest import flushLoggedErrors")
    pytester.makepyfile(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(conftest.__file__).parents[1]))
        return pytester.runpytest_subprocess("-p", "no:cacheprovider").parseoutcomes()


class TestLoggedFailures:
    """Failures that reach only the log."""

    def test_flushed(self, flushLoggedErrors: conftest.FlushLoggedErrors) -> None:
        """A failure that the test fetches from the log does not fail it."""
        logFailure(ValueError("expected"))
        logFailure(KeyError("expected too"))
        assert [failure.type for failure in flushLoggedErrors(KeyError)] == [KeyError]
        assert [str(failure.value) for failure in flushLoggedErrors()] == ["expected"]
        assert flushLoggedErrors() == []

    def test_unflushedFails(self, pytester: pytest.Pytester) -> None:
        """A failure that was not flushed fails the test that logged it and no other."""
        text = """
            from twisted.logger import Logger
            from twisted.python import log

            def test_new():
                try:
                    raise ValueError("only logged")
                except ValueError:
                    Logger().failure("oops")

            def test_legacy():
                log.err(ValueError("only logged"))

            def test_quiet():
                pass
        """
        assert outcomes(pytester, text) == {"passed": 3, "errors": 2}

    def test_trialFlushes(self, pytester: pytest.Pytester) -> None:
        """
        A trial test flushes failures with its own method, and otherwise fails by trial's rule.
        """
        text = """
            from twisted.python import log
            from twisted.trial.unittest import SynchronousTestCase

            class Tests(SynchronousTestCase):
                def test_flushed(self):
                    log.err(ValueError("expected"))
                    self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

                def test_unflushed(self):
                    log.err(ValueError("only logged"))
        """
        assert outcomes(pytester, text) == {"passed": 1, "failed": 1}
