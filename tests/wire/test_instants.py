"""
Times as text.
"""

from __future__ import annotations

import pytest

from natsbroker.wire.instants import instant


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1.25, "1970-01-01T00:00:01.25Z"),
        (86400.000001, "1970-01-02T00:00:00.000001Z"),
        (1_795_190_400.0, "2026-11-20T16:00:00Z"),
        (1_795_190_400.5, "2026-11-20T16:00:00.5Z"),
    ],
)
def test_rfc3339(seconds: float, text: str) -> None:
    """A time is written as RFC 3339 in UTC, without trailing zeros in its fraction."""
    assert instant(seconds) == text
