"""
Tests for L{natsbroker.config.settings.streaming}.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.config.settings.streaming import ChannelLimits, Streaming


def test_defaults() -> None:
    """The defaults are nats-streaming-server's."""
    streaming = Streaming()
    assert (streaming.cluster_id, streaming.store) == ("test-cluster", "memory")
    assert (streaming.max_channels, streaming.max_subs) == (100, 1000)
    assert (streaming.max_msgs, streaming.max_bytes) == (1_000_000, 1_024_000_000)
    assert (streaming.max_age, streaming.max_inactivity) == (0, 0)
    assert (streaming.hb_interval, streaming.hb_timeout, streaming.hb_fail_count) == (30, 10, 10)


def limits(**channels: dict[str, float]) -> Streaming:
    """
    Limits by pattern. In the names C{_} stands for a full stop, C{any} for C{*}, and C{rest} for
    C{>}.
    """
    return Streaming(
        channels={
            name.replace("_", ".").replace("any", "*").replace("rest", ">"): channel
            for name, channel in channels.items()
        }
    )


def test_unnamedChannel() -> None:
    """A channel that matches no pattern has the limits of the block."""
    assert Streaming().limitsOf("foo") == ChannelLimits(1000, 1_000_000, 1_024_000_000, 0, 0)


class TestInheritance:
    """Inheritance of limits by patterns."""

    def test_literal(self) -> None:
        """A channel has its own limits where it is named, and the block's others."""
        terms = limits(foo={"max_msgs": 5}).limitsOf("foo")
        assert terms == ChannelLimits(max_msgs=5)

    def test_unlimited(self) -> None:
        """A limit of 0 means unlimited and is not inherited."""
        terms = limits(foo_rest={"max_msgs": 5}, foo_bar={"max_msgs": 0})
        assert terms.limitsOf("foo.bar").max_msgs == 0
        assert terms.limitsOf("foo.baz").max_msgs == 5

    def test_chain(self) -> None:
        """
        A limit that is not set is inherited from the narrowest pattern that covers the channel.
        """
        terms = limits(
            foo_rest={"max_msgs": 1, "max_bytes": 1, "max_age": 1.0},
            foo_any={"max_bytes": 2},
            foo_bar={"max_age": 3.0},
        )
        bar = terms.limitsOf("foo.bar")
        assert (bar.max_msgs, bar.max_bytes, bar.max_age) == (1, 2, 3.0)
        assert terms.limitsOf("foo.x.y").max_bytes == 1

    def test_crossing(self) -> None:
        """
        If two patterns overlap and neither covers the other, one of them applies to channels that
        match both.
        """
        terms = limits(any_bar={"max_msgs": 1}, foo_any={"max_bytes": 2})
        bar = terms.limitsOf("foo.bar")
        assert (bar.max_msgs, bar.max_bytes) == (1_000_000, 2)

    def test_orderOfTheFileDoesNotMatter(self) -> None:
        """The order of patterns in the file does not matter."""
        narrow, wide = {"max_bytes": 2}, {"max_msgs": 1}
        one = Streaming(channels={"foo.*": narrow, ">": wide}).limitsOf("foo.bar")
        assert one == Streaming(channels={">": wide, "foo.*": narrow}).limitsOf("foo.bar")
        assert (one.max_msgs, one.max_bytes) == (1, 2)


class TestProblems:
    """The errors of L{Streaming.problems}."""

    @pytest.mark.parametrize("field", ["max_msgs", "max_bytes", "max_age", "max_inactivity"])
    def test_limitIsNegative(self, field: str) -> None:
        """A limit of the block cannot be negative."""
        values: dict[str, Any] = {field: -1}
        ((key, text),) = Streaming(**values).problems()
        assert key == field
        assert text.endswith("limit cannot be negative (-1)")

    def test_maxChannelsIsNegative(self) -> None:
        """The maximum number of channels cannot be negative."""
        problem = ("max_channels", "max channels limit cannot be negative (-1)")
        assert list(Streaming(max_channels=-1).problems()) == [problem]

    @pytest.mark.parametrize("name", ["foo/bar", "foo..bar", "", "foo*"])
    def test_patternMatchesNoChannel(self, name: str) -> None:
        """A pattern that no channel can match is refused."""
        problem = ("channels", f'invalid channel name "{name}"')
        assert list(Streaming(channels={name: {}}).problems()) == [problem]

    def test_moreChannelsNamedThanAllowed(self) -> None:
        """More named channels than the maximum are refused. Patterns do not count."""
        named: dict[str, dict[str, float]] = {"a": {}, "b": {}, "c.*": {}}
        assert list(Streaming(max_channels=2, channels=named).problems()) == []
        ((_, text),) = Streaming(max_channels=1, channels=named).problems()
        assert text.startswith("too many channels defined (2)")


def test_accountOf() -> None:
    """A channel belongs to the account of the narrowest pattern."""
    accounts = {"a.>": "A", "a.*": "B", "a.b": "C"}
    streaming = Streaming(jetstream_accounts=accounts)
    channels = ("a.b", "a.c", "a.b.c", "b")
    assert [streaming.accountOf(channel) for channel in channels] == ["C", "B", "A", ""]
    assert list(streaming.problems()) == []


@pytest.mark.parametrize("name", ["a/b", "a..b", ">.a"])
def test_accountOfNoChannel(name: str) -> None:
    """An invalid channel name cannot be given to an account."""
    problems = list(Streaming(jetstream_accounts={name: "A"}).problems())
    assert problems == [("jetstream_accounts", f'invalid channel name "{name}"')]
