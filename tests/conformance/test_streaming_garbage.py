"""
NATS Streaming under invalid requests, which get the documented errors.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from natsbroker.streaming import errors
from natsbroker.testing.memory import MemoryBroker
from tests.conformance.streamingframes import (
    CLOSE,
    CONFIG,
    DISCOVER,
    FOO,
    ME,
    PINGS,
    PUBLISH,
    SUB_CLOSE,
    SUBSCRIBE,
    UNSUBSCRIBE,
)
from tests.conformance.streamingwire import Value, Wire, decode, encode

#: Where the error stands in the answer to each kind of request.
ERRORS = {
    DISCOVER: 5, PINGS: 1, f"{PUBLISH}.foo": 2, SUBSCRIBE: 3, UNSUBSCRIBE: 3, SUB_CLOSE: 3,
    CLOSE: 1,
}  # fmt: skip

KNOWN = {
    text.format("", "").encode() for name, text in vars(errors).items() if name.isupper()
}  # fmt: skip

numbers = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 20)
words = st.sampled_from(["me", "foo", "me.foo", "", "d", "q", "a b", "a.*", "x" * 400, "\x00", "é"])
values: st.SearchStrategy[Value | str] = numbers | words | st.binary(max_size=20)
messages = st.dictionaries(st.integers(1, 12), values, max_size=8).map(encode)
payloads = messages | st.binary(max_size=60)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(sorted(ERRORS)), payloads), max_size=12))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_garbage(requests: list[tuple[str, bytes]]) -> None:
    """
    Any requests in any order are answered with messages of the protocol and documented errors. No
    failure is logged, and other clients are served.
    """
    with MemoryBroker(configText=CONFIG) as broker:
        broker.advance(1000.0)
        good, bad = Wire(broker, "good"), Wire(broker)
        assert 5 not in good.fields(DISCOVER, {**ME, 1: "good", 2: "good.beats", 4: b"good"})
        assert 5 not in bad.fields(DISCOVER, ME)
        for subject, payload in requests:
            answer = bad.ask(subject, payload)
            fields: dict[int, Any] = {} if answer is None else decode(answer)
            error = fields.get(ERRORS[subject])
            assert error is None or error in KNOWN or b"different cases" in error, error
            broker.advance(0.6)
        assert set(good.fields(SUBSCRIBE, {**FOO, 1: "good", 2: "fine", 4: "good.fine"})) == {2}
        published = good.fields(f"{PUBLISH}.fine", {1: "good", 2: "g", 3: "fine", 5: b"x"})
        assert published == {1: b"g"}
        assert [decode(message.payload)[4] for message in good.came("good.fine")] == [b"x"]
