"""
Avro record schemas.
"""

from __future__ import annotations

from typing import Any


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    """A schema."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": title, "type": kind} for title, kind in fields],
    }
