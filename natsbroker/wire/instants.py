"""Times as text."""

from __future__ import annotations

from datetime import datetime, timezone


def instant(seconds: float) -> str:
    """
    Seconds since the epoch as RFC 3339 in UTC, without trailing zeros, as nats-server writes them.
    """
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    whole = moment.strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{whole}{fraction}Z"
