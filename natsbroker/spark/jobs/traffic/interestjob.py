"""
The job C{interest}: what is sent in vain between clusters, and advice about it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from natsbroker.spark.datasource.tasks import connected
from natsbroker.spark.errors import ApiError, DataSourceError
from natsbroker.spark.jobs.common import (
    FOUND,
    JobRun,
    JobUsageError,
    Progress,
    addSource,
    command,
    runnerFor,
    runnerOf,
    secondsOf,
    sourceOptions,
    writeWhole,
)
from natsbroker.spark.jobs.report import Chart, JobReport, ReportSection, bytesOf
from natsbroker.spark.jobs.reporthtml import addPage, writePage
from natsbroker.spark.jobs.traffic.events import foldEvents
from natsbroker.spark.jobs.traffic.interest import InterestTotals, PolicyEntry
from natsbroker.spark.jobs.traffic.job import sinceOption
from natsbroker.spark.settings import readOptions
from natsbroker.wire.instants import instant

_LEAST, _SHARE, _QUIET, _TOP = 100, 0.1, 1000, 20

_PREFIX = "$NB.API.GATEWAY.ADVISE."


def interest(spark: Any, options: Mapping[str, str], until: float = 86400.0) -> dict[str, Any]:
    """
    Find out what is sent in vain.

    @param spark: a session whose workers read; C{None} to do it here.
    @param options: of the data source: C{servers}, and C{stream} or C{channel} with the events.
    @param until: for how many seconds advice is to hold.
    @return: what the job's line of JSON says, with the C{policy}, which L{apply} takes.
    """
    run = runnerOf(spark)
    found = foldEvents(readOptions(options), InterestTotals, run)
    advice = list(found.advice(_LEAST, _SHARE, _QUIET))
    return {**_summary(found, advice), "policy": policyOf(advice, time.time() + until)}


def _summary(found: InterestTotals, advice: Sequence[PolicyEntry]) -> dict[str, Any]:
    noInterest = found.noInterest()
    return {
        "events": found.events,
        "strange": found.malformed,
        "no_interest_msgs": sum(each.messages for each in noInterest),
        "no_interest_bytes": sum(each.size for each in noInterest),
        "no_publisher": len(found.unpublished()),
        "no_subscriber": len(found.unsubscribed()),
        "advice": len(advice),
    }


def policyOf(advice: Sequence[PolicyEntry], until: float) -> dict[str, Any]:
    """
    @param until: in seconds since 1970.
    """
    entries: list[dict[str, Any]] = []
    for each in advice:
        entry = {
            "cluster": each.cluster,
            "account": each.account,
            "gateway": each.gateway,
            "mode": each.mode,
            "until": instant(int(until)),
            "no_interest_msgs": each.messages,
            "no_interest_bytes": each.size,
        }
        if each.most is not None:
            entry["max_no_interest"] = each.most
        entries.append(entry)
    return {"version": 1, "policy": entries}


def apply(options: Mapping[str, Any], policy: Mapping[str, Any]) -> list[dict[str, Any]]:
    """
    Advise the brokers of each cluster that a policy names.

    @param options: of the data source, read: C{servers}, and what logs in to the system account.
    @return: for each entry C{applied}, whether it was taken, with the C{error} if not.
    """
    done = []
    with connected(dict(options)) as connection:
        for entry in policy["policy"]:
            names = ("account", "gateway", "mode", "until", "max_no_interest")
            asked = {name: entry[name] for name in names if name in entry}
            one = {"cluster": entry["cluster"], **asked, "applied": False}
            done.append(one)
            subject = f"{_PREFIX}{entry['cluster']}"
            try:
                answer = json.loads(connection.request(subject, json.dumps(asked).encode()))
                refusal = answer.get("error")
            except ApiError as error:
                refusal = {"description": _whyNot(error, subject)}
            except (ValueError, AttributeError):
                refusal = {"description": f"{subject}: the answer makes no sense"}
            if refusal is None:
                one["applied"] = True
            else:
                text = refusal.get("description") if isinstance(refusal, dict) else None
                one["error"] = str(text or "refused")
    return done


def _whyNot(error: ApiError, subject: str) -> str:
    if error.code != 503:
        return str(error)
    return f"nobody answers {subject}: no broker of ours there, or not in this account"


def replayed(found: InterestTotals, policy: Mapping[str, Any]) -> dict[str, int]:
    """
    What a policy would have saved of what was sent in vain, had it been there all the time: at
    most, since what is on its way when a connection begins comes in any case.
    """
    ways = {
        (each["cluster"], each["account"], each["gateway"])
        for each in policy["policy"]
        if each["mode"] == "interest-only"
    }
    saved = [
        each for each in found.noInterest() if (each.cluster, each.account, each.gateway) in ways
    ]
    return {
        "saved_msgs": sum(each.messages for each in saved),
        "saved_bytes": sum(each.size for each in saved),
    }


def reportOf(found: InterestTotals, advice: Sequence[PolicyEntry], top: int = _TOP) -> JobReport:
    noInterest = found.noInterest()
    prefixes = sorted(found.noInterestSums.items(), key=lambda item: item[1][1], reverse=True)[:top]
    sections = [
        ReportSection(
            "Sent in vain, by cluster and account",
            ("to", "account", "from", "messages", "bytes", "told so", "of", "mode now"),
            [
                (
                    *(each.cluster, each.account, each.gateway, each.messages),
                    *(bytesOf(each.size), each.refusals, each.sent, each.mode or "?"),
                )
                for each in noInterest[:top]
            ],
            "Messages that another cluster sent and nobody wanted, of those that it sent at all.",
            Chart(
                "bars",
                {
                    "": [
                        (f"{each.gateway} to {each.cluster}: {each.account}", float(each.size))
                        for each in noInterest[:top]
                    ]
                },
                "B",
            ),
        ),
        ReportSection(
            "Sent in vain, by subjects",
            ("to", "account", "from", "subjects", "messages", "bytes", "told so"),
            [
                (cluster, account, gateway, prefix, counts[0], bytesOf(counts[1]), counts[2])
                for (cluster, account, gateway, prefix), counts in prefixes
            ],
        ),
        ReportSection(
            "Advice",
            ("to", "account", "from", "mode", "saves up to"),
            [
                (each.cluster, each.account, each.gateway, each.mode, bytesOf(each.size))
                for each in advice
            ],
        ),
        ReportSection(
            "Published, and nobody is subscribed",
            ("account", "subjects", "messages", "bytes"),
            [(a, b, c, bytesOf(d)) for a, b, c, d in found.unsubscribed()[:top]],
        ),
        ReportSection(
            "Subscribed to, and nobody publishes",
            ("account", "subjects", "clusters"),
            found.unpublished()[:top],
        ),
    ]
    return JobReport("Interest", {"Events": found.events}, sections)


def _read(job: JobRun) -> argparse.Namespace:
    addSource(job)
    job.add_argument("--since", type=secondsOf, help="from so long ago on (1h, 7d)")
    addPage(job)
    job.add_argument("--top", type=int, default=_TOP, help="how many rows tables have")
    job.add_argument("--policy", default="", help="a file for the advice, as JSON")
    job.add_argument("--least", type=int, default=_LEAST, help="messages in vain worth advice")
    job.add_argument("--share", type=float, default=_SHARE, help="and what part of all sent")
    job.add_argument("--until", type=secondsOf, default=86400.0, help="how long advice is to hold")
    job.add_argument("--apply", action="store_true", help="advise the brokers that run")
    job.add_argument("--api-servers", default="", help="where to advise, if not at --servers")
    job.add_argument(
        "--api-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what logs in there, to the system account, in place of --option",
    )
    job.add_argument("--replay-against", default="", help="a policy: what would it have saved?")
    given = job.given()
    if given.top < 1 or given.least < 1 or not 0 <= given.share <= 1:
        job.error("--top and --least are 1 at least, --share is from 0 to 1")
    return given


@command("interest")
def main(job: JobRun) -> int:
    given = _read(job)
    options = sinceOption(given.since, sourceOptions(given), time.time)
    against = _policyAt(given.replay_against) if given.replay_against else None
    api = _apiOptions(given)
    progress = Progress("interest", job.stderr)
    with runnerFor(given.master) as run:
        found = foldEvents(options, InterestTotals, run, progress)
    progress.end()
    advice = list(found.advice(given.least, given.share, _QUIET))
    policy = policyOf(advice, time.time() + given.until)
    job.summary.update(_summary(found, advice))
    if against is not None:
        job.summary.update(replayed(found, against))
    report = reportOf(found, advice, given.top)
    writePage(report, given.html, job.summary)
    if given.policy:
        text = json.dumps(policy, indent=2) + "\n"
        writeWhole(Path(given.policy), lambda draft: draft.write_text(text, "utf-8"))
        job.summary["policy"] = given.policy
    job.stdout.write(report.text() + "\n")
    if not given.apply or not advice:
        return FOUND if advice else 0
    done = apply(api, policy)
    refused = [each for each in done if not each["applied"]]
    job.summary["applied"] = len(done) - len(refused)
    for each in refused:
        what = f"account {each['account']}, {each['gateway']} to {each['cluster']}"
        print(f"{what}: not applied: {each['error']}", file=job.stderr)
    return FOUND if refused else 0


def _apiOptions(given: argparse.Namespace) -> dict[str, Any]:
    other = argparse.Namespace(**vars(given))
    other.servers = given.api_servers or given.servers
    other.option = given.api_option or given.option
    return sourceOptions(other)


def _policyAt(path: str) -> dict[str, Any]:
    try:
        found = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise DataSourceError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        found = None
    entries = found.get("policy") if isinstance(found, dict) else None
    names = ("cluster", "account", "gateway", "mode")
    if not isinstance(entries, list) or not all(
        isinstance(each, dict) and all(isinstance(each.get(name), str) for name in names)
        for each in entries
    ):
        raise JobUsageError(f"{path} is no policy")
    return dict(found)
