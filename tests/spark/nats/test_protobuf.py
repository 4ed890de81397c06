"""
Protobuf's wire format, held against Google's library.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from natsbroker.spark.nats.protobuf import Malformed, decode, encode
from natsbroker.streaming.protocol import ConnectRequest, PubAck, PubMsg


@given(some.binary(max_size=300), some.binary(max_size=20), some.integers(0, (1 << 31) - 1))
def test_asGoogles(data: bytes, connection: bytes, number: int) -> None:
    """The library reads what is encoded, and what it makes is decoded."""
    made = PubMsg.FromString(encode({1: b"me", 5: data, 6: connection}))
    assert made == PubMsg(clientID="me", data=data, connID=connection)
    fields = {1: b"me", 5: data, 6: connection}
    assert decode(made.SerializeToString()) == {key: each for key, each in fields.items() if each}
    asked = ConnectRequest.FromString(encode({1: b"me", 3: number}))
    assert (asked.clientID, asked.protocol) == ("me", number)
    assert decode(asked.SerializeToString()).get(3, 0) == number


def test_empty() -> None:
    """An acknowledgement without error has its guid only."""
    assert decode(PubAck(guid="7").SerializeToString()) == {1: b"7"}
    assert decode(b"") == {}


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05ab", b"\x80", b"\x0d\x01\x02", b"\xff" * 11])
def test_malformed(data: bytes) -> None:
    """Other bytes are an error."""
    with pytest.raises(Malformed):
        decode(data)
