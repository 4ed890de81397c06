"""
Tests of L{tests.checks}, with parts made for the tests.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import checks
from tests.checks import REPEATS, Checks, Part, Run

pytestmark = pytest.mark.slow

PYTEST = (sys.executable, "-m", "pytest", "-p", "tests.progress", "-p", "no:cacheprovider")

FLAKY = """
import pathlib, pytest
{mark}
def test_secondTimeLucky():
    marker = pathlib.Path({marker!r})
    there = marker.exists()
    marker.touch()
    assert there
"""


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """
    @return: a directory for the reports of these runs.
    """
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    monkeypatch.setattr(checks, "WORK", tmp_path)
    monkeypatch.setattr(checks, "LEDGER", tmp_path / "repeated.txt")
    monkeypatch.setattr(checks, "GRACE", 0.5)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = realtime\n")
    return tmp_path


def partOf(work: Path, text: str, minutes: float = 1) -> Part:
    """
    @return: a part that runs one file of tests with this text.
    """
    (work / "test_made.py").write_text(text)
    return Part("made", minutes, (*PYTEST, "test_made.py"))


class TestPassing:
    """Parts without failures."""

    def test_allLanesRun(self, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Each part of each lane runs, and the last line has the sums of their counts."""
        good = partOf(work, "def test_a(): pass\ndef test_b(): pass\n")
        other = Part("other", 1, (sys.executable, "-c", "print('fine')"))
        assert Checks([[other, good], [Part("third", 1, ("true",))]]).run()
        printed = capsys.readouterr().err
        assert "made: passed, 2 of 2 tests, 0 failed" in printed
        assert printed.splitlines()[-1] == "natsbroker: 2 passed, 0 failed: all checks passed"

    def test_processorTime(self, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        The line of a part has its CPU seconds, and the last line but one has the CPU minutes of
        all.
        """
        text = "import time\ndef test_a():\n    while time.process_time() < 1: pass\n"
        assert Checks([[partOf(work, text)]]).run()
        printed = capsys.readouterr().err
        part = re.search(r"made: passed, .* (\d+) s of a processor", printed)
        assert part is not None and int(part[1]) >= 1
        whole = re.fullmatch(r"natsbroker: (\S+) minutes of a processor", printed.splitlines()[-2])
        assert whole is not None and float(whole[1]) * 60 >= int(part[1]) - 4

    def test_progressNamesRunningTest(self, work: Path) -> None:
        """The line of a running part has the counts and the name of the running test."""
        text = "import time\ndef test_a(): pass\ndef test_long(): time.sleep(60)\n"
        run = Run(partOf(work, text))
        try:
            while not run.running or "long" not in run.running[0]:
                time.sleep(0.05)
                run.update()
            assert "1 of 2 tests, 0 failed" in run.line()
            assert run.line().endswith("; now test_made.py::test_long")
        finally:
            run.stop()


class TestFailing:
    """Parts that fail, hang or cannot start."""

    def test_failureIsShown(self, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A failure is printed with its trace and named, and is not repeated."""
        assert not Checks([[partOf(work, "def test_a():\n    assert 1 == 2\n")]]).run()
        printed = capsys.readouterr()
        assert "assert 1 == 2" in printed.out
        assert "made: failed: test_made.py::test_a" in printed.err
        assert printed.err.splitlines()[-1] == "natsbroker: 0 passed, 1 failed: NOT PASSED"
        assert not (work / "repeated.txt").exists()

    def test_brokenModuleFails(self, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A test module that cannot be imported fails its part and is named."""
        assert not Checks([[partOf(work, "import missing_module\n")]]).run()
        assert "made: failed: test_made.py" in capsys.readouterr().err

    def test_hangingTestIsNamed(self, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A part that exceeds its limit is stopped, and the test that ran is named."""
        text = "import time\ndef test_hanging():\n    time.sleep(600)\n"
        assert not Checks([[partOf(work, text, minutes=0.05)]]).run()
        printed = capsys.readouterr().err
        assert "made: STOPPED after 0.05 minutes" in printed
        assert "stopped while this test was running: test_made.py::test_hanging" in printed

    def test_missingProgramFails(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A part whose program does not exist fails the run."""
        assert not Checks([[Part("absent", 1, ("/nonexistent/program",))]]).run()
        assert "absent: cannot start" in capsys.readouterr().err

    def test_killedPartFails(self, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A part that the system kills fails, and the test that ran is named."""
        text = "import os, signal\ndef test_a():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        assert not Checks([[partOf(work, text)]]).run()
        assert "was running: test_made.py::test_a" in capsys.readouterr().err


class TestRepeating:
    """Failed tests that run once more."""

    def run(self, work: Path, mark: str) -> bool:
        """
        @return: whether the run succeeds with a test that passes the second time.
        """
        text = FLAKY.format(mark=mark, marker=str(work / "was"))
        return Checks([[partOf(work, text)]]).run()

    def test_realtimeTestIsRepeatedOnRecord(
        self, work: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A failed realtime test runs once more, which the ledger and the last line record."""
        assert self.run(work, "@pytest.mark.realtime")
        name = "test_made.py::test_secondTimeLucky"
        assert (work / "repeated.txt").read_text().endswith(f"passed {name}\n")
        assert f"1 of them repeated alone: {name}" in capsys.readouterr().err.splitlines()[-1]

    def test_otherCheckCounts(self, work: Path) -> None:
        """
        A failed check that is not a test fails the run, also if a repeated realtime test has
        passed.
        """
        text = FLAKY.format(mark="@pytest.mark.realtime", marker=str(work / "was"))
        assert not Checks([[partOf(work, text)], [Part("types", 1, ("false",))]]).run()

    def test_otherTestIsNotRepeated(self, work: Path) -> None:
        """A failed test without the realtime mark is not repeated, and fails the run."""
        assert not self.run(work, "")

    def test_secondFailureCounts(self, work: Path) -> None:
        """A realtime test that fails again fails the run, and is recorded in the ledger."""
        text = "import pytest\n@pytest.mark.realtime\ndef test_a():\n    assert 0\n"
        assert not Checks([[partOf(work, text)]]).run()
        assert "FAILED AGAIN test_made.py::test_a" in (work / "repeated.txt").read_text()

    def test_manyFailuresAreNotRepeated(self, work: Path) -> None:
        """No realtime test is repeated if more have failed than may be repeated."""
        text = "import pytest\npytestmark = pytest.mark.realtime\n"
        text += (
            f"@pytest.mark.parametrize('n', range({REPEATS + 1}))\ndef test_a(n):\n    assert 0\n"
        )
        assert not Checks([[partOf(work, text)]]).run()
        assert not (work / "repeated.txt").exists()


def test_interruptEndsEveryProcess(work: Path) -> None:
    """SIGINT ends the run with all programs of its tests, also those in their own session."""
    text = f"""
import subprocess, sys, time
def test_a():
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    open({str(work / "child")!r}, "w").write(str(child.pid))
    time.sleep(600)
"""
    (work / "test_made.py").write_text(text)
    program = (
        "import sys, signal; from pathlib import Path; from tests import checks;"
        f"checks.ROOT = checks.WORK = Path({str(work)!r}); checks.GRACE = 2.0;"
        "signal.signal(signal.SIGINT, checks.interrupt);"
        f"part = checks.Part('made', 1, {(*PYTEST, 'test_made.py')!r});"
        "sys.exit(0 if checks.Checks([[part]]).run() else 1)"
    )
    run = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    while not ((work / "child").exists() and (work / "child").read_text()):
        time.sleep(0.05)
    child = int((work / "child").read_text())
    run.send_signal(signal.SIGINT)
    _, printed = run.communicate(timeout=30)
    assert run.returncode == 1
    assert "interrupted" in printed
    stat = Path(f"/proc/{child}/stat")
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            # It may stay uncollected: in a chroot the first process is a program like any other.
            if stat.exists() and stat.read_text().rpartition(") ")[2][0] == "Z":
                raise ProcessLookupError
            os.kill(child, 0)
            time.sleep(0.05)
