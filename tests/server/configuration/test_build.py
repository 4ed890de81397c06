"""
Tests for L{natsbroker.server.configuration.build}.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from natsbroker.config.addresses import AUTO
from natsbroker.config.errors import ConfigErrors
from natsbroker.config.keys.root import basePath
from natsbroker.config.model import Logging, Monitoring, RouterSettings, Settings
from natsbroker.server.configuration.build import buildDefaults, buildFile, buildText
from tests.config.support import NO_FILES, built, complaintsOf, filesystem, settingsOf


def test_defaults() -> None:
    """Without a file the settings are the defaults."""
    assert buildDefaults().settings == Settings()


def test_emptyFile() -> None:
    """An empty file gives the defaults and nats-server's warning."""
    result = built("# nothing\n")
    assert result.settings == Settings()
    assert [str(warning) for warning in result.warnings] == [
        "s.conf: config has no values or is empty"
    ]


def test_allErrorsInOrder() -> None:
    """All mistakes are reported, in the order of the file."""
    text = "no_auth_user: x\nport: a\nbogus: 1\nmax_payload: 3GB\njetstream { tpm {} }"
    assert complaintsOf(text) == [
        's.conf:1:1: no_auth_user: "x" present, but users/nkeys are not defined',
        "s.conf:2:1: port: expected an integer, got a string",
        's.conf:3:1: unknown field "bogus"',
        "s.conf:4:1: max_payload: value is too big",
        "s.conf:5:13: jetstream.tpm: not supported yet (keys in a TPM)",
    ]


def test_syntaxErrors() -> None:
    """A text that cannot be parsed is one error of the same class."""
    assert complaintsOf("port 4222 host a") == [
        "s.conf:1:11: Parse error on line 1: 'Expected a top-level value to end with a new line, "
        "comment or EOF, but got 'h' instead.'"
    ]


def test_file(tmp_path: Path) -> None:
    """A file is read with its included files; the settings know its path and digest."""
    (tmp_path / "s.conf").write_text("include 'more.conf'\nserver_name: $NAME\n")
    (tmp_path / "more.conf").write_text("port: -1\n")
    path = str(tmp_path / "s.conf")
    settings = buildFile(path, {"NAME": "n1"}).settings
    assert (settings.port, settings.server_name) == (-1, "n1")
    assert settings.config_file == path
    assert settings.config_digest.startswith("sha256:")


def test_missingFile() -> None:
    """A missing file is an error that names it."""
    with pytest.raises(ConfigErrors, match=r"open nope\.conf: No such file or directory"):
        buildFile("nope.conf", {}, read=NO_FILES)


def test_errorsOfIncludedFiles() -> None:
    """A mistake in an included file names that file."""
    files = filesystem({"inc.conf": "\nbogus: 1"})
    with pytest.raises(ConfigErrors) as raised:
        buildText("include inc.conf", {}, "s.conf", read=files)
    assert str(raised.value) == 'inc.conf:2:1: unknown field "bogus"'


def test_override() -> None:
    """An override replaces a value of the file, and the checks see the new value."""

    def override(settings: Settings) -> Settings:
        return replace(settings, port=7, no_auth_user="nobody")

    with pytest.raises(ConfigErrors, match="nobody"):
        buildText("port: 5", {}, override=override)
    users = "authorization { users: [ {user: nobody} ] }"
    settings = buildText(f"port: 5\n{users}", {}, override=override).settings
    assert settings.port == 7


def test_thirdParties() -> None:
    """Sections of plugins and services are kept unchanged."""
    settings = settingsOf(
        "plugins { a { x: 1, y: [z] } }\nservices { b { c: { d: e } } }\n"
        "router { plugin: r, size: 5 }"
    )
    assert settings.plugins == {"a": {"x": 1, "y": ["z"]}}
    assert settings.services == {"b": {"c": {"d": "e"}}}
    assert settings.router == RouterSettings("r", {"size": 5})


def test_deferred() -> None:
    """Harmless keys of features that do not exist are kept, so that changes are noticed."""
    assert settingsOf("write_timeout: default").deferred == {"write_timeout": "default"}


def test_ownKeys() -> None:
    """Keys that only natsbroker has are read."""
    settings = settingsOf("fast_lane: false\nmax_subject_shapes: 10\ninsecure_monitor: true")
    assert (settings.fast_lane, settings.max_subject_shapes) == (False, 10)
    assert settings.monitoring.insecure_monitor


