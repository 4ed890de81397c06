"""
The settings of NATS Streaming, and the limits of a channel that follow from them. Defaults,
inheritance and error texts are those of nats-streaming-server 0.25.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from natsbroker.config.addresses import RemoteURL, splitURL
from natsbroker.config.settings.authorization import GLOBAL_ACCOUNT
from natsbroker.subjects.channels import LONGEST_CLUSTER_ID, isChannel
from natsbroker.subjects.grammar import hasWildcard, isValidSubject, matches

DEFAULT_PORT = 4222
"""The port of a NATS server whose URL has none."""

_LIMITS = {
    "max_channels": "max channels",
    "max_subs": "max subscriptions",
    "max_msgs": "max messages",
    "max_bytes": "max bytes",
    "max_age": "max age",
    "max_inactivity": "max inactivity",
}


def splitServers(urls: str) -> list[RemoteURL]:
    addresses = [url.strip() for url in urls.split(",")]
    return [splitURL(address, "NATS server", ("nats",), DEFAULT_PORT) for address in addresses]


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """The limits of one channel; 0 is unlimited. Times are in seconds."""

    max_subs: int = 1000
    max_msgs: int = 1_000_000
    max_bytes: int = 1_024_000_000
    max_age: float = 0.0
    max_inactivity: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Streaming(ChannelLimits):
    """
    A C{streaming} block; docs/reference/configuration.md has the meaning of each key. Its own
    limits are those of the channels that no pattern names; a pattern inherits other limits from the
    narrowest pattern that covers it. Times are in seconds.
    """

    cluster_id: str = "test-cluster"
    discover_prefix: str = "_STAN.discover"
    account: str = GLOBAL_ACCOUNT
    store: str = "memory"
    dir: str = ""
    store_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    max_channels: int = 100
    channels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    hb_interval: float = 30.0
    hb_timeout: float = 10.0
    hb_fail_count: int = 10
    replace_durable: bool = False
    jetstream_accounts: Mapping[str, str] = field(default_factory=dict)
    nats_server: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    secure: bool = False

    @property
    def storeSection(self) -> dict[str, object]:
        """The options of the store."""
        return {**({"dir": self.dir} if self.dir else {}), **self.store_options}

    def limitsOf(self, channel: str) -> ChannelLimits:
        return self._limitsOf(channel.encode(), list(self.channels))

    def _limitsOf(self, subject: bytes, patterns: list[str]) -> ChannelLimits:
        covering = [pattern for pattern in patterns if matches(pattern.encode(), subject)]
        if not covering:
            return ChannelLimits(*(getattr(self, field_.name) for field_ in fields(ChannelLimits)))
        narrowest = max(covering, key=_narrowness)
        covering.remove(narrowest)
        inherited = self._limitsOf(narrowest.encode(), covering)
        return replace(inherited, **dict[str, Any](self.channels[narrowest]))

    def accountOf(self, channel: str) -> str:
        """The account whose JetStream has a channel as a stream; empty for none."""
        subject = channel.encode()
        covering = [
            pattern for pattern in self.jetstream_accounts if matches(pattern.encode(), subject)
        ]
        return self.jetstream_accounts[max(covering, key=_narrowness)] if covering else ""

    def problems(self) -> Iterator[tuple[str, str]]:
        for name, words in _LIMITS.items():
            value = getattr(self, name)
            if value < 0:
                shown = value if isinstance(value, int) else f"{value:g}s"
                yield name, f"{words} limit cannot be negative ({shown})"
        for name in ("hb_interval", "hb_timeout"):
            if getattr(self, name) <= 0:
                yield name, "must be more than 0"
        if self.hb_fail_count < 0:
            yield "hb_fail_count", "value can not be negative"
        if not _isName(self.cluster_id) or len(self.cluster_id) > LONGEST_CLUSTER_ID:
            yield "cluster_id", f'invalid cluster id "{self.cluster_id}"'
        if not _isName(self.discover_prefix):
            yield "discover_prefix", f'invalid prefix "{self.discover_prefix}"'
        if self.store == "lmdb" and not self.dir:
            yield "dir", "for FILE stores, root directory must be specified"
        if self.store == "postgres" and not self.store_options.get("source"):
            yield "store", "for SQL stores, the source must be specified"
        if self.nats_server:
            yield from self._serverProblems()
        yield from self._channelProblems()
        for name in self.jetstream_accounts:
            if not _isPattern(name.encode("utf-8", "surrogateescape")):
                yield "jetstream_accounts", f'invalid channel name "{name}"'

    def _serverProblems(self) -> Iterator[tuple[str, str]]:
        try:
            splitServers(self.nats_server)
        except ValueError as error:
            yield "nats_server", str(error)
        if self.account != GLOBAL_ACCOUNT:
            why = "on another NATS server the user determines the account: leave out account"
            yield "nats_server", why

    def _channelProblems(self) -> Iterator[tuple[str, str]]:
        literals = 0
        for name in self.channels:
            pattern = name.encode("utf-8", "surrogateescape")
            if not _isPattern(pattern):
                yield "channels", f'invalid channel name "{name}"'
                return
            literals += not hasWildcard(pattern)
        if 0 < self.max_channels < literals:
            yield (
                "channels",
                f"too many channels defined ({literals}). "
                f"The max channels limit is set to {self.max_channels}",
            )


def _narrowness(pattern: str) -> list[int]:
    """
    Sorts patterns that match the same channel from the widest to the narrowest. The first token in
    which two patterns differ decides: C{>} is wider than C{*}, and C{*} wider than any other.
    """
    return [{">": 0, "*": 1}.get(token, 2) for token in pattern.split(".")]


def _isPattern(pattern: bytes) -> bool:
    """Whether a name has wildcards, and so may name several channels."""
    return isValidSubject(pattern) and (hasWildcard(pattern) or isChannel(pattern))


def _isName(text: str) -> bool:
    encoded = text.encode("utf-8", "surrogateescape")
    return isValidSubject(encoded) and not set(text) & set("*>/")
