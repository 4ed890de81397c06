"""
Tests for L{natsbroker.config.build_server}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.build_server import basePath
from natsbroker.config.model import Logging, Monitoring
from tests.config.support import complaintsOf, settingsOf

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
    """Host and port come from one key or two, and what stands later wins."""
    settings = settingsOf(text)
    assert (settings.host, settings.port) == address


def test_limits() -> None:
    """Sizes and counts arrive; zero means the default, for connections any number."""
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
    """What operators see of the server arrives; tags are trimmed, in lower case, and stand once."""
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
    """What is logged, and where."""
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
    """The special kinds of trace switch tracing on."""
    assert settingsOf(f"{key}: true").logging.trace


PAGES = [
    ("http_port: 8222", Monitoring("127.0.0.1", 8222)),
    ("host: '0.0.0.0', http_port: 8222", Monitoring("127.0.0.1", 8222)),
    ("host: '192.0.2.1', http_port: 8222", Monitoring("127.0.0.1", 8222)),
    ("host: '127.0.0.2', http_port: 8222", Monitoring("127.0.0.2", 8222)),
    (
        "host: '192.0.2.1', http_port: 8222, insecure_monitor: true",
        Monitoring("192.0.2.1", 8222, insecure_monitor=True),
    ),
    ("monitor_port: -1", Monitoring("127.0.0.1", -1)),
    ("http: 8222", Monitoring("127.0.0.1", 8222)),
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
    (
        "host: '10.0.0.2', http: 1",
        Monitoring("127.0.0.1", 1),
    ),
    (
        "host: '10.0.0.2', http: 1, insecure_monitor: true",
        Monitoring("10.0.0.2", 1, insecure_monitor=True),
    ),
]


@pytest.mark.parametrize(("text", "monitoring"), PAGES)
def test_monitoring(text: str, monitoring: Monitoring) -> None:
    """The pages are on loopback unless the file says that they need not be."""
    assert settingsOf(text).monitoring == monitoring


@pytest.mark.parametrize(
    ("path", "clean"), [("", "/"), ("/", "/"), ("a", "/a"), ("//a/./b", "/a/b"), ("/../a", "/a")]
)
def test_basePath(path: str, clean: str) -> None:
    """A base path begins with one slash and does not climb."""
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
    ("lame_duck_duration: 60", "lame_duck_duration: expected a duration, got an integer"),
]


@pytest.mark.parametrize(("text", "complaint"), MISTAKES)
def test_mistakes(text: str, complaint: str) -> None:
    """Values out of their range are reported in nats-server's words."""
    assert complaintsOf(text) == [f"s.conf:1:1: {complaint}"]
