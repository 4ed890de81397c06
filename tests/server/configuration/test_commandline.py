"""
Tests for L{natsbroker.server.configuration.commandline}.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.config.errors import ConfigError, NotSupportedYet
from natsbroker.config.flags import FLAG_TYPES
from natsbroker.config.model import JetStream, Settings
from natsbroker.server.configuration.commandline import (
    Action,
    CommandLineError,
    Invocation,
    invocationFrom,
    validReport,
)
from tests.config.support import PEM, filesystem

FILES = filesystem(
    {
        "s.conf": "port: 5, debug: true, server_name: $NAME",
        "empty.conf": "",
        "bad.conf": "bogus: 1",
        "users.conf": "authorization { users: [ {user: a} ] }",
        "tls.conf": "tls { cert_file: cert.pem, key_file: key.pem, min_version: '1.3' }",
        "cert.pem": PEM,
        "key.pem": PEM,
        "broker.pid": "123\n",
    }
)


def invoke(line: str) -> Invocation:
    """
    Read a command line whose arguments have no blanks.
    """
    return invocationFrom(line.split(), {"NAME": "n"}, FILES)


def settingsOf(line: str) -> Settings:
    """
    Read the settings of a command line.
    """
    settings = invoke(line).settings
    assert settings is not None
    return settings


def problemOf(line: str) -> ConfigError:
    """
    Get the error that a command line ends with.
    """
    with pytest.raises(ConfigError) as raised:
        invoke(line)
    return raised.value


ACTIONS = [
    ("", Action.RUN),
    ("-p 5", Action.RUN),
    ("-c s.conf", Action.RUN),
    ("-t -c s.conf", Action.TEST),
    ("-v", Action.VERSION),
    ("--version", Action.VERSION),
    ("version", Action.VERSION),
    ("VERSION", Action.VERSION),
    ("-p 5 version", Action.VERSION),
    ("-h", Action.HELP),
    ("-help", Action.HELP),
    ("help", Action.HELP),
    ("--help_tls", Action.HELP_TLS),
    ("-v -h", Action.VERSION),
    ("-h -c nope.conf", Action.HELP),
    ("-js -v", Action.VERSION),
    ("--signal reload", Action.SIGNAL),
    ("-sl ldm=5", Action.SIGNAL),
]


@pytest.mark.parametrize(("line", "action"), ACTIONS)
def test_actions(line: str, action: Action) -> None:
    """The command line chooses the action; showing a text precedes all others."""
    assert invoke(line).action is action


class TestRun:
    """Running, and testing, a configuration."""

    def test_defaults(self) -> None:
        """Without arguments the settings are the defaults."""
        assert settingsOf("") == Settings()

    def test_file(self) -> None:
        """The settings of a file are read."""
        settings = settingsOf("--config=s.conf")
        assert (settings.port, settings.server_name) == (5, "n")
        assert settings.config_file == "s.conf"

    def test_flagsWin(self) -> None:
        """Flags override the file, wherever they stand on the command line."""
        settings = settingsOf("-p -1 -D=false -c s.conf -n me")
        assert (settings.port, settings.server_name) == (-1, "me")
        assert not settings.logging.debug

    def test_lastSpellingWins(self) -> None:
        """Of a flag that is repeated, the last value counts, in any spelling."""
        assert settingsOf("--addr a -net b -a c").host == "c"

    def test_overrideForReload(self) -> None:
        """For a reload, flags can be applied to other settings."""
        invocation = invoke("-p 7 -c s.conf")
        assert invocation.override is not None
        assert invocation.override(Settings(host="h")) == Settings(host="h", port=7)

    def test_derivedDefaults(self) -> None:
        """A default that depends on another setting follows the flags."""
        settings = settingsOf("--tls --tlscert cert.pem --tlskey key.pem")
        assert settings.authorization.timeout == 3.0

    @pytest.mark.parametrize(
        ("line", "host"),
        [
            ("-m 8222", "0.0.0.0"),
            ("-m 8222 -a 127.0.0.2", "127.0.0.2"),
            ("-a 0.0.0.0 -m 8222", "0.0.0.0"),
            ("--addr 10.0.0.1 --http_port 8222", "10.0.0.1"),
            ("-m 8222 -a=", "0.0.0.0"),
        ],
    )
    def test_monitoringHost(self, line: str, host: str) -> None:
        """The monitoring pages have the host of the client listener."""
        monitoring = settingsOf(line).monitoring
        assert (monitoring.http_host, monitoring.http_port) == (host, 8222)

    def test_pure(self) -> None:
        """The compiled lane can be switched off."""
        assert not settingsOf("--pure").fast_lane

    def test_policyOfTheFileStays(self) -> None:
        """A certificate from flags keeps the TLS version of the file."""
        tls = settingsOf("-c tls.conf --tlscert cert.pem --tlskey key.pem").tls
        assert tls is not None
        assert tls.min_version == "1.3"

    def test_warnings(self) -> None:
        """Warnings do not prevent a start, but make a test of the configuration fail."""
        assert len(invoke("-c empty.conf").warnings) == 1
        assert str(problemOf("-t -c empty.conf")) == "empty.conf: config has no values or is empty"

    def test_report(self) -> None:
        """The report about a valid file has its digest."""
        report = validReport("natsbroker", settingsOf("-t -c s.conf"))
        assert report.startswith("natsbroker: configuration file s.conf is valid (sha256:")


PROBLEMS = [
    ("foo", 'unrecognized command: "foo"'),
    ("-D true", 'unrecognized command: "true"'),
    ("-", 'unrecognized command: "-"'),
    ("-- -v", 'unrecognized command: "-v"'),
    ("-t", "must specify [-c, --config] option to check configuration file syntax"),
    ("-c nope.conf", "nope.conf: open nope.conf: No such file or directory"),
    ("-c bad.conf", 'bad.conf:1:1: unknown field "bogus"'),
    ("-t -c bad.conf", 'bad.conf:1:1: unknown field "bogus"'),
    ("--signal foo", 'unknown signal "foo"'),
    ("--signal reload=1=2", "invalid signal parameters: [2]"),
    ("--signal reload=x", "invalid pid: x"),
    ("-p 70000", "--port: invalid port 70000"),
    ("-c users.conf --user a", "users.conf:1:1: authorization: --user and users in "
     "the file exclude each other"),
    ("--user a --pass b --auth c", "authorization: Cannot have a user/pass and token"),
    ("--user a", "authorization: a user needs a password: without one, an empty password would be "
     "let in"),
    ("--pass a", "authorization: a password needs a user: without one, everybody would be let in"),
    ("--tls", "TLS Server certificate must be present and valid"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), PROBLEMS)
def test_problems(line: str, message: str) -> None:
    """An invalid command line is reported as by nats-server."""
    problem = problemOf(line)
    assert not isinstance(problem, CommandLineError)
    assert [str(problem)] == [message] or message in str(problem).splitlines()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--bogus", "flag provided but not defined: -bogus"),
        ("-v --bogus", "flag provided but not defined: -bogus"),
        ("-p", "flag needs an argument: -p"),
        ("-p x", 'invalid value "x" for flag -p: parse error'),
    ],
)
def test_usageErrors(line: str, message: str) -> None:
    """A flag that is wrong prints the usage and exits with 0, as nats-server does."""
    problem = problemOf(line)
    assert isinstance(problem, CommandLineError)
    assert (str(problem), problem.exitCode) == (message, 0)


MISSING = [
    ("--ft_group x", "--ft_group: not supported yet (fault tolerance groups)"),
]


@pytest.mark.parametrize(("line", "message"), MISSING)
def test_missingFeatures(line: str, message: str) -> None:
    """A flag for a missing feature is refused with the feature's name."""
    problem = problemOf(line)
    assert isinstance(problem, NotSupportedYet)
    assert str(problem) == message


