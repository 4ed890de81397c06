"""
The start of servers, and the wait until they are ready.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.servers import (
    NatsServer,
    Server,
    ServerFailed,
    StandIn,
    environmentOf,
    parseLinkPort,
    parsePort,
    started,
)
from benchmarks.settings import SETTINGS


def test_portFromPortsFile() -> None:
    """The ports file tells the client port."""
    assert parsePort(['{"nats": ["nats://127.0.0.1:40123"], "monitoring": []}'], "") == 40123


@pytest.mark.parametrize("text", ["", '{"nats": [', '{"nats": []}', "[]", "7"])
def test_portsFileInTheMaking(text: str) -> None:
    """A ports file that is only partly written counts as missing."""
    assert parsePort([text], "") is None


def test_portFromLog() -> None:
    """The client port is read from the log line of the listener, once that line is complete."""
    line = "[7] 2024/01/01 00:00:00 [INF] Listening for client connections on 127.0.0.1:41234"
    assert parsePort([], line) is None
    assert parsePort([], f"{line}\n") == 41234


@pytest.mark.parametrize("kind", ["route", "gateways", "leafnode"])
def test_portForLinks(kind: str) -> None:
    """The port for links is read from the log line of the listener, for all kinds of links."""
    clients = "[INF] Listening for client connections on 127.0.0.1:41234\n"
    line = f"[INF] Listening for {kind} connections on 127.0.0.1:41235\n"
    assert parseLinkPort(clients) is None
    assert parseLinkPort(f"{clients}{line}") == 41235


def test_farServerIsNamed() -> None:
    """The load generator is given the address of the second server if there is one."""
    assert Server(7, 4222).farLoad == ()
    near = Server(7, 4222, far=Server(8, 4223))
    assert near.farLoad == ("--far-port", "4223", "--far-pid", "8")


def test_commandLine() -> None:
    """Both servers get the same command line, with a configuration only if there is one."""
    server = NatsServer("fast", "ours", ("python", "-m", "natsbroker"))
    folder = Path("folder")
    words = ["python", "-m", "natsbroker", "-a", "127.0.0.1", "-p", "-1"]
    assert server.commandLine(folder, None, ["--size", "16"]) == [
        *words,
        "--ports_file_dir",
        "folder",
    ]
    assert server.commandLine(folder, folder / "server.conf", [])[-2:] == [
        "-c",
        str(folder / "server.conf"),
    ]


def test_mirrorKnowsTheLoad() -> None:
    """The stand-in server is given the load of the measurement."""
    mirror = StandIn("ceiling", "ceiling", ("load",), mode="mirror")
    assert mirror.commandLine(Path("folder"), None, ["--size", "16"])[-2:] == ["--size", "16"]


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's environment variables are set, and those with an empty value are removed."""
    monkeypatch.setenv("NATSBROKER_PURE", "1")
    monkeypatch.setenv("KEPT", "yes")
    fast = NatsServer("fast", "ours", ("x",), {"NATSBROKER_PURE": "", "ADDED": "too"})
    environment = environmentOf(fast)
    assert "NATSBROKER_PURE" not in environment
    assert (environment["KEPT"], environment["ADDED"]) == ("yes", "too")


def test_serverThatEnds() -> None:
    """A server that ends before it listens is reported with its last output."""
    script = "import sys; print('no such option', file=sys.stderr); sys.exit(3)"
    broken = NatsServer("fast", "ours", (sys.executable, "-c", script))
    with pytest.raises(ServerFailed, match="exit status 3: no such option"):
        with started(broken, SETTINGS["plain"], []):
            pass


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_settingsAreWritten(name: str, tmp_path: Path) -> None:
    """A setting is written as a configuration file and the files that it names, or as no file."""
    setting = SETTINGS[name]
    path = setting.write(tmp_path)
    assert (path is None) == (name == "plain")
    if path is not None and setting.encrypted:
        assert str(tmp_path / "key.pem") in path.read_text("utf-8")
        assert (tmp_path / "key.pem").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", [name for name, setting in SETTINGS.items() if setting.far])
def test_farSettingIsWritten(name: str, tmp_path: Path) -> None:
    """The second server's configuration has the port on which the first one listens for links."""
    path = SETTINGS[name].writeFar(tmp_path, 40404)
    assert "127.0.0.1:40404" in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("log", "fine"),
    [
        ("[INF]   On:       router=built-in lane=compiled\n", True),
        ("[INF]   On:       router=built-in lane=off (not built)\n", False),
        ("", True),
    ],
)
def test_wrongLane(log: str, fine: bool) -> None:
    """A server that reports another lane than requested is not measured."""
    fast = NatsServer("fast", "ours", ("x",), lane="compiled")
    assert (fast.objection(log) == "") == fine
    assert NatsServer("reference", "theirs", ("x",)).objection(log) == ""
