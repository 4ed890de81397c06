"""
A short run of the fuzzer, and proof that it detects violations.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.clients.session import ClientSession
from tests.clients import fuzz
from tests.clients.fuzz import STATES, Broken, Fuzzer
from tests.support import Names, onEach, using


@pytest.mark.slow
@onEach
def test_short(names: Names) -> None:
    """Some thousand inputs in every state of a connection violate no rule."""
    with using(names):
        Fuzzer(seed=11).run(300 * len(STATES))


class TestNotices:
    """The fuzzer detects violations."""

    def attempt(self, monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> str:
        """Break sessions in some way, and return the fuzzer's report."""
        monkeypatch.setattr(ClientSession, name, value)
        with pytest.raises(Broken) as caught:
            Fuzzer(seed=3).run(2000)
        return str(caught.value)

    def test_escapes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An exception that leaves the session is detected."""

        def received(self: ClientSession, data: bytes) -> None:
            raise ZeroDivisionError

        assert "escaped" in self.attempt(monkeypatch, "received", received)

    def test_logged(self, monkeypatch: pytest.MonkeyPatch, flushLoggedErrors: Any) -> None:
        """A failure that is only logged is detected."""

        def facts(line: bytes) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr("natsbroker.clients.session.parseConnect", facts)
        with pytest.raises(Broken, match="ZeroDivisionError"):
            Fuzzer(seed=3).run(2000)
        flushLoggedErrors(ZeroDivisionError)

    def test_splits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An answer that depends on how input was cut is detected."""
        real = ClientSession.received

        def received(self: ClientSession, data: bytes) -> None:
            real(self, data)
            if not self.reason:
                self.outbox.write(b"!")

        assert "in pieces" in self.attempt(monkeypatch, "received", received)

    def test_leaks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A closed connection that leaves something behind is detected."""
        assert "is left" in self.attempt(monkeypatch, "_leaveAccount", lambda self: None)


@pytest.mark.slow
class TestCommand:
    """The command line of long runs."""

    def test_good(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A run without a violation reports that and succeeds."""
        assert fuzz.main(["--inputs", "50", "--seed", "2"]) == 0
        assert "50 inputs" in capsys.readouterr().out

    def test_bad(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        """A run with a violation shows it and fails."""
        monkeypatch.setattr(fuzz, "MOST_KEPT", -1_000_000)
        assert fuzz.main(["--inputs", "50", "--seed", "2"]) == 1
        output = capsys.readouterr().out
        assert "broken after 0 inputs, seed 2" in output
        assert "of the input are kept" in output

    def test_grows(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A run whose memory grows too much fails."""
        sizes = iter((100, 100 + fuzz.GROWTH))
        monkeypatch.setattr(fuzz, "memory", lambda: next(sizes))
        assert fuzz.main(["--inputs", "5"]) == 1
        capsys.readouterr()
