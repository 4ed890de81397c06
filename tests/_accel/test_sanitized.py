"""
A short run of the fuzzer under the sanitizers.
"""

from __future__ import annotations

import os

import pytest

from natsbroker import hot
from tests._accel.sanitized import Unavailable, fuzz

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not hot.COMPILED, reason=hot.REASON)
def test_nothingIsFound() -> None:
    """
    The sanitizers find nothing in 150 inputs. The long form is a command:
    L{tests._accel.sanitized}.
    """
    try:
        done = fuzz(150, 1)
    except Unavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(f"the sanitizers must run in CI: {reason}")
        pytest.skip(str(reason))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "150 inputs from seed 1 on: nothing found" in done.stdout
