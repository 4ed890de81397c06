"""
The job C{verify}.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from natsbroker.spark import cli
from natsbroker.spark.jobs.archive.archiver import FilePlan
from natsbroker.spark.jobs.archive.job import archive
from natsbroker.spark.jobs.archive.verify import verified
from natsbroker.spark.tables.table import tableAt
from tests.spark.support import BrokerStation


def ran(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the line of JSON, and standard error."""
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(("verify", "--master", "inline", *arguments), out, err)
    lines = out.getvalue().splitlines()
    return code, json.loads(lines[-1]) if lines else {}, err.getvalue()


def test_command(broker: BrokerStation, tmp_path: Path) -> None:
    """Without differences the exit status is 0. With some it is 1, and each is named."""
    name = broker.channel([b"x"] * 100)
    archive(None, {"servers": broker.url, "channel": name}, str(tmp_path), plan=FilePlan(60))
    source = ("--servers", broker.url, "--archive", str(tmp_path))
    code, summary, errors = ran(*source)
    assert (code, summary["result"], summary["rows"], summary["findings"]) == (0, "done", 100, [])
    assert (summary["start"], summary["stop"], summary["files"], summary["lost"]) == (1, 101, 2, [])
    path = tmp_path / tableAt(tmp_path).require().files[1].path
    path.unlink()
    page = tmp_path.with_suffix(".html")
    code, summary, errors = ran(*source, "--block", "7", "--html", str(page))
    kinds = [finding["kind"] for finding in summary["findings"]]
    assert (code, summary["result"], kinds) == (1, "found", ["file", "missing"])
    assert (summary["findings"][0]["first"], summary["findings"][0]["last"]) == (61, 100)
    assert errors.startswith("file: sequences 61 to 100: data/")
    assert summary["html"] == str(page)
    text = page.read_text("utf-8")
    assert '<td>file</td><td class="n">61</td><td class="n">100</td>' in text
    assert text.count("h216v") == 2


def test_inSpark(spark: Any, broker: BrokerStation, tmp_path: Path) -> None:
    """As a function, in Spark's workers."""
    name = broker.channel([b"x"] * 100)
    archive(None, {"servers": broker.url, "channel": name}, str(tmp_path), plan=FilePlan(60))
    summary = verified(spark, {"servers": broker.url}, str(tmp_path))
    assert (summary["rows"], summary["findings"]) == (100, [])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "the following arguments are required: --servers, --archive"),
        (("--servers", "h", "--archive", "a", "--block", "0"), "--block is 1 to 1000000"),
        (("--servers", "h", "--archive", "a", "--option", "x"), "--option: takes NAME=VALUE"),
    ],
)
def test_usageErrors(arguments: tuple[str, ...], text: str) -> None:
    """A wrong command line ends with 2 and says why."""
    code, _, errors = ran(*arguments)
    assert code == 2
    assert text in errors


def test_failed(broker: BrokerStation, tmp_path: Path) -> None:
    """A verification that fails ends with 3 and gives the reason."""
    code, summary, _ = ran("--servers", broker.url, "--archive", str(tmp_path))
    assert (code, summary["error"]) == (3, f"{tmp_path}: there is no archive")
