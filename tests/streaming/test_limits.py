"""
The limits of channels.
"""

from __future__ import annotations

import pytest

from natsbroker.streaming.limits import ChannelLimits, ChannelOverrides, Limits


def limits(**channels: ChannelOverrides) -> Limits:
    """Limits with overrides; C{_} stands for a full stop, C{any} for C{*}, C{rest} for C{>}."""
    return Limits(
        channels={
            name.replace("_", ".").replace("any", "*").replace("rest", ">"): each
            for name, each in channels.items()
        }
    )


class TestDefaults:
    """What holds when nothing is said."""

    def test_defaults(self) -> None:
        """The defaults are nats-streaming-server's."""
        assert Limits().max_channels == 100
        assert Limits().forChannel(b"foo") == ChannelLimits(1000, 1_000_000, 1_024_000_000, 0, 0)


class TestInheritance:
    """Who takes which limit from where."""

    def test_literal(self) -> None:
        """A channel that is named has what is said of it, and the rest from all channels."""
        found = limits(foo=ChannelOverrides(max_msgs=5)).forChannel(b"foo")
        assert found == ChannelLimits(max_msgs=5)

    def test_unlimited(self) -> None:
        """0 is without limit, not open."""
        found = limits(foo_rest=ChannelOverrides(max_msgs=5), foo_bar=ChannelOverrides(max_msgs=0))
        assert found.forChannel(b"foo.bar").max_msgs == 0
        assert found.forChannel(b"foo.baz").max_msgs == 5

    def test_chain(self) -> None:
        """What is left open comes from the narrowest pattern that covers it."""
        found = limits(
            foo_rest=ChannelOverrides(max_msgs=1, max_bytes=1, max_age=1.0),
            foo_any=ChannelOverrides(max_bytes=2),
            foo_bar=ChannelOverrides(max_age=3.0),
        )
        bar = found.forChannel(b"foo.bar")
        assert (bar.max_msgs, bar.max_bytes, bar.max_age) == (1, 2, 3.0)
        assert found.forChannel(b"foo.x.y").max_bytes == 1

    def test_crossing(self) -> None:
        """Of two patterns that do not cover each other, only one counts for a channel of both."""
        found = limits(any_bar=ChannelOverrides(max_msgs=1), foo_any=ChannelOverrides(max_bytes=2))
        bar = found.forChannel(b"foo.bar")
        assert (bar.max_msgs, bar.max_bytes) == (1_000_000, 2)

    def test_orderOfTheFileDoesNotMatter(self) -> None:
        """It does not matter which pattern stands first."""
        narrow, wide = ChannelOverrides(max_bytes=2), ChannelOverrides(max_msgs=1)
        one = Limits(channels={"foo.*": narrow, ">": wide}).forChannel(b"foo.bar")
        assert one == Limits(channels={">": wide, "foo.*": narrow}).forChannel(b"foo.bar")
        assert (one.max_msgs, one.max_bytes) == (1, 2)


class TestChecks:
    """What makes no sense."""

    @pytest.mark.parametrize("field", ["max_msgs", "max_bytes", "max_age", "max_inactivity"])
    def test_negative(self, field: str) -> None:
        """A limit for all channels cannot be negative."""
        values: dict[str, int] = {field: -1}
        with pytest.raises(ValueError, match=r"limit cannot be negative \(-1\)"):
            Limits(everywhere=ChannelLimits(**values))

    def test_negativeChannels(self) -> None:
        """Nor can the number of channels."""
        with pytest.raises(ValueError, match=r"max channels limit cannot be negative \(-1\)"):
            Limits(max_channels=-1)

    @pytest.mark.parametrize("name", ["foo/bar", "foo..bar", "", "foo*"])
    def test_name(self, name: str) -> None:
        """A pattern must be one that a channel can match."""
        with pytest.raises(ValueError, match="invalid channel name"):
            Limits(channels={name: ChannelOverrides()})

    def test_tooMany(self) -> None:
        """There cannot be more channels named than there may be."""
        named = {"a": ChannelOverrides(), "b": ChannelOverrides(), "c.*": ChannelOverrides()}
        assert Limits(max_channels=2, channels=named).max_channels == 2
        with pytest.raises(ValueError, match=r"too many channels defined \(2\)"):
            Limits(max_channels=1, channels=named)
