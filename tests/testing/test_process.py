"""
Tests for L{natsbroker.testing.process}.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from natsbroker.testing.process import BrokerProcess, DidNotStart, startBroker


def test_serves() -> None:
    """A started broker greets a client, and its process ends when it is stopped."""
    with startBroker("-n", "mine") as broker:
        with socket.create_connection(("127.0.0.1", broker.port), 10) as client:
            assert b'"server_name":"mine"' in client.recv(4096)
        assert broker.url == f"nats://127.0.0.1:{broker.port}"
        assert "Server is ready" in broker.log
    with pytest.raises(ProcessLookupError):
        os.kill(broker.pid, 0)
    assert "Server is ready" in broker.log


def test_doesNotStart() -> None:
    """A broker that cannot start raises an error with the reason."""
    with pytest.raises(DidNotStart, match="no-such-file"):
        startBroker("-c", "no-such-file.conf")


def test_logsElsewhere(tmp_path: Path) -> None:
    """A broker whose log cannot be read reports that."""
    with pytest.raises(DidNotStart, match="no line of the log within 1 s"):
        startBroker("-l", str(tmp_path / "own.log"), patience=1)


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that ends with an error leaves no process behind."""
    started: list[subprocess.Popen[str]] = []
    start = subprocess.Popen

    def noted(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
        started.append(start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    patience: Any = "3"
    with pytest.raises(TypeError):
        startBroker(patience=patience)
    [process] = started
    assert process.returncode is not None


def test_environment(tmp_path: Path) -> None:
    """Numbers and paths are arguments too, and the configuration reads the given variables."""
    (tmp_path / "mine.conf").write_text("server_name: $NAME")
    given: tuple[Any, ...] = ("-c", tmp_path / "mine.conf", "-m", -1)
    with startBroker(*given, environment={"NAME": "mine"}) as broker:
        assert "Name:     mine" in broker.log
        assert "http monitor on" in broker.log


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((["-js"],), r"each argument stands by itself: write \*\['-js'\], not \['-js'\]"),
        ((True,), 'an argument is a text, such as "-js", not True'),
        ((None,), "not None"),
        (("-js -D",), "several arguments in one text: write '-js', '-D'"),
        (("--user me",), "write '--user', 'me'"),
    ],
)
def test_mistakes(arguments: Any, text: str) -> None:
    """
    An option that the command cannot take is refused with the right spelling, and starts nothing.
    """
    with pytest.raises((TypeError, ValueError), match=text):
        startBroker(*arguments)


def test_unknownArgument() -> None:
    """An option that is given as a Python argument is refused with the right spelling."""
    with pytest.raises(TypeError, match=r'no argument jetstream: .*, such as "-js"'):
        startBroker(jetstream=True)


def test_spaces(tmp_path: Path) -> None:
    """Spaces in a value are allowed."""
    (tmp_path / "my own.conf").write_text("port: -1")
    startBroker(f"--config={tmp_path / 'my own.conf'}", "--user", "my own", "--pass", "x").stop()


def stored(broker: BrokerProcess) -> Path:
    """The folder in which the streams of a broker are."""
    [place] = re.findall(r"http monitor on (\S+)", broker.log)
    with urlopen(f"http://{place}/jsz", timeout=10) as answer:
        return Path(json.load(answer)["config"]["store_dir"])


def test_stores(tmp_path: Path) -> None:
    """Each broker stores in a folder of its own, or in the one that an option names."""
    options = ("-js", "-m", "-1")
    with startBroker(*options) as one, startBroker(*options) as other:
        folders = [stored(one), stored(other)]
        assert folders[0] != folders[1] and all(folder.is_dir() for folder in folders)
    assert not any(folder.exists() for folder in folders)
    with startBroker(*options, "-sd", str(tmp_path)) as broker:
        assert stored(broker) == tmp_path / "jetstream"
    assert (tmp_path / "jetstream").is_dir()


def test_stopsTwice() -> None:
    """Stopping again does nothing and returns the same status."""
    broker = startBroker()
    assert broker.stop() == broker.stop()