@pytest.mark.parametrize(
    ("text", "count"), [("3", 3), ("auto", AUTO), ('"auto"', AUTO), ('"4"', 4)]
)
def test_workers(text: str, count: int) -> None:
    """A number of processes, or as many as there are cores."""
    assert settingsOf(f"workers: {text}").workers == count


@pytest.mark.parametrize("text", ["0", "-1", "65", "some"])
def test_wrongWorkers(text: str) -> None:
    """A number of workers that is not positive is refused."""
    with pytest.raises(ConfigErrors, match="workers: must be "):
        settingsOf(f"workers: {text}")


def test_places() -> None:
    """Settings know the places of their keys, for errors that are found later."""
    text = """port: 4222
authorization {
  users [ { user: a } ]
}
services { traffic { depth: 2 } }
"""
    settings = buildText(text, {}, "x.conf").settings
    assert settings.at("port") == "x.conf:1:1: port"
    assert settings.at("authorization.users[0].user") == "x.conf:3:13: authorization.users[0].user"
    assert settings.at("services.traffic") == "x.conf:5:12: services.traffic"
    assert settings.at("router.plugin") == "router.plugin"
    assert settings == buildText(text, {}, "y.conf").settings


ADDRESSES = [
    ("port: 5", ("0.0.0.0", 5)),
    ("port: -1", ("0.0.0.0", -1)),
    ("port: 0", ("0.0.0.0", 4222)),
    ("host: a", ("a", 4222)),
    ("net: a", ("a", 4222)),
    ("listen: 5", ("0.0.0.0", 5)),
    ("listen: 'a:-1'", ("a", -1)),
    ("listen: '[::1]:5'", ("::1", 5)),
    ("listen: 'a:5'\nport: 6", ("a", 6)),
    ("port: 6\nlisten: 'a:5'", ("a", 5)),
    ("host: b\nlisten: 5", ("0.0.0.0", 5)),
    ("listen: 5\nhost: b", ("b", 5)),
]


@pytest.mark.parametrize(("text", "address"), ADDRESSES)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    """Host and port come from one key or two. The last one in the file counts."""
    settings = settingsOf(text)
    assert (settings.host, settings.port) == address


def test_limits() -> None:
    """Sizes and counts are read. Zero means the default, and for connections no limit."""
    settings = settingsOf(
        "max_connections: 0, max_subs: 5, max_subscription_tokens: 16, max_control_line: 1k, "
        "max_payload: 2MB, max_pending: 0, ping_max: 3, max_closed_clients: 7"
    )
    assert (settings.max_connections, settings.max_subscriptions) == (-1, 5)
    assert (settings.max_sub_tokens, settings.max_control_line) == (16, 1000)
    assert (settings.max_payload, settings.max_pending) == (2 * 1024**2, 64 * 1024**2)
    assert (settings.ping_max, settings.max_closed_clients) == (3, 7)


def test_times() -> None:
    """Durations are seconds."""
    settings = settingsOf(
        "ping_interval: '30s', write_deadline: '500ms', lame_duck_duration: '1m', "
        "lame_duck_grace_period: '5s'"
    )
    assert (settings.ping_interval, settings.write_deadline) == (30.0, 0.5)
    assert (settings.lame_duck_duration, settings.lame_duck_grace_period) == (60.0, 5.0)


def test_operation() -> None:
    """
    Names, files and tags of the server are read. Tags become lower case, without blanks and
    duplicates.
    """
    settings = settingsOf(
        "server_name: n, server_tags: [a, ' B ', A, ''], server_metadata { k: v }\n"
        "pid_file: p, ports_file_dir: d, client_advertise: c, no_header_support: true"
    )
    assert settings.server_tags == ("a", "b")
    assert settings.server_metadata == {"k": "v"}
    assert (settings.server_name, settings.pidfile) == ("n", "p")
    assert (settings.ports_file_dir, settings.client_advertise) == ("d", "c")
    assert settings.no_header_support


def test_logging() -> None:
    """The settings of the log are read."""
    assert settingsOf(
        "debug: true, logtime: false, logtime_utc: true, log_file: f, log_size_limit: 1k, "
        "log_max_num: 2, max_traced_msg_len: 9"
    ).logging == Logging(
        debug=True,
        logtime=False,
        logtime_utc=True,
        logfile="f",
        logfile_size_limit=1000,
        logfile_max_num=2,
        max_traced_msg_len=9,
    )


@pytest.mark.parametrize("key", ["trace", "trace_verbose", "trace_headers"])
def test_everyTraceTraces(key: str) -> None:
    """Each special kind of trace switches tracing on."""
    assert settingsOf(f"{key}: true").logging.trace


