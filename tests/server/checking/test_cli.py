"""
The command line of C{natsbroker check}.
"""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest

from natsbroker.main import main
from natsbroker.server.checking import configuration
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from tests.server.checking.test_store import fill


def check(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Run it: the exit code, and what is printed."""
    stdout, stderr = StringIO(), StringIO()
    code = main(["check", *arguments], environment or {}, stdout, stderr)
    return code, stdout.getvalue(), stderr.getvalue()


def test_json(tmp_path: Path) -> None:
    """The report is one JSON object, and the exit code tells whether there are errors."""
    fill(tmp_path, ["jetstream/A/ORDERS"])
    code, printed, _ = check("--store", str(tmp_path), "--json")
    document = json.loads(printed)
    assert code == 1
    assert not document["fine"]
    assert document["logs"][0]["owner"] == "A"
    assert document["logs"][0]["records"] == 3


def test_healthyStore(tmp_path: Path) -> None:
    """A healthy store gives 0."""
    fill(tmp_path, ["stan/c/foo"])
    assert check("--store", str(tmp_path))[0] == 0


def test_warnings(tmp_path: Path) -> None:
    """The exit code is 0 if there are only warnings, and 1 with C{--strict}."""
    path = tmp_path / "x.conf"
    path.write_text("listen: '0.0.0.0:4222'")
    code, printed, _ = check("-c", str(path))
    assert code == 0 and printed.endswith(f"{path}: 1 warning\n")
    assert check("-c", str(path), "--strict")[0] == 1
    path.write_text("listen: '0.0.0.0:4222', prot: 1")
    assert check("-c", str(path))[0] == 1


def test_nearOption() -> None:
    """A misspelt option is answered with the nearest one."""
    assert check("--strikt")[::2] == (
        2,
        "natsbroker check: not understood: --strikt, did you mean --strict?\n",
    )


def test_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The configuration of the example for deployment has no warning, because its password is in the
    environment.
    """
    monkeypatch.setattr(configuration, "folderProblem", lambda path: "")
    path = Path(__file__).parents[3] / "examples" / "deploy" / "server.conf"
    document = check("-c", str(path), "--strict", environment={"SHOP_PASSWORD": "s-secret"})
    assert document == (0, f"{path}: nothing is wrong\n", "")


def test_encrypted(tmp_path: Path) -> None:
    """The key of an encrypted store is read from the configuration that is named."""
    store, path = tmp_path / "store", tmp_path / "x.conf"
    fill(store, ["stan/c/foo"], encryption=Encryption("one"))
    path.write_text("jetstream { key: $KEY }")
    where = ("--store", str(store), "--config", str(path))
    assert check(*where, environment={"KEY": "one"})[0] == 0
    assert check(*where, environment={"KEY": "two"}) == (
        2,
        "",
        f"natsbroker check: the store in {store} is encrypted, and encryption_key is not its key\n",
    )
    code, _, printed = check("--store", str(store))
    assert (code, "jetstream has no encryption_key" in printed) == (2, True)


def test_configuration(tmp_path: Path) -> None:
    """A configuration is reported as lines or as JSON, with the same exit codes as a store."""
    path = tmp_path / "x.conf"
    path.write_text("listen: '127.0.0.1:4222', pidfile: $PID")
    at = {"PID": str(tmp_path / "pid")}
    assert check("-c", str(path), environment=at) == (0, f"{path}: nothing is wrong\n", "")
    code, printed, _ = check("-c", str(path), "--json", environment={"PID": "/no/pid"})
    document = json.loads(printed)
    assert (code, document["fine"], document["configuration"]) == (1, False, str(path))
    assert document["problems"] == [
        {
            "file": str(path),
            "line": 1,
            "column": 27,
            "level": "error",
            "key": "pidfile",
            "text": "pidfile: there is no folder /no",
        }
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "either --config FILE or --store DIR is needed"),
        (["--store", "a", "-c", "/nowhere"], "/nowhere: No such file or directory"),
        (["--store", "/nowhere"], "there is no store in /nowhere"),
        (["--config", "/nowhere"], "/nowhere: No such file or directory"),
        (["--store", "x", "more"], "not understood: more"),
    ],
)
def test_cannotCheck(arguments: list[str], text: str) -> None:
    """A file that cannot be checked gives exit code 2 and one line."""
    code, _, printed = check(*arguments)
    assert code == 2
    assert printed == f"natsbroker check: {text}\n"


def test_help() -> None:
    """The help names the flags."""
    assert "--json" in check("--help")[1]
