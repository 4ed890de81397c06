"""
The rules of a consumer's configuration that need no other request. The answers of nats-server to
many more are in L{tests.jetstream.model.test_consumerupdates}.
"""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.consumerchecks import (
    checkConsumer,
    filtersOf,
    sampleRate,
    withConsumerDefaults,
)
from natsbroker.jetstream.model.consumerconfig import AckPolicy, ConsumerConfig
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.limits import (
    NO_ACCOUNT_LIMITS,
    NO_SERVER_LIMITS,
    ConfiguredLimits,
    JetStreamLimits,
)
from natsbroker.jetstream.model.names import isSubsetSubject, isValidSubjectText
from natsbroker.jetstream.model.streamconfig import RetentionPolicy, StreamConfig
from natsbroker.steps import finish
from tests.counting import callsOf

_STREAM = StreamConfig(name="S", num_replicas=1)


@pytest.mark.parametrize(
    ("account", "server", "most"),
    [(-1, 0, 1000), (5, 0, 5), (-1, 7, 7), (5, 7, 5), (5000, 6000, 1000)],
)
def test_maxAckPending(account: int, server: int, most: int) -> None:
    """The default is the lowest of the limits, and more than a limit is refused."""
    limits = (
        _STREAM,
        JetStreamLimits(max_ack_pending=account),
        ConfiguredLimits(max_ack_pending=server),
    )
    explicit = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT)
    assert withConsumerDefaults(explicit, *limits).max_ack_pending == most
    if most < 1000:
        config = ConsumerConfig(max_ack_pending=most + 1, max_deliver=-1)
        with pytest.raises(
            JetStreamError, match=f"exceeds system limit of [{most}{server or most}]"
        ):
            finish(checkConsumer(config, *limits))


def test_maxBatch() -> None:
    """The server's limit is the default of pull consumers, and more is refused."""
    server = ConfiguredLimits(max_request_batch=9)
    limits = (_STREAM, NO_ACCOUNT_LIMITS, server)
    assert withConsumerDefaults(ConsumerConfig(), *limits).max_batch == 9
    push = ConsumerConfig(deliver_subject="d")
    assert withConsumerDefaults(push, *limits).max_batch == 0
    with pytest.raises(JetStreamError, match="max request batch exceeds server limit of 9"):
        finish(checkConsumer(ConsumerConfig(max_batch=10), *limits))
    with pytest.raises(JetStreamError, match="max_request_batch must be set"):
        withConsumerDefaults(ConsumerConfig(), *limits, pedantic=True)


def test_replicas() -> None:
    """On a stream with interest retention, a consumer must have the replicas of the stream."""
    stream = StreamConfig(name="S", num_replicas=3, retention=RetentionPolicy.INTEREST)
    with pytest.raises(JetStreamError, match="must match interest retention stream's replicas"):
        finish(
            checkConsumer(
                ConsumerConfig(num_replicas=1), stream, NO_ACCOUNT_LIMITS, NO_SERVER_LIMITS
            )
        )


def test_filtersOf() -> None:
    """The filters of a consumer are its list, its single filter, or none."""
    assert filtersOf(ConsumerConfig()) == ()
    assert filtersOf(ConsumerConfig(filter_subject="a")) == ("a",)
    assert filtersOf(ConsumerConfig(filter_subjects=("a", "b"))) == ("a", "b")


@pytest.mark.parametrize(
    ("text", "rate"), [("", 0), ("50", 50), ("50%", 50), ("+7", 7), ("150", 150)]
)
def test_sampleRate(text: str, rate: int) -> None:
    """A sampling rate may be written with or without a percent sign."""
    assert sampleRate(ConsumerConfig(sample_freq=text)) == rate


def test_names() -> None:
    """A durable name that is not a valid name is refused."""
    config = ConsumerConfig(durable_name="a.b", max_deliver=-1)
    with pytest.raises(JetStreamError, match="consumer durable name can not contain"):
        finish(checkConsumer(config, _STREAM, NO_ACCOUNT_LIMITS, NO_SERVER_LIMITS))


def _refusal(filters: list[str]) -> str:
    config = ConsumerConfig(filter_subjects=tuple(filters), max_deliver=-1)
    try:
        finish(checkConsumer(config, _STREAM, NO_ACCOUNT_LIMITS, NO_SERVER_LIMITS))
    except JetStreamError as error:
        return error.description
    return ""


def _quadratic(filters: list[str]) -> str:
    """The error that nats-server gives, which compares each filter with all others."""
    if "" in filters:
        return errors.CONSUMER_EMPTY_FILTER().description
    for place, pattern in enumerate(filters):
        if not isValidSubjectText(pattern):
            return "invalid subject"
        others = [*filters[:place], *filters[place + 1 :]]
        if any(isSubsetSubject(pattern, other) for other in others):
            return errors.CONSUMER_OVERLAPPING_SUBJECT_FILTERS().description
    return ""


_TOKENS = st.sampled_from(["a", "b", "*", ">", "", " "])


@given(st.lists(st.lists(_TOKENS, min_size=1, max_size=4).map(".".join), max_size=6))
def test_firstFilterError(filters: list[str]) -> None:
    """The error about filters is the one that nats-server finds first."""
    assert _refusal(filters) == _quadratic(filters)


def test_work() -> None:
    """Twice as many filters take about twice the work."""
    once, twice = (
        callsOf(partial(_refusal, [f"a.{number}" for number in range(count)]))
        for count in (1000, 2000)
    )
    assert 1000 < once < 30_000
    assert twice < 2.4 * once