@pytest.mark.parametrize("line", ["-js -sd d", "--jetstream --store_dir d"])
def test_jetStream(line: str) -> None:
    """JetStream and its folder."""
    assert settingsOf(line).jetstream == JetStream(enabled=True, store_dir="d")


@pytest.mark.parametrize("line", ["-js=false", "-s=false", "--profile 0"])
def test_switchingOff(line: str) -> None:
    """A flag that switches a missing feature off is accepted."""
    assert settingsOf(line) == Settings()


@pytest.mark.parametrize(
    ("line", "signal", "process"),
    [
        ("-sl stop", "stop", ""),
        ("--signal quit=77", "quit", "77"),
        ("--signal=term=77*", "term", "77*"),
        ("--signal reopen=broker.pid", "reopen", "123"),
        ("--signal ldm=*", "ldm", "*"),
    ],
)
def test_signals(line: str, signal: str, process: str) -> None:
    """A signal is sent to a process by its id, by its pid file, or to the only one."""
    invocation = invoke(line)
    assert (invocation.signal, invocation.process) == (signal, process)


_WORDS = [f"-{name}" for name in FLAG_TYPES] + ["s.conf", "bad.conf", "5", "-1", "x", "=", "--", ""]


@given(st.lists(st.sampled_from(_WORDS), max_size=6))
def test_nothingButConfigErrors(arguments: list[str]) -> None:
    """Any arguments give either an invocation or a L{ConfigError}."""
    try:
        invocation = invocationFrom(arguments, {}, FILES)
    except ConfigError as error:
        assert str(error)
    else:
        running = invocation.action in (Action.RUN, Action.TEST)
        assert running is (invocation.settings is not None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-r udp://x", "--remote_syslog: error parsing syslog url: it needs a host and a port"),
        ("-r http://x:1", '--remote_syslog: error invalid network type: "http"'),
        ("--log_format xml", "--log_format: must be text or json"),
    ],
)
def test_wrongLogs(line: str, message: str) -> None:
    """Contradictory settings of the log are refused."""
    assert str(problemOf(line)) == message
