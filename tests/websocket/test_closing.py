"""
Tests for L{natsbroker.websocket.closing}.
"""

from __future__ import annotations

import pytest

from natsbroker import errors
from natsbroker.websocket.closing import closeCode


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.AUTH_GONE, 1000),
        (errors.STALE, 1001),
        (errors.SERVER_SHUTDOWN, 1001),
        (errors.UNKNOWN_OPERATION, 1002),
        (errors.AUTHORIZATION, 1008),
        (errors.AUTH_TIMEOUT, 1008),
        (errors.MAX_CONNECTIONS, 1008),
        (errors.CONTROL_LINE, 1008),
        (errors.PAYLOAD, 1009),
        (errors.KICKED, 1011),
        (errors.INTERNAL, 1011),
    ],
)
def test_codes(error: errors.WireError, code: int) -> None:
    """Each reason has the code that nats-server sends for it."""
    assert closeCode(error.reason) == code
