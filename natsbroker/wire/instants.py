"""
Times as text.

The text that nats-server has for the same time.
"""

from __future__ import annotations

from datetime import datetime, timezone

__all__ = ["instant"]


def instant(seconds: float) -> str:
    """
    A time as RFC 3339 in UTC, its fraction without trailing zeros.

    @param seconds: since the epoch.
    """
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    whole = moment.strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{whole}{fraction}Z"
