"""
Tests for L{natsbroker.streaming.overrides}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.errors import ConfigError, NotSupportedYet
from natsbroker.config.goflags import FlagValue
from natsbroker.config.model import Settings
from natsbroker.config.settings.streaming import Streaming
from natsbroker.server.configuration.commandline import invocationFrom
from natsbroker.streaming.overrides import withStreaming

FILES = {"s.conf": "port: 5\nstreaming { id: file, store: file, dir: d, limits { mm: 7 } }"}


def settings(*arguments: str) -> Settings:
    """The settings of a command line."""

    def read(path: str) -> str:
        if path not in FILES:
            raise FileNotFoundError(path)
        return FILES[path]

    made = invocationFrom(arguments, {}, read).settings
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("cid", "c", Streaming(cluster_id="c")),
        ("st", "FILE", Streaming(store="lmdb")),
        ("dir", "d", Streaming(dir="d")),
        ("mc", 0, Streaming(max_channels=0)),
        ("msu", 1, Streaming(max_subs=1)),
        ("mm", 1, Streaming(max_msgs=1)),
        ("mb", 1, Streaming(max_bytes=1)),
        ("ma", 1.5, Streaming(max_age=1.5)),
        ("mi", 1.5, Streaming(max_inactivity=1.5)),
        ("hbi", 1.5, Streaming(hb_interval=1.5)),
        ("hbt", 1.5, Streaming(hb_timeout=1.5)),
        ("hbf", 1, Streaming(hb_fail_count=1)),
        ("replace_durable", True, Streaming(replace_durable=True)),
        ("sql_source", "x", Streaming(store_options={"source": "x"})),
        ("ns", "nats://h:1", Streaming(nats_server="nats://h:1")),
        ("secure", True, Streaming(secure=True)),
        ("streaming", True, Streaming()),
    ],
)
def test_flags(name: str, value: FlagValue, expected: Streaming) -> None:
    """Each flag changes one setting, and turns NATS Streaming on."""
    assert withStreaming(Settings(), {name: value}).streaming == expected


def test_switchedOff() -> None:
    """Other flags do not turn NATS Streaming on; one flag turns it off although the file has it."""
    assert withStreaming(Settings(), {"p": 5}).streaming is None
    on = Settings(streaming=Streaming())
    assert withStreaming(on, {"streaming": False}).streaming is None


@pytest.mark.parametrize("name", ["SD", "SV", "SDV"])
def test_debug(name: str) -> None:
    """
    The debugging flags turn on debugging and NATS Streaming, because clients' test suites start
    nats-streaming-server with no other flag.
    """
    made = withStreaming(Settings(), {name: True})
    assert (made.logging.debug, made.streaming) == (True, Streaming())


def test_commandLine() -> None:
    """The command line of nats-streaming-server has the same effects."""
    overridden = settings(
        "-cid", "c", "--store", "file", "-dir", "x", "--max_bytes", "1KB", "-ma", "1h30m",
        "--hb_interval=2s", "-mc", "5", "-p", "0", "--file_sync=false", "-io_batch_size", "100",
    )  # fmt: skip
    assert overridden.streaming == Streaming(
        cluster_id="c",
        store="lmdb",
        dir="x",
        max_bytes=1024,
        max_age=5400.0,
        hb_interval=2.0,
        max_channels=5,
    )


@pytest.mark.parametrize("flag", ["-c", "-sc", "--stan_config"])
def test_file(flag: str) -> None:
    """Flags win over the file, which may be given by nats-streaming-server's flag."""
    overridden = settings(flag, "s.conf", "-cid", "flag")
    assert overridden.streaming == Streaming(cluster_id="flag", store="lmdb", dir="d", max_msgs=7)
    assert overridden.port == 5


def test_twoFiles() -> None:
    """Two files for one broker are an error."""
    with pytest.raises(ConfigError, match="same configuration file"):
        settings("-c", "s.conf", "-sc", "other.conf")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("-ma", "soon"), 'invalid value "soon" for flag -ma: parse error'),
        (("-mb", "lots"), "mb should be a size, got 'lots'"),
        (("-mm", "x"), 'invalid value "x" for flag -mm: parse error'),
        (("-mm", "-5"), "max messages limit cannot be negative"),
        (("-st", "file"), "root directory must be specified"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], error: str) -> None:
    """A wrong value is an error."""
    with pytest.raises(ConfigError, match=error):
        settings(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [("-clustered",), ("-encrypt",), ("-ft_group", "g"), ("-tls_client_cert", "c")],
)
def test_notYet(arguments: tuple[str, ...]) -> None:
    """An unsupported flag is refused."""
    with pytest.raises(NotSupportedYet):
        settings(*arguments)