PAGES = [
    ("http_port: 8222", Monitoring("0.0.0.0", 8222)),
    ("host: '192.0.2.1', http_port: 8222", Monitoring("192.0.2.1", 8222)),
    ("host: '127.0.0.2', http_port: 8222", Monitoring("127.0.0.2", 8222)),
    (
        "host: '192.0.2.1', http_port: 8222, insecure_monitor: true",
        Monitoring("192.0.2.1", 8222, insecure_monitor=True),
    ),
    ("monitor_port: -1", Monitoring("0.0.0.0", -1)),
    ("http: 8222", Monitoring("0.0.0.0", 8222)),
    ("http: 'localhost:8222'", Monitoring("localhost", 8222)),
    ("http: '[::1]:8222', http_port: 5", Monitoring("::1", 5)),
    ("http_base_path: 'a/../b/'", Monitoring(http_base_path="/b")),
    (
        "http: '10.0.0.1:1', insecure_monitor: true",
        Monitoring("10.0.0.1", 1, insecure_monitor=True),
    ),
    (
        "host: '127.0.0.3', http: 1",
        Monitoring("127.0.0.3", 1),
    ),
    ("host: '10.0.0.2', http: 1", Monitoring("10.0.0.2", 1)),
    ("http: '0.0.0.0:8222'", Monitoring("0.0.0.0", 8222)),
    ("monitor_origins: '*'", Monitoring(monitor_origins=("*",))),
    (
        "monitor_origins: ['https://a.example:1']",
        Monitoring(monitor_origins=("https://a.example:1",)),
    ),
    (
        "host: '10.0.0.2', http: 1, insecure_monitor: true",
        Monitoring("10.0.0.2", 1, insecure_monitor=True),
    ),
]


@pytest.mark.parametrize(("text", "monitoring"), PAGES)
def test_monitoring(text: str, monitoring: Monitoring) -> None:
    """The monitoring pages have the host of the client listener, unless the file names another."""
    assert settingsOf(text).monitoring == monitoring


@pytest.mark.parametrize(
    ("path", "clean"), [("", "/"), ("/", "/"), ("a", "/a"), ("//a/./b", "/a/b"), ("/../a", "/a")]
)
def test_basePath(path: str, clean: str) -> None:
    """A base path begins with one slash and does not leave it."""
    assert basePath(path) == clean


MISTAKES = [
    ("server_name: 'a b'", "server_name: server name cannot contain spaces"),
    ("port: 65536", "port: invalid port 65536"),
    ("listen: 'a:-2'", "listen: invalid port -2"),
    ("http_port: 99999", "http_port: invalid port 99999"),
    ("max_control_line: 2GB", "max_control_line: value is too big"),
    ("max_control_line: -1", "max_control_line: value can not be negative"),
    ("max_sub_tokens: 256", "max_sub_tokens: value is too big"),
    ("max_sub_tokens: 0", "max_sub_tokens: value can not be negative"),
    ("ping_max: -1", "ping_max: value can not be negative"),
    ("ping_interval: '-1s'", "ping_interval: value can not be negative"),
    ("log_max_num: -1", "logfile_max_num: value can not be negative"),
    (
        "max_payload: 100MB",
        "max_payload: max_payload (104857600) cannot be higher than max_pending (67108864)",
    ),
    (
        "max_pending: 1k",
        "max_pending: max_payload (1048576) cannot be higher than max_pending (1000)",
    ),
    (
        "lame_duck_duration: '20s'",
        "lame_duck_duration: invalid lame_duck_duration of 20s, minimum is 30 seconds",
    ),
    (
        "lame_duck_grace_period: '-1s'",
        "lame_duck_grace_period: invalid lame_duck_grace_period, needs to be positive",
    ),
    (
        "lame_duck_grace_period: '2m'",
        "lame_duck_grace_period: lame duck grace period (2m0s) should be strictly lower than "
        "lame duck duration (2m0s)",
    ),
    (
        "monitor_origins: 'a.example'",
        'monitor_origins: "a.example" is not an origin such as "https://example.com", or "*"',
    ),
    ("lame_duck_duration: 60", "lame_duck_duration: expected a duration, got an integer"),
]


@pytest.mark.parametrize(("text", "complaint"), MISTAKES)
def test_mistakes(text: str, complaint: str) -> None:
    """Values out of their range are reported in nats-server's words."""
    assert complaintsOf(text) == [f"s.conf:1:1: {complaint}"]
