"""
What passes over links, in the log.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.links.trace import traceCame, traceSaid
from natsbroker.wire import ops
from tests.routes.clusters import everything


@pytest.mark.parametrize(
    ("frame", "longest", "line"),
    [
        ((ops.PING,), 0, "L - <<- [PING]"),
        ((ops.RS_PLUS, b"A foo"), 0, "L - <<- [RS+ A foo]"),
        ((ops.CONNECT, b'{"user":"u","pass":"secret"}'), 0, "[REDACTED]"),
        ((ops.RMSG, b"foo", b"", 0, b"payload"), 0, "L - <<- [RMSG foo payload]"),
        ((ops.RMSG, b"foo", b"", 0, b"payload"), 4, "L - <<- [RMSG foo payl]"),
        ((ops.INFO, b'{"server_id":"X"}'), 4, "server_id"),
    ],
)
def test_came(frame: tuple[Any, ...], longest: int, line: str) -> None:
    """A frame is shown as on the wire, with its payload cut and without passwords."""
    with everything() as said:
        traceCame("L", frame, longest)
    assert len(said) == 1 and line in said[0]
    assert "secret" not in said[0]


def test_unknown() -> None:
    """What is no operation of the wire is not shown."""
    with everything() as said:
        traceCame("L", (ops.FAULT, b"x"), 0)
    assert said == []


def test_said() -> None:
    """A line that is sent has the other arrow, and no line end."""
    with everything() as said:
        traceSaid("L", b"RS+ A foo\r\n")
    assert said == ["L - ->> [RS+ A foo]"]
