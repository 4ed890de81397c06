"""The job C{interest}: messages without subscriptions, and advice about them."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from natsbroker.spark.datasource.tasks import connected
from natsbroker.spark.errors import ApiError, DataSourceError, OptionError
from natsbroker.spark.jobs.common import FOUND, JobRun, command, runnerOf, sourceOptions, writeWhole
from natsbroker.spark.jobs.report import Chart, JobReport, ReportSection, bytesOf
from natsbroker.spark.jobs.traffic.job import addEvents, readEvents, writeReport
from natsbroker.spark.jobs.traffic.totals import EventTotals, Sums, addTo, foldEvents
from natsbroker.spark.logs.apis import apiFields
from natsbroker.spark.settings import readOptions
from natsbroker.subjects.grammar import isValidSubject, overlaps
from natsbroker.wire.instants import instant

_LEAST, _SHARE, _QUIET = 100, 0.1, 1000

#: The beginnings of the broker's own subjects, which are no findings.
_INTERNAL = ("$", "_INBOX.", "_R_.", "_STAN.")

#: The cluster that is sent to, the account, and the cluster that sends.
Way = tuple[str, str, str]
WAY = ("cluster", "account", "gateway")


class NoInterest(NamedTuple):
    """
    Messages of one account that a cluster sent another in vain.

    @ivar refusals: how often the other one answered that it has no interest.
    @ivar sent: the number of all messages that it sent there, if it published events.
    @ivar mode: how it sends there now; empty if it published no events.
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
    @ivar prefixes: messages, bytes and refusals of traffic sent in vain, by way and prefix.
    @ivar noInterest: the traffic sent in vain, by way.
    @ivar subscribed: clusters with a subscription, by account and prefix of patterns.
    @ivar unsubscribed: published without any subscription: account, prefix, messages, bytes.
    @ivar unpublished: subscribed to and never published: account, prefix, clusters.
    """

    def __init__(self, totals: EventTotals) -> None:
        self.prefixes: dict[tuple[Way, str], Sums] = {}
        vain: dict[Way, Sums] = {}
        sent: Counter[Way] = Counter()
        published: dict[tuple[str, str], Sums] = {}
        for cluster, sums in totals.sums.items():
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
        for told in totals.interest.values():
            for (account, kind, peer, prefix), _, mode, count in told.rows:
                if kind == "client" and prefix:
                    self.subscribed[account, prefix].add(told.cluster)
                    patterns[told.cluster, account] += count
                elif kind == "gateway" and mode:
                    modes[peer, account, told.cluster].add(mode)
        self.noInterest: list[NoInterest] = []
        for way, (messages, size, refusals) in vain.items():
            rest = max(sent[way], messages), _worst(modes[way]), patterns[way[:2]]
            self.noInterest.append(NoInterest(way, messages, size, refusals, *rest))
        self.noInterest.sort(key=lambda waste: (-waste.size, waste.way))
        subscriptions, subjects = _byAccount(self.subscribed), _byAccount(published)
        self.unsubscribed = sorted(
            (
                (account, prefix, messages, size)
                for (account, prefix), (messages, size, noInterest) in published.items()
                if noInterest and prefix != ">" and _isAlone(account, prefix, subscriptions)
            ),
            key=lambda row: (-row[3], row[:2]),
        )
        self.unpublished = sorted(
            (account, prefix, ", ".join(sorted(filter(None, clusters))))
            for (account, prefix), clusters in self.subscribed.items()
            if _isAlone(account, prefix, subjects)
        )

    def advice(self, least: int, share: float, quiet: int) -> Iterator[dict[str, Any]]:
        """
        Entries of a policy; see L{natsbroker.gateways.advice.PolicyAdvice}.

        @param least: the least number of messages without interest for advice.
        @param share: the least share of these in all messages, from 0 to 1.
        @param quiet: a cluster with more patterns than this, and with fewer messages in vain than a
            tenth of its patterns, stays optimistic. Few refusals do not justify announcing all
            patterns.
        """
        for waste in self.noInterest:
            way = dict(zip(WAY, waste.way, strict=True))
            if not way["cluster"] or not way["gateway"] or waste.mode == "interest-only":
                continue
            saved = {"no_interest_msgs": waste.messages, "no_interest_bytes": waste.size}
            if waste.messages >= least and waste.messages >= share * waste.sent:
                yield {**way, "mode": "interest-only", **saved}
            elif waste.patterns > quiet and waste.messages * 10 < waste.patterns:
                most = max(waste.patterns, 1000)
                yield {**way, "mode": "optimistic", **saved, "max_no_interest": most}


def _worst(modes: set[str]) -> str:
    # That of the server that sends most.
    known = ("optimistic", "transitioning", *sorted(modes))
    return next((mode for mode in known if mode in modes), "")


def _byAccount(keys: Iterable[tuple[str, str]]) -> dict[str, list[bytes]]:
    patterns: defaultdict[str, list[bytes]] = defaultdict(list)
    for account, prefix in keys:
        pattern = prefix.encode("utf-8", "replace")
        if isValidSubject(pattern):
            patterns[account].append(pattern)
    return patterns


def _isAlone(account: str, prefix: str, others: dict[str, list[bytes]]) -> bool:
    mine = prefix.encode("utf-8", "replace")
    if prefix.startswith(_INTERNAL) or not isValidSubject(mine):
        return False
    return not any(overlaps(mine, other) for other in others.get(account, ()))


def interest(spark: Any, options: Mapping[str, str], until: float = 86400.0) -> dict[str, Any]:
    """
    Find out what is sent in vain.

    @param spark: a session whose workers read; C{None} to do it here.
    @param options: of the data source: C{servers}, and C{stream} or C{channel} with the events.
    @param until: for how many seconds advice is to hold.
    @return: the job's line of JSON, with the C{policy}, which L{apply} takes.
    """
    totals = foldEvents(readOptions(options), None, runnerOf(spark))
    findings = InterestFindings(totals)
    policy = policyOf(findings.advice(_LEAST, _SHARE, _QUIET), until)
    return {**_summary(totals, findings, policy), "policy": policy}


def _summary(
    totals: EventTotals, findings: InterestFindings, policy: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "events": totals.kinds.total(),
        "strange": totals.malformed,
        "no_interest_msgs": sum(waste.messages for waste in findings.noInterest),
        "no_interest_bytes": sum(waste.size for waste in findings.noInterest),
        "no_publisher": len(findings.unpublished),
        "no_subscriber": len(findings.unsubscribed),
        "advice": len(policy["policy"]),
    }


def policyOf(advice: Iterable[Mapping[str, Any]], seconds: float) -> dict[str, Any]:
    until = instant(int(time.time() + seconds))
    return {"version": 1, "policy": [{**entry, "until": until} for entry in advice]}


def apply(options: Mapping[str, Any], policy: Mapping[str, Any]) -> list[dict[str, Any]]:
    """
    Advise the brokers of each cluster that a policy names.

    @param options: of the data source, read: C{servers}, and the login to the system account.
    @return: for each entry C{applied}, whether it was taken, with the C{error} if not.
    """
    done = []
    with connected(dict(options)) as connection:
        for entry in policy["policy"]:
            names = ("account", "gateway", "mode", "until", "max_no_interest")
            asked = {name: entry[name] for name in names if name in entry}
            one = {"cluster": entry["cluster"], **asked, "applied": True}
            done.append(one)
            subject = f"$NB.API.GATEWAY.ADVISE.{entry['cluster']}"
            try:
                apiFields(connection.request(subject, json.dumps(asked).encode()), subject)
            except ApiError as error:
                nobody = "there is no natsbroker, or not in this account"
                text = f"no responders for {subject}: {nobody}" if error.code == 503 else str(error)
                one.update(applied=False, error=text)
    return done


def replayed(findings: InterestFindings, policy: Mapping[str, Any]) -> dict[str, int]:
    """
    The most messages that a policy would have saved, had it been in force all the time. Messages
    that are under way when a connection begins are sent in any case.
    """
    advised = [entry for entry in policy["policy"] if entry["mode"] == "interest-only"]
    ways = {tuple(entry[name] for name in WAY) for entry in advised}
    saved = [waste for waste in findings.noInterest if waste.way in ways]
    return {
        "saved_msgs": sum(waste.messages for waste in saved),
        "saved_bytes": sum(waste.size for waste in saved),
    }


def reportOf(
    events: int, findings: InterestFindings, policy: Mapping[str, Any], top: int
) -> JobReport:
    noInterest = findings.noInterest[:top]
    prefixes = sorted(findings.prefixes.items(), key=lambda item: item[1][1], reverse=True)[:top]
    bars = [("{2} to {0}: {1}".format(*waste.way), float(waste.size)) for waste in noInterest]
    sections = [
        ReportSection(
            "Sent in vain, by cluster and account",
            ("to", "account", "from", "messages", "bytes", "told so", "of", "mode now"),
            [
                (*x.way, x.messages, bytesOf(x.size), x.refusals, x.sent, x.mode or "?")
                for x in noInterest
            ],
            "Messages that another cluster sent and nobody wanted, of those that it sent at all.",
            Chart("bars", {"": bars}, "B"),
        ),
        ReportSection(
            "Sent in vain, by subject",
            ("to", "account", "from", "subjects", "messages", "bytes", "told so"),
            [
                (*way, prefix, messages, bytesOf(size), refusals)
                for (way, prefix), (messages, size, refusals) in prefixes
            ],
        ),
        ReportSection(
            "Advice",
            ("to", "account", "from", "mode", "saves up to"),
            [
                (*(entry[name] for name in (*WAY, "mode")), bytesOf(entry["no_interest_bytes"]))
                for entry in policy["policy"]
            ],
        ),
        ReportSection(
            "Published, and nobody is subscribed",
            ("account", "subjects", "messages", "bytes"),
            [(a, b, c, bytesOf(d)) for a, b, c, d in findings.unsubscribed[:top]],
        ),
        ReportSection(
            "Subscribed to, and nobody publishes",
            ("account", "subjects", "clusters"),
            findings.unpublished[:top],
        ),
    ]
    return JobReport("Interest", {"Events": events}, sections)


@command("interest")
def main(job: JobRun) -> int:
    addEvents(job)
    job.option("--policy", "", "a file for the advice, as JSON")
    job.option("--least", _LEAST, "the least messages in vain for which there is advice")
    job.option("--share", _SHARE, "and their least share of all messages sent")
    job.duration("--until", 86400.0, "how long advice is to hold")
    job.option("--apply", False, "advise the brokers that run")
    job.option("--api-servers", "", "where to advise, if not at --servers")
    job.pairs("--api-option", "the login there, to the system account, in place of --option")
    job.option("--replay-against", "", "a policy: what would it have saved?")
    given = job.given()
    if given.top < 1 or given.least < 1 or not 0 <= given.share <= 1:
        job.error("--top and --least are 1 at least, --share is from 0 to 1")
    against = _policyAt(given.replay_against) if given.replay_against else None
    servers, option = given.api_servers or given.servers, given.api_option or given.option
    apiOptions = sourceOptions(argparse.Namespace(servers=servers, option=option))
    totals = readEvents(job, given)
    findings = InterestFindings(totals)
    policy = policyOf(findings.advice(given.least, given.share, _QUIET), given.until)
    job.summary.update(_summary(totals, findings, policy))
    if against is not None:
        job.summary.update(replayed(findings, against))
    report = reportOf(job.summary["events"], findings, policy, given.top)
    if given.policy:
        text = json.dumps(policy, indent=2) + "\n"
        writeWhole(Path(given.policy), lambda draft: draft.write_text(text, "utf-8"))
        job.summary["policy"] = given.policy
    writeReport(job, given, report)
    if not given.apply or not policy["policy"]:
        return FOUND if policy["policy"] else 0
    done = apply(apiOptions, policy)
    refused = [entry for entry in done if not entry["applied"]]
    job.summary["applied"] = len(done) - len(refused)
    for entry in refused:
        what = f"account {entry['account']}, {entry['gateway']} to {entry['cluster']}"
        print(f"{what}: not applied: {entry['error']}", file=job.stderr)
    return FOUND if refused else 0


def _policyAt(path: str) -> dict[str, Any]:
    try:
        policy = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise DataSourceError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        policy = None
    entries = policy.get("policy") if isinstance(policy, dict) else None
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and all(isinstance(entry.get(x), str) for x in (*WAY, "mode"))
        for entry in entries
    ):
        raise OptionError(f"{path} is not a policy")
    return dict(policy)
