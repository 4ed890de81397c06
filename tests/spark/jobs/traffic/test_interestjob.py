"""
The job C{interest}, also at two clusters of real processes.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from natsbroker.spark import cli
from natsbroker.spark.jobs.traffic.interestjob import interest
from tests.interop.conftest import showLogs
from tests.interop.gateways.worlds import Plan, World, formed, until
from tests.interop.servers import OURS_FAST
from tests.spark.jobs.interestrows import receiver, sender
from tests.spark.support import BrokerStation


def ran(*arguments: str) -> tuple[int, dict[str, Any], str, str]:
    """Exit code, the line of JSON, the report, and standard error."""
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(("interest", *arguments), out, err)
    lines = out.getvalue().splitlines()
    summary = json.loads(lines[-1]) if lines else {}
    return code, summary, "\n".join(lines[:-1]), err.getvalue()


@pytest.fixture
def source(broker: BrokerStation) -> tuple[str, ...]:
    """Where there are events to read."""
    name = broker.channel([*receiver(), b"strange", *sender()])
    return ("--servers", broker.url, "--channel", name, "--master", "inline")


def test_report(source: tuple[str, ...], tmp_path: Path) -> None:
    """Unwanted messages are reported as text and as a page, and lead to a policy."""
    page, policy = tmp_path / "report.html", tmp_path / "policy.json"
    code, summary, report, _ = ran(*source, "--html", str(page), "--policy", str(policy))
    assert (code, summary["result"], summary["strange"]) == (1, "found", 1)
    assert (summary["no_interest_msgs"], summary["no_interest_bytes"]) == (150, 1500)
    assert (summary["advice"], summary["no_publisher"], summary["no_subscriber"]) == (1, 1, 0)
    lines = [line.split() for line in report.splitlines()]
    assert ["A", "X", "B", "150", "1.5", "KiB", "7", "200", "optimistic"] in lines
    assert ["A", "X", "B", "a.b.>", "150", "1.5", "KiB", "7"] in lines
    assert "a.b.&gt;" in page.read_text("utf-8")
    (entry,) = json.loads(policy.read_text("utf-8"))["policy"]
    assert entry.pop("until").endswith("Z")
    assert entry == {
        "cluster": "A",
        "account": "X",
        "gateway": "B",
        "mode": "interest-only",
        "no_interest_msgs": 150,
        "no_interest_bytes": 1500,
    }
    _, summary, _, _ = ran(*source, "--replay-against", str(policy))
    assert (summary["saved_msgs"], summary["saved_bytes"]) == (150, 1500)
    code, summary, _, _ = ran(*source, "--least", "151")
    assert (code, summary["advice"]) == (0, 0)


def test_notApplied(source: tuple[str, ...]) -> None:
    """Advice that no cluster receives is reported as not applied."""
    code, summary, _, errors = ran(*source, "--apply")
    assert (code, summary["applied"]) == (1, 0)
    assert "account X, B to A: not applied: no responders for $NB.API.GATEWAY.ADVISE.A" in errors


def test_function(broker: BrokerStation) -> None:
    """The function gives the policy with the figures."""
    options = {"servers": broker.url, "channel": broker.channel([*receiver(), *sender()])}
    result = interest(None, options)
    assert result["no_interest_msgs"] == 150
    assert [entry["mode"] for entry in result["policy"]["policy"]] == ["interest-only"]


@pytest.mark.parametrize(
    ("more", "code", "why"),
    [
        (("--until", "ever"), 2, "--until: not a duration"),
        (("--share", "2"), 2, "--share is from 0 to 1"),
        (("--least", "0"), 2, "--top and --least are 1 at least"),
        (("--api-option", "x"), 2, "--api-option: takes NAME=VALUE"),
        (("--replay-against", "/nowhere/x"), 3, "/nowhere/x: No such file"),
    ],
)
def test_usageErrors(more: tuple[str, ...], code: int, why: str) -> None:
    """A wrong command line ends before anything is read."""
    output, _, _, errors = ran("--servers", "h", "--channel", "c", *more)
    assert output == code
    assert why in errors


@pytest.mark.parametrize("text", ["", "[]", '{"policy": 7}', '{"policy": [{"cluster": "A"}]}'])
def test_noPolicy(text: str, tmp_path: Path) -> None:
    """A file that is not a policy is refused."""
    path = tmp_path / "policy.json"
    path.write_text(text)
    code, _, _, errors = ran("--servers", "h", "--channel", "c", "--replay-against", str(path))
    assert code == 2
    assert "is not a policy" in errors


# Two clusters.

#: Only users of the system account may advise.
TOP = """
system_account: B
streaming { account: A }
services { traffic { account: A, interval: 0.3, channel: NB_EVENTS } }
"""


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """Two clusters. The second reports its traffic."""
    # Only a gateway that begins optimistically sends in vain.
    begins = 'interest { plugin: "switching" }'
    plans = [
        Plan(OURS_FAST, "GA", top="system_account: B", more=begins),
        Plan(OURS_FAST, "GB", ["GA"], top=TOP, more=begins),
    ]
    result = formed(plans, tmp_path)
    for site in result.sites:
        showLogs(request.node, site)
    yield result
    result.close()


def arriving(world: World) -> tuple[int, dict[str, Any]]:
    """The number of messages that GB has had from GA, and the decision for account A."""
    page: Any = world.sites[1].monitor("/gatewayz?acc_name=A")
    (link,) = page["inbound_gateways"]["GA"]
    return link["connection"]["in_msgs"], link["accounts"][0]


def test_apply(world: World) -> None:
    """
    Applied advice ends unwanted messages over a live gateway. Wanted ones are not lost, doubled or
    reordered. A user of another account than the system account cannot advise.
    """
    publisher, subscriber = world.clients
    wanted = subscriber.subscribe(b"wanted.>")
    for number in range(300):
        publisher.publish(b"vain.a.%d" % number, b"x" * 100)
    publisher.flush()
    at = ("--servers", world.sites[1].url, "--channel", "NB_EVENTS", "--master", "inline")
    login = ("--option", "user=a", "--option", "password=a")

    def told() -> bool:
        return int(ran(*at, *login)[1].get("no_interest_msgs", 0)) >= 300

    until(told, "300 messages in vain")
    code, summary, _, errors = ran(*at, *login, "--apply")
    assert (code, summary["applied"]) == (1, 0)
    assert "no responders for" in errors
    assert arriving(world)[1]["interest_mode"] == "Optimistic"
    assert "advice" not in arriving(world)[1]
    stop = threading.Event()
    count = 0

    def publish() -> None:
        nonlocal count
        while not stop.wait(0.002):
            publisher.publish(b"wanted.%d" % count, b"%d" % count)
            count += 1

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        api = ("--api-option", "user=b", "--api-option", "password=b")
        code, summary, _, errors = ran(*at, *login, *api, "--apply", "--until", "1h")
        assert (code, summary.get("applied"), errors) == (0, 1, "")
        until(
            lambda: world.sites[0].modes()["GB"].get("interest_mode") == "Interest-Only",
            "GA sends only what is wanted",
        )
    finally:
        stop.set()
        thread.join()
    assert subscriber.take(wanted, count) == [b"%d" % number for number in range(count)]
    before, account = arriving(world)
    assert account["advice"]["mode"] == account["interest_mode"].lower() == "interest-only"
    for number in range(300):
        publisher.publish(b"vain.b.%d" % number, b"x" * 100)
    publisher.publish(b"wanted.end", b"end")
    assert subscriber.take(wanted, 1) == [b"end"]
    assert arriving(world)[0] == before + 1
    assert subscriber.arrived(wanted) == []
    assert world.complaints() == []
