"""
How much there may be: channels, and messages, subscriptions and time in each.

nats-streaming-server's rules of inheritance. A pattern that leaves a limit open takes it
from the narrowest pattern that covers it, at last from the limits of all channels; a channel has
the limits of the narrowest pattern that it matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from natsbroker.streaming.names import isChannel
from natsbroker.subjects.grammar import hasWildcard, isValidSubject, matches

__all__ = ["ChannelLimits", "ChannelOverrides", "Limits"]


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """
    The limits of one channel; 0 is without limit.

    @ivar max_subscriptions: subscriptions, offline durable ones included.
    @ivar max_msgs: messages; the oldest go first.
    @ivar max_bytes: bytes of messages; likewise.
    @ivar max_age: seconds that a message is kept.
    @ivar max_inactivity: seconds without a new message and without an active subscription after
        which the channel is deleted.
    """

    max_subscriptions: int = 1000
    max_msgs: int = 1_000_000
    max_bytes: int = 1_024_000_000
    max_age: float = 0.0
    max_inactivity: float = 0.0


@dataclass(frozen=True, slots=True)
class ChannelOverrides:
    """
    The same for some channels; C{None} for what is taken from elsewhere.
    """

    max_subscriptions: int | None = None
    max_msgs: int | None = None
    max_bytes: int | None = None
    max_age: float | None = None
    max_inactivity: float | None = None

    def over(self, limits: ChannelLimits) -> ChannelLimits:
        """
        Put what is said here over other limits.
        """
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(limits, **{name: value for name, value in said.items() if value is not None})


@dataclass(frozen=True)
class Limits:
    """
    All limits.

    @ivar max_channels: how many channels; 0 is without limit.
    @ivar everywhere: for the channels that no pattern names.
    @ivar channels: by channel or pattern.
    """

    max_channels: int = 100
    everywhere: ChannelLimits = field(default_factory=ChannelLimits)
    channels: Mapping[str, ChannelOverrides] = field(default_factory=dict)
    _resolved: dict[bytes, ChannelLimits] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """
        @raise ValueError: if the limits make no sense.
        """
        self._check()
        patterns = {name.encode(): overrides for name, overrides in self.channels.items()}
        # A pattern's key is less than those of all that it covers.
        for pattern in sorted(patterns, key=_narrowness):
            self._resolved[pattern] = patterns[pattern].over(self.forChannel(pattern))

    def _check(self) -> None:
        if self.max_channels < 0:
            raise ValueError(f"max channels limit cannot be negative ({self.max_channels})")
        for each in fields(self.everywhere):
            value = getattr(self.everywhere, each.name)
            if value < 0:
                named = each.name.replace("_", " ").replace("msgs", "messages")
                raise ValueError(f"{named} limit cannot be negative ({value})")
        literals = 0
        for name in self.channels:
            pattern = name.encode("utf-8", "surrogateescape")
            if not isValidSubject(pattern) or not (hasWildcard(pattern) or isChannel(pattern)):
                raise ValueError(f'invalid channel name "{name}"')
            literals += not hasWildcard(pattern)
        if 0 < self.max_channels < literals:
            raise ValueError(
                f"too many channels defined ({literals}). "
                f"The max channels limit is set to {self.max_channels}"
            )

    def forChannel(self, channel: bytes) -> ChannelLimits:
        """
        The limits of a channel.
        """
        covering = [each for each in self._resolved if matches(each, channel)]
        if not covering:
            return self.everywhere
        return self._resolved[max(covering, key=_narrowness)]


def _narrowness(pattern: bytes) -> list[int]:
    """
    Sorts patterns that match the same channel from the widest to the narrowest: the first token in
    which they differ decides, C{>} before C{*} before any other.
    """
    return [{b">": 0, b"*": 1}.get(token, 2) for token in pattern.split(b".")]
