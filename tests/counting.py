"""
Work as a number of calls, which does not depend on the machine.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable


def callsOf(work: Callable[[], object]) -> int:
    """Count the function calls that some work makes, including functions in C."""
    calls = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    # What others have called when garbage is collected does not belong to the work.
    gc.disable()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return calls
