"""
Tests for L{natsbroker.accounts.domains}.
"""

from __future__ import annotations

from natsbroker.accounts.domains import fromDomain, toDomain


def test_mappings() -> None:
    """Mappings from a domain and to it are each other's reverse."""
    back = {each.source: each.destinations[0].dest for each in fromDomain("hub")}
    assert back["$JS.hub.API.STREAM.>"] == "$JS.API.STREAM.>"
    assert back["$JS.hub.API.INFO"] == "$JS.API.INFO"
    assert back["$JS.hub.API.$KV.>"] == "$KV.>"
    assert len(back) == 9
    there = {each.source: each.destinations[0].dest for each in toDomain("hub")}
    assert there == {plain: prefixed for prefixed, plain in back.items()}
