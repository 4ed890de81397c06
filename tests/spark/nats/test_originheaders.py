"""
Headers of messages that are published once more.
"""

from __future__ import annotations

from natsbroker.spark.nats.originheaders import ownHeaders


def test_ownHeaders() -> None:
    """A copy has all headers; those with a meaning to servers have other names."""
    pairs = [("K", "v"), ("nats-msg-id", "7"), ("Nats-TTL", "1s"), ("nb-replay", "x.0"), ("K", "w")]
    headers = ownHeaders([{"key": key, "value": value} for key, value in pairs])
    assert headers == [
        ("K", "v"),
        ("Nb-Origin-nats-msg-id", "7"),
        ("Nb-Origin-Nats-TTL", "1s"),
        ("Nb-Origin-nb-replay", "x.0"),
        ("K", "w"),
    ]


def test_noHeaders() -> None:
    """A message without headers has none, and a missing header is empty."""
    assert ownHeaders(None) == []
    assert ownHeaders([{"key": "K", "value": None}]) == [("K", "")]
