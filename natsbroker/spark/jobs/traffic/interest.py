"""
What is published beside what is subscribed to, and what other clusters send in vain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from natsbroker.spark.jobs.traffic.events import BrokerEvent, addTo, tooMany
from natsbroker.subjects.grammar import isValidSubject, overlaps

#: The most sums.
_MOST = 2_000_000

#: How subjects begin that are not somebody's own: nobody need be told of them.
_INTERNAL = ("$", "_INBOX.", "_R_.", "_STAN.")

#: The cluster that is sent to, the account, the cluster that sends, and the prefix.
_Way = tuple[str, str, str, str]


@dataclass(frozen=True)
class NoInterest:
    """
    What one cluster sent another in vain of one account.

    @ivar refusals: how often it was told so.
    @ivar sent: how many messages it sent there at all, as far as it told.
    @ivar mode: how it sends there now; empty if it did not tell.
    @ivar patterns: how many patterns the other cluster is subscribed to.
    """

    cluster: str
    account: str
    gateway: str
    messages: int
    size: int
    refusals: int
    sent: int
    mode: str
    patterns: int


@dataclass(frozen=True)
class PolicyEntry:
    """
    What is to be done about it; see L{natsbroker.gateways.advice.PolicyAdvice}.

    @ivar most: after how many refusals the link turns interest-only.
    """

    cluster: str
    account: str
    gateway: str
    mode: str
    messages: int
    size: int
    most: int | None = None


class _Newest:
    __slots__ = ("cluster", "modes", "patterns", "time")

    def __init__(self, time: int, cluster: str) -> None:
        self.time = time
        self.cluster = cluster
        self.patterns: dict[tuple[str, str], int] = {}
        self.modes: dict[tuple[str, str], str] = {}


class InterestTotals:
    """
    @ivar noInterestSums: messages, bytes and refusals of what was sent in vain.
    @ivar sent: messages and bytes of what was sent to other clusters at all.
    @ivar published: messages and bytes of clients, by account and prefix.
    @ivar unwanted: how many of these nobody was subscribed to.
    """

    def __init__(self) -> None:
        self.noInterestSums: dict[_Way, list[int]] = {}
        self.sent: dict[_Way, list[int]] = {}
        self.published: dict[tuple[str, str], list[int]] = {}
        self.events = 0
        self.malformed = 0
        self.last = 0
        self._newest: dict[str, _Newest] = {}

    def add(self, event: BrokerEvent) -> None:
        self.events += 1
        self.last = max(self.last, event.time)
        if event.kind == "interest":
            self._subscribed(event)
            return
        for row in event.rows:
            account, prefix = row.get("account", ""), row.get("subject_prefix", "")
            kind, peer = row.get("peer_kind", ""), row.get("peer", "")
            if not prefix:
                continue
            if kind == "client":
                counts = (row.get("msgs_in", 0), row.get("bytes_in", 0), row.get("no_interest", 0))
                self._count(self.published, (account, prefix), counts)
            elif kind == "gateway" and row.get("no_interest"):
                way = (event.cluster, account, peer, prefix)
                refusals = row.get("rs_minus_sent", 0)
                self._count(
                    self.noInterestSums, way, (row["no_interest"], row.get("bytes_in", 0), refusals)
                )
            if kind == "gateway" and row.get("msgs_out"):
                way = (peer, account, event.cluster, prefix)
                self._count(self.sent, way, (row["msgs_out"], row.get("bytes_out", 0)))

    def _subscribed(self, event: BrokerEvent) -> None:
        known = self._newest.get(event.server)
        if known is None or event.time > known.time:
            known = self._newest[event.server] = _Newest(event.time, event.cluster)
        if event.time < known.time:
            return
        for row in event.rows:
            account, prefix = row.get("account", ""), row.get("subject_prefix", "")
            if row.get("peer_kind") == "client" and prefix:
                known.patterns[account, prefix] = row.get("patterns", 0)
            elif row.get("peer_kind") == "gateway" and row.get("mode"):
                known.modes[account, row.get("peer", "")] = row["mode"]

    def _count(self, sums: dict[Any, list[int]], key: Any, counts: Sequence[int]) -> None:
        addTo(sums, key, counts)
        if len(self.noInterestSums) + len(self.sent) + len(self.published) > _MOST:
            raise tooMany("subjects")

    def merge(self, other: InterestTotals) -> None:
        self.events += other.events
        self.malformed += other.malformed
        self.last = max(self.last, other.last)
        for mine, theirs in (
            (self.noInterestSums, other.noInterestSums),
            (self.sent, other.sent),
            (self.published, other.published),
        ):
            for key, counts in theirs.items():
                self._count(mine, key, counts)
        for server, newest in other._newest.items():
            known = self._newest.get(server)
            if known is None or newest.time > known.time:
                self._newest[server] = newest
            elif newest.time == known.time:
                known.patterns.update(newest.patterns)
                known.modes.update(newest.modes)

    # What came of it.

    def noInterest(self) -> list[NoInterest]:
        sums: dict[tuple[str, ...], list[int]] = {}
        for way, counts in self.noInterestSums.items():
            addTo(sums, way[:3], counts)
        sent: dict[tuple[str, ...], list[int]] = {}
        for way, counts in self.sent.items():
            addTo(sent, way[:3], counts)
        found = []
        for (cluster, account, gateway), (messages, size, refusals) in sums.items():
            total = max(sent.get((cluster, account, gateway), [0])[0], messages)
            mode = self._mode(cluster, account, gateway)
            last = refusals, total, mode, self._patterns(cluster, account)
            found.append(NoInterest(cluster, account, gateway, messages, size, *last))
        return sorted(found, key=lambda each: (-each.size, each.cluster, each.account))

    def _mode(self, cluster: str, account: str, gateway: str) -> str:
        modes = {
            each.modes.get((account, cluster), "")
            for each in self._newest.values()
            if each.cluster == gateway
        } - {""}
        worst = [mode for mode in ("optimistic", "transitioning") if mode in modes]
        return next(iter([*worst, *sorted(modes)]), "")

    def _patterns(self, cluster: str, account: str) -> int:
        return sum(
            count
            for each in self._newest.values()
            if each.cluster == cluster
            for (name, _), count in each.patterns.items()
            if name == account
        )

    def subscribed(self) -> dict[tuple[str, str], set[str]]:
        """
        For each account and prefix of patterns the clusters that are subscribed to some.
        """
        found: dict[tuple[str, str], set[str]] = {}
        for each in self._newest.values():
            for key in each.patterns:
                found.setdefault(key, set()).add(each.cluster)
        return found

    def unsubscribed(self) -> list[tuple[str, str, int, int]]:
        """
        What is published and nobody is subscribed to anywhere: account, prefix, messages, bytes.
        """
        subscribed = self.subscribed()
        patterns = _byAccount(subscribed)
        found = [
            (account, prefix, counts[0], counts[1])
            for (account, prefix), counts in self.published.items()
            if not prefix.startswith(_INTERNAL)
            and prefix != ">"
            and counts[2] > 0
            and not _meets(prefix, patterns.get(account, ()))
        ]
        return sorted(found, key=lambda each: (-each[3], each[:2]))

    def unpublished(self) -> list[tuple[str, str, str]]:
        """
        What is subscribed to and nobody published: account, prefix, clusters.
        """
        published = _byAccount(self.published)
        found = [
            (account, prefix, ", ".join(sorted(filter(None, clusters))))
            for (account, prefix), clusters in self.subscribed().items()
            if not prefix.startswith(_INTERNAL) and not _meets(prefix, published.get(account, ()))
        ]
        return sorted(found)

    def advice(self, least: int, share: float, quiet: int) -> Iterator[PolicyEntry]:
        """
        What is to be done.

        @param least: the least messages without interest that are worth it.
        @param share: and so large a part, from 0 to 1, of all that was sent.
        @param quiet: a cluster with more patterns than this, and less in vain than a tenth as many
            messages, is not to be told everything because of a few refusals.
        """
        for each in self.noInterest():
            if not each.cluster or not each.gateway or each.mode == "interest-only":
                continue
            way = (each.cluster, each.account, each.gateway)
            if each.messages >= least and each.messages >= share * each.sent:
                yield PolicyEntry(*way, "interest-only", each.messages, each.size)
            elif each.patterns > quiet and each.messages * 10 < each.patterns:
                most = max(each.patterns, 1000)
                yield PolicyEntry(*way, "optimistic", each.messages, each.size, most)


def _byAccount(keys: Iterable[tuple[str, str]]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for account, prefix in keys:
        pattern = prefix.encode("utf-8", "replace")
        if isValidSubject(pattern):
            found.setdefault(account, []).append(pattern)
    return found


def _meets(prefix: str, patterns: Iterable[bytes]) -> bool:
    mine = prefix.encode("utf-8", "replace")
    return not isValidSubject(mine) or any(overlaps(mine, each) for each in patterns)
