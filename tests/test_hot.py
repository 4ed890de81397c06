"""
The choice between compiled and pure names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import natsbroker
from natsbroker import hot
from tests.support import COMPILED, FIELDS, PURE, Names, needsCompiled, using

SHOW = (
    "from natsbroker import hot; "
    "print(hot.COMPILED, hot.Decoder.__module__.split('.')[1], hot.REASON)"
)

#: What the pure lane needs of its neighbours; the compiled one reaches into them.
FOR_THE_PURE_LANE = {"isBetweenLines", "window", "took", "putRun", "batch"}

HIDE = "import sys; sys.modules['natsbroker._accel.lane'] = None; "


def chosen(code: str, pure: str | None) -> list[str]:
    """
    @return: the words that a program prints in a new interpreter, which uses the same package as
        this process, installed or from the checkout.
    """
    environment = {name: value for name, value in os.environ.items() if name != "NATSBROKER_PURE"}
    if pure is not None:
        environment["NATSBROKER_PURE"] = pure
    output = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(natsbroker.__file__).parents[1],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return output.stdout.split()


class TestChoice:
    """The implementations that a process uses."""

    def test_pureByEnvironment(self) -> None:
        """C{NATSBROKER_PURE=1} selects the pure names, and is given as the reason."""
        assert chosen(SHOW, "1") == ["False", "wire", "NATSBROKER_PURE", "is", "set"]

    def test_pureIfNotCompiled(self) -> None:
        """Without the compiled module the pure names are used, and the reason is given."""
        words = chosen(HIDE + SHOW, None)
        assert words[:2] == ["False", "wire"]
        assert "not installed" in " ".join(words[2:])

    @needsCompiled
    @pytest.mark.parametrize("pure", [None, "", "0"])
    def test_compiledOtherwise(self, pure: str | None) -> None:
        """Where the compiled names exist and are not switched off, they are used."""
        assert chosen(SHOW, pure) == ["True", "_accel"]

    def test_thisProcess(self) -> None:
        """This process uses one of the two sets of names, without mixing them."""
        names = COMPILED if hot.COMPILED else PURE
        assert names is not None
        assert all(getattr(hot, name) is getattr(names, name) for name in FIELDS)


class TestNames:
    """The two sets of names."""

    def test_complete(self) -> None:
        """All exported names exist."""
        assert all(hasattr(hot, name) for name in hot.__all__)

    @needsCompiled
    @pytest.mark.parametrize(
        "name",
        [
            *("Decoder", "Matcher", "Matches", "Outbox", "InternalPublisher", "SidTable"),
            *("Subscription", "TrafficCounter", "FlushBatch"),
        ],
    )
    def test_sameInterface(self, name: str) -> None:
        """A compiled class has every public attribute of the pure one."""
        pure, compiled = getattr(PURE, name), getattr(COMPILED, name)
        public = {member for member in dir(pure) if not member.startswith("_")}
        assert public - set(dir(compiled)) - FOR_THE_PURE_LANE == set()


class TestUsing:
    """The tests' choice of an implementation, on which many other tests rely."""

    def test_restores(self) -> None:
        """The choice of the process is restored afterwards, also after a failure."""
        before = hot.FlushBatch, hot.Lane
        other = Names("none", **{name: object() for name in FIELDS})
        with pytest.raises(RuntimeError), using(other):
            assert hot.FlushBatch is other.FlushBatch
            raise RuntimeError
        assert (hot.FlushBatch, hot.Lane) == before
