"""
Counters of published traffic by account and subject prefix.

A bounded number of counters have a prefix of their own. The other prefixes of an account share
buckets, chosen by a hash of the prefix. When a bucket grows heavier than the lightest counter,
prefixes from that bucket displace the lightest counters, as in the sketch named space-saving. A
displaced counter is reported once more with all that it counted. So sums are exact, and a heavy
prefix has its own counter after two intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from natsbroker import hot
from natsbroker.wire.values import Kind

#: The prefix of the row for all other subjects of an account.
REST = b">"

#: The longest prefix that has a row.
_LONGEST = 200

_INBOX = b"_INBOX."

#: The buckets of an account.
_BUCKETS = 256

#: The weight of a message besides its bytes.
_MESSAGE = 128


def prefixOf(subject: bytes, depth: int) -> bytes:
    """
    The prefix of a subject: C{orders.eu.>} for C{orders.eu.de.7} with a depth of two. All inboxes
    have the same one.
    """
    if subject.startswith(_INBOX):
        return b"_INBOX.>"
    tokens = subject.split(b".", depth)
    if len(tokens) > depth:
        tokens[depth:] = [REST]
    prefix = b".".join(tokens)
    return prefix if len(prefix) <= _LONGEST else REST


@dataclass(frozen=True, slots=True)
class TrafficCount:
    """
    The messages that clients published with one prefix since the last report.

    @ivar gateways: the clusters that received them for plain subscriptions.
    @ivar isWanted: whether they had any receiver.
    @ivar figures: messages and bytes, and messages and bytes of the copies for local receivers.
    """

    account: str
    prefix: bytes
    gateways: tuple[str, ...]
    isWanted: bool
    figures: tuple[int, int, int, int]

    @property
    def weight(self) -> int:
        return self.figures[1] + _MESSAGE * self.figures[0]


#: As in L{TrafficCount}: account, prefix, gateways, and whether the messages are wanted.
_Key = tuple[str, bytes, tuple[str, ...], bool]

#: An account and a hash of prefixes.
_Bucket = tuple[str, int]


class _Counter:
    __slots__ = ("counter", "key", "reported")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.counter = hot.TrafficCounter()
        self.reported = (0, 0, 0, 0)

    def seen(self) -> tuple[int, int, int, int]:
        counter = self.counter
        return (counter.messages, counter.size, counter.copies, counter.copiedSize)

    def since(self) -> tuple[int, int, int, int]:
        a, b, c, d = self.seen()
        e, f, g, h = self.reported
        return (a - e, b - f, c - g, d - h)

    def take(self) -> TrafficCount:
        since, self.reported = self.since(), self.seen()
        return TrafficCount(*self.key, since)


class SubjectTraffic:
    def __init__(self, depth: int, most: int) -> None:
        self._depth = depth
        self._most = most
        self._counters: dict[_Key, _Counter] = {}
        self._rests: dict[_Bucket, _Counter] = {}
        self._heavy: set[_Bucket] = set()
        self._displacedCounters: list[_Counter] = []
        self._lightest: list[_Counter] | None = None
        self._displacedAccounts: set[str] = set()

    def counterOf(self, account: str, subject: bytes, matches: Any) -> Any:
        prefix = prefixOf(subject, self._depth)
        gateways = tuple(sorted(_gatewaysOf(matches))) if matches.links else ()
        key = (account, prefix, gateways, bool(matches))
        counter = self._counters.get(key)
        if counter is None:
            counter = self._admit(key)
        return counter.counter

    def _admit(self, key: _Key) -> _Counter:
        account, prefix = key[:2]
        if len(self._counters) < self._most:
            counter = self._counters[key] = _Counter(key)
            return counter
        self._displacedAccounts.add(account)
        bucket = (account, crc32(prefix) % _BUCKETS)
        if bucket in self._heavy and self._displace():
            counter = self._counters[key] = _Counter(key)
            return counter
        if bucket not in self._rests and len(self._rests) >= _BUCKETS + self._most:
            bucket = ("", bucket[1])
        if bucket not in self._rests:
            self._rests[bucket] = _Counter((bucket[0], REST, (), True))
        return self._rests[bucket]

    def _displace(self) -> bool:
        """
        Displace the lightest counter, unless half of the counters were displaced since the last
        L{take}.
        """
        if self._lightest is None:
            ordered = sorted(self._counters.values(), key=_weigh, reverse=True)
            self._lightest = ordered[-max(len(ordered) // 2, 1) :]
        if not self._lightest:
            return False
        counter = self._lightest.pop()
        del self._counters[counter.key]
        self._displacedCounters.append(counter)
        self._displacedAccounts.add(counter.key[0])
        return True

    def take(self) -> tuple[list[TrafficCount], set[str]]:
        """
        The counts since the last call, heaviest first. With them come the accounts whose
        remembered subjects may refer to counters that were displaced.
        """
        counts = [counter.take() for counter in self._counters.values()]
        lightest = min((count.weight for count in counts), default=0)
        counts += [counter.take() for counter in self._displacedCounters]
        rests = {bucket: counter.take() for bucket, counter in self._rests.items()}
        heavy = sorted(rests, key=lambda bucket: rests[bucket].weight, reverse=True)
        heavy = heavy[: max(self._most // 2, 1)]
        self._heavy = {bucket for bucket in heavy if rests[bucket].weight > lightest}
        displaced, self._displacedAccounts = self._displacedAccounts, set()
        self._displacedCounters.clear()
        self._rests.clear()
        self._lightest = None
        counts = sorted(filter(_isUsed, counts), key=lambda count: count.weight, reverse=True)
        rest = _summed([*counts[self._most :], *filter(_isUsed, rests.values())])
        return [*counts[: self._most], *rest], displaced


def _weigh(counter: _Counter) -> int:
    messages, size, _, _ = counter.since()
    return size + _MESSAGE * messages


def _isUsed(count: TrafficCount) -> bool:
    return any(count.figures)


def _gatewaysOf(matches: Any) -> Iterator[str]:
    for link in matches.links:
        if link.kind == Kind.GATEWAY and not link.closed:
            yield link.subscriber.link.gateway


def _summed(counts: Iterable[TrafficCount]) -> list[TrafficCount]:
    sums: dict[tuple[str, tuple[str, ...], bool], tuple[int, ...]] = {}
    for count in counts:
        key = (count.account, count.gateways, count.isWanted)
        before = sums.get(key, (0, 0, 0, 0))
        sums[key] = tuple(a + b for a, b in zip(before, count.figures, strict=True))
    return [
        TrafficCount(account, REST, gateways, isWanted, (a, b, c, d))
        for (account, gateways, isWanted), (a, b, c, d) in sums.items()
    ]
