"""
What is published beside what is subscribed to, and what other clusters send in vain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from natsbroker.spark.jobs.traffic.totals import EventTotals, Sums, addTo
from natsbroker.subjects.grammar import isValidSubject, overlaps

#: How subjects begin that are not somebody's own: nobody need be told of them.
_INTERNAL = ("$", "_INBOX.", "_R_.", "_STAN.")

#: The cluster that is sent to, the account, and the cluster that sends.
Way = tuple[str, str, str]
WAY = ("cluster", "account", "gateway")


@dataclass(frozen=True)
class NoInterest:
    """
    What one cluster sent another in vain of one account.

    @ivar refusals: how often it was told so.
    @ivar sent: how many messages it sent there at all, as far as it told.
    @ivar mode: how it sends there now; empty if it did not tell.
    @ivar patterns: how many patterns the other cluster is subscribed to.
    """

    way: Way
    messages: int
    size: int
    refusals: int
    sent: int
    mode: str
    patterns: int


class InterestFindings:
    """
    @ivar prefixes: messages, bytes and refusals of what was sent in vain, by way and prefix.
    @ivar noInterest: the same by way.
    @ivar subscribed: for each account and prefix of patterns the clusters that are subscribed to
        some.
    @ivar unsubscribed: what is published and nobody is subscribed to anywhere: account, prefix,
        messages, bytes.
    @ivar unpublished: what is subscribed to and nobody published: account, prefix, clusters.
    """

    def __init__(self, found: EventTotals) -> None:
        self.prefixes: dict[tuple[Way, str], Sums] = {}
        vain: dict[Way, Sums] = {}
        sent: Counter[Way] = Counter()
        published: dict[tuple[str, str], Sums] = {}
        for cluster, sums in found.sums.items():
            for (account, kind, peer, prefix), counts in sums.items():
                messages, size, out, _, noInterest, refusals, _ = counts
                if kind == "client" and prefix:
                    addTo(published, (account, prefix), (messages, size, noInterest))
                elif kind == "gateway" and prefix:
                    sent[peer, account, cluster] += out
                    if noInterest:
                        way = cluster, account, peer
                        addTo(self.prefixes, (way, prefix), (noInterest, size, refusals))
                        addTo(vain, way, (noInterest, size, refusals))
        self.subscribed: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        patterns: Counter[tuple[str, str]] = Counter()
        modes: defaultdict[Way, set[str]] = defaultdict(set)
        for told in found.interest.values():
            for (account, kind, peer, prefix), _, mode, count in told.rows.values():
                if kind == "client" and prefix:
                    self.subscribed[account, prefix].add(told.cluster)
                    patterns[told.cluster, account] += count
                elif kind == "gateway" and mode:
                    modes[peer, account, told.cluster].add(mode)
        self.noInterest = []
        for way, (messages, size, refusals) in vain.items():
            whole, mode = max(sent[way], messages), _worst(modes[way])
            one = NoInterest(way, messages, size, refusals, whole, mode, patterns[way[:2]])
            self.noInterest.append(one)
        self.noInterest.sort(key=lambda each: (-each.size, each.way))
        subscriptions, subjects = _byAccount(self.subscribed), _byAccount(published)
        self.unsubscribed = sorted(
            (
                (account, prefix, messages, size)
                for (account, prefix), (messages, size, noInterest) in published.items()
                if noInterest and prefix != ">" and _isAlone(account, prefix, subscriptions)
            ),
            key=lambda each: (-each[3], each[:2]),
        )
        self.unpublished = sorted(
            (account, prefix, ", ".join(sorted(filter(None, clusters))))
            for (account, prefix), clusters in self.subscribed.items()
            if _isAlone(account, prefix, subjects)
        )

    def advice(self, least: int, share: float, quiet: int) -> Iterator[dict[str, Any]]:
        """
        What is to be done: entries of a policy, see L{natsbroker.gateways.advice.PolicyAdvice}.

        @param least: the least messages without interest that are worth it.
        @param share: and so large a part, from 0 to 1, of all that was sent.
        @param quiet: a cluster with more patterns than this, and less in vain than a tenth as many
            messages, is not to be told everything because of a few refusals.
        """
        for each in self.noInterest:
            way = dict(zip(WAY, each.way, strict=True))
            if not way["cluster"] or not way["gateway"] or each.mode == "interest-only":
                continue
            saved = {"no_interest_msgs": each.messages, "no_interest_bytes": each.size}
            if each.messages >= least and each.messages >= share * each.sent:
                yield {**way, "mode": "interest-only", **saved}
            elif each.patterns > quiet and each.messages * 10 < each.patterns:
                most = max(each.patterns, 1000)
                yield {**way, "mode": "optimistic", **saved, "max_no_interest": most}


def _worst(modes: set[str]) -> str:
    """
    The mode of the server that sends most; empty if none told.
    """
    known = ("optimistic", "transitioning", *sorted(modes))
    return next((each for each in known if each in modes), "")


def _byAccount(keys: Iterable[tuple[str, str]]) -> dict[str, list[bytes]]:
    found: defaultdict[str, list[bytes]] = defaultdict(list)
    for account, prefix in keys:
        pattern = prefix.encode("utf-8", "replace")
        if isValidSubject(pattern):
            found[account].append(pattern)
    return found


def _isAlone(account: str, prefix: str, others: dict[str, list[bytes]]) -> bool:
    """
    Whether a prefix is a user's, and none of the others of the account meets it.
    """
    mine = prefix.encode("utf-8", "replace")
    if prefix.startswith(_INTERNAL) or not isValidSubject(mine):
        return False
    return not any(overlaps(mine, each) for each in others.get(account, ()))
