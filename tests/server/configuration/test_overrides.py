"""
Tests for L{natsbroker.server.configuration.overrides}.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from natsbroker.config.addresses import AUTO
from natsbroker.config.errors import ConfigError
from natsbroker.config.goflags import FlagValue
from natsbroker.config.model import (
    AuthorizationSettings,
    Logging,
    Monitoring,
    Settings,
    TLSSettings,
)
from natsbroker.config.settings.routes import Cluster
from natsbroker.server.configuration.commandline import invocationFrom
from natsbroker.server.configuration.overrides import overriding
from tests.config.support import CERTIFICATES, filesystem

PAIR: dict[str, FlagValue] = {"tlscert": "cert.pem", "tlskey": "key.pem"}


def apply(given: dict[str, FlagValue], settings: Settings | None = None) -> Settings:
    """
    Apply flags to settings.
    """
    return overriding(given, CERTIFICATES)(settings or Settings())


def test_noFlags() -> None:
    """Without flags the settings stay."""
    settings = Settings(port=7)
    assert apply({}, settings) == settings


CHANGED: list[tuple[str, FlagValue, Settings]] = [
    ("p", 5, Settings(port=5)),
    ("p", -1, Settings(port=-1)),
    ("p", 0, Settings()),
    ("a", "h", Settings(host="h")),
    ("a", "", Settings()),
    ("n", "me", Settings(server_name="me")),
    ("client_advertise", "x", Settings(client_advertise="x")),
    ("P", "f", Settings(pidfile="f")),
    ("ports_file_dir", "d", Settings(ports_file_dir="d")),
    ("m", 8222, Settings(monitoring=Monitoring(http_port=8222))),
    ("ms", -1, Settings(monitoring=Monitoring(https_port=-1))),
    ("D", True, Settings(logging=Logging(debug=True))),
    ("V", True, Settings(logging=Logging(trace=True))),
    ("VV", True, Settings(logging=Logging(trace=True, trace_verbose=True))),
    ("DV", True, Settings(logging=Logging(debug=True, trace=True))),
    ("DVV", True, Settings(logging=Logging(debug=True, trace=True, trace_verbose=True))),
    ("T", False, Settings(logging=Logging(logtime=False))),
    ("logtime_utc", True, Settings(logging=Logging(logtime_utc=True))),
    ("l", "f", Settings(logging=Logging(logfile="f"))),
    ("log_size_limit", 9, Settings(logging=Logging(logfile_size_limit=9))),
    ("max_traced_msg_len", 9, Settings(logging=Logging(max_traced_msg_len=9))),
    ("user", "u", Settings(authorization=AuthorizationSettings(True, user="u"))),
    ("pass", "p", Settings(authorization=AuthorizationSettings(True, password="p"))),
    ("auth", "t", Settings(authorization=AuthorizationSettings(True, token="t"))),
    ("pure", True, Settings(fast_lane=False)),
    ("pure", False, Settings()),
    ("workers", "3", Settings(workers=3)),
    ("workers", "auto", Settings(workers=AUTO)),
]


@pytest.mark.parametrize(("flag", "value", "expected"), CHANGED)
def test_changed(flag: str, value: FlagValue, expected: Settings) -> None:
    """A flag changes its own settings, and no others."""
    assert apply({flag: value}) == expected


def test_switchedOff() -> None:
    """A flag that switches a feature off replaces a file that switches it on."""
    settings = Settings(logging=Logging(debug=True, trace=True))
    assert apply({"DV": False}, settings) == Settings()


class TestTLS:
    """The flags that begin with C{tls}."""

    def test_certificate(self) -> None:
        """A certificate and its key make a TLS listener."""
        given = {**PAIR, "tlsverify": True, "tlscacert": "ca.pem"}
        assert apply(given).tls == TLSSettings(
            cert_file="cert.pem",
            key_file="key.pem",
            ca_file="ca.pem",
            certs=(("cert.pem", "key.pem"),),
            verify=True,
        )

    def test_policyStays(self) -> None:
        """TLS flags keep the ciphers, the version and the timeout of the file."""
        old = TLSSettings(min_version="1.3", cipher_suites=("TLS_AES_128_GCM_SHA256",), timeout=9.0)
        tls = apply({"tls": True, **PAIR}, replace(Settings(), tls=old)).tls
        assert tls is not None
        assert (tls.min_version, tls.cipher_suites, tls.timeout) == (
            "1.3",
            ("TLS_AES_128_GCM_SHA256",),
            9.0,
        )

    def test_tlsOff(self) -> None:
        """C{--tls=false} removes the block of the file."""
        assert apply({"tls": False, **PAIR}, Settings(tls=TLSSettings())).tls is None

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"tls": True}, "TLS Server certificate must be present and valid"),
            ({"tlskey": "key.pem"}, "TLS Server certificate must be present and valid"),
            ({"tlscert": "cert.pem"}, "TLS Server private key must be present and valid"),
            (
                {"tlscert": "nope.pem", "tlskey": "key.pem"},
                "error parsing X509 certificate/key pair: open nope.pem: No such file or directory",
            ),
        ],
    )
    def test_mistakes(self, given: dict[str, FlagValue], message: str) -> None:
        """The certificate and the key must both be given and exist."""
        with pytest.raises(ConfigError) as raised:
            apply(given)
        assert raised.value.message == message

    def test_notPEM(self) -> None:
        """The certificate and the key must be PEM."""
        files = filesystem({"cert.pem": "x", "key.pem": "x"})
        with pytest.raises(ConfigError, match="holds no certificate in PEM format"):
            overriding(PAIR, files)(Settings())


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("p", 65536, "--port: invalid port 65536"),
        ("m", -2, "--http_port: invalid port -2"),
        ("n", "a b", "--server_name: server name cannot contain spaces"),
        ("log_size_limit", -1, "--log_size_limit: value can not be negative"),
        ("connect_retries", -1, "--connect_retries: value can not be negative"),
        ("user", "", "--user: is empty: everybody would be let in"),
        ("pass", "", "--pass: is empty: everybody would be let in"),
        ("auth", "", "--auth: is empty: everybody would be let in"),
    ],
)
def test_mistakes(flag: str, value: FlagValue, message: str) -> None:
    """An impossible value names the flag."""
    with pytest.raises(ConfigError) as raised:
        apply({flag: value})
    assert str(raised.value) == message


FILES = {
    "s.conf": """port: 5
        cluster {
            name: file, listen: "127.0.0.1:1", pool_size: 2
            authorization { user: f, password: x }
        }"""
}


def settingsOf(*arguments: str) -> Settings:
    """The settings of a command line."""

    def read(path: str) -> str:
        if path not in FILES:
            raise FileNotFoundError(path)
        return FILES[path]

    made = invocationFrom(arguments, {}, read).settings
    assert made is not None
    return made


def test_clusterAlone() -> None:
    """A cluster can be asked for with flags alone."""
    made = settingsOf(
        "--cluster",
        "nats://u:p@127.0.0.1:6222",
        "--cluster_name",
        "C1",
        "--routes",
        "nats-route://a:1, nats-route://b:2",
        "--no_advertise",
        "--connect_retries",
        "3",
        "--cluster_advertise",
        "h:7",
    )
    assert made.cluster == Cluster(
        name="C1",
        host="127.0.0.1",
        port=6222,
        user="u",
        password="p",
        routes=("nats-route://a:1", "nats-route://b:2"),
        no_advertise=True,
        connect_retries=3,
        advertise="h:7",
    )


def test_clusterOverFile() -> None:
    """Cluster flags override the file. A cluster URL without a login removes that of the file."""
    cluster = settingsOf("-c", "s.conf", "--cluster_listen", "nats://localhost:-1").cluster
    assert cluster is not None
    assert (cluster.name, cluster.pool_size) == ("file", 2)
    assert (cluster.host, cluster.port, cluster.user) == ("localhost", -1, "")


def test_clusterOff() -> None:
    """An empty URL leaves the cluster."""
    cluster = settingsOf("-c", "s.conf", "--cluster", "").cluster
    assert cluster is not None and cluster.port == 0


@pytest.mark.parametrize(
    "url, message",
    [
        ("nonsense", "--cluster: not the URL of a listener: it needs a host and a port"),
        ("nats://h", "--cluster: not the URL of a listener: it needs a host and a port"),
        ("nats://h:x", "--cluster: not the URL of a listener"),
        ("nats://u@h:1", "--cluster: expected cluster password to be set"),
        ("nats://h:99999", "--cluster: not the URL of a listener"),
        ("nats://:@h:1", "--cluster: the login is empty: everybody would be let in"),
        ("nats://u:@h:1", "--cluster: the login is empty: everybody would be let in"),
    ],
)
def test_clusterURL(url: str, message: str) -> None:
    """A malformed URL is refused, and no part of it is shown."""
    with pytest.raises(ConfigError) as raised:
        settingsOf("--cluster", url)
    assert str(raised.value) == message


def test_clusterChecked() -> None:
    """Values from cluster flags are checked as those of a file are."""
    with pytest.raises(ConfigError, match="cluster name cannot contain spaces"):
        settingsOf("--cluster", "nats://0.0.0.0:6222", "--cluster_name", "a b")
    with pytest.raises(ConfigError, match="solicited routes require cluster"):
        settingsOf("--routes", "nats://a:1")


def test_streamingByName() -> None:
    """
    A program with the name of nats-streaming-server serves NATS Streaming without further flags.
    """
    files = {"s.conf": "streaming { cluster_id: c }", "n.conf": "port: 4222"}.__getitem__
    for line, cluster in (([], "test-cluster"), (["-c", "s.conf"], "c"), (["-cid", "d"], "d")):
        settings = invocationFrom(line, {}, files, isStreaming=True).settings
        assert settings is not None and settings.streaming is not None
        assert settings.streaming.cluster_id == cluster
    settings = invocationFrom(["-c", "n.conf"], {}, files).settings
    assert settings is not None and settings.streaming is None
