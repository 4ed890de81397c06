"""
Tests for L{natsbroker.routes.reading}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.errors import NotSupportedYet
from natsbroker.config.settings.authorization import Permissions, SubjectPermission
from natsbroker.config.settings.routes import Cluster
from tests.config.support import built, complaintsOf


def clusterOf(text: str) -> Cluster:
    """The settings of a cluster block."""
    cluster = built(f"cluster {{ {text} }}").settings.cluster
    assert cluster is not None
    return cluster


def errorsOf(text: str) -> list[str]:
    """The errors of a cluster block, without their place in the file."""
    return [complaint.split(": ", 1)[1] for complaint in complaintsOf(f"cluster {{ {text} }}")]


def test_absent() -> None:
    """Without the block there is no cluster."""
    assert built("port: 4222").settings.cluster is None


def test_empty() -> None:
    """An empty C{cluster} block has default values, and does not listen."""
    assert clusterOf("") == Cluster() and Cluster().port == 0


def test_allSettings() -> None:
    """Every setting can be given, under nats-server's names."""
    cluster = clusterOf(
        """
        name: C1, listen: "10.0.0.1:6222", no_advertise: true, cluster_advertise: "h:1"
        authorization { user: u, password: p, timeout: 3 }
        routes: ["nats-route://u:p@a:1", "nats://b:2"]
        permissions { import: { allow: "a.>", deny: [a.b] }, export: [c] }
        connect_retries: 4, connect_backoff: true, pool_size: 5, accounts: [A, B]
        ping_interval: "10s", ping_max: 3, write_deadline: "4s", compression: accept
        dialect: modern, insecure_listen: true
        """
    )
    assert cluster == Cluster(
        name="C1",
        host="10.0.0.1",
        port=6222,
        user="u",
        password="p",
        timeout=3.0,
        permissions=Permissions(
            SubjectPermission(("a.>",), ("a.b",)), SubjectPermission(("c",)), None
        ),
        routes=("nats-route://u:p@a:1", "nats://b:2"),
        advertise="h:1",
        no_advertise=True,
        connect_retries=4,
        connect_backoff=True,
        pool_size=5,
        accounts=("A", "B"),
        ping_interval=10.0,
        ping_max=3,
        write_deadline=4.0,
        insecure_listen=True,
    )


@pytest.mark.parametrize(
    "text, host, port",
    [
        ('listen: "127.0.0.1:-1"', "127.0.0.1", -1),
        ("listen: 6222, host: localhost", "localhost", 6222),
        ("host: localhost, port: 7", "localhost", 7),
        ("port: 7, insecure_listen: true", "0.0.0.0", 7),
    ],
)
def test_address(text: str, host: str, port: int) -> None:
    """Where routes are listened for."""
    cluster = clusterOf(text)
    assert (cluster.host, cluster.port) == (host, port)


def test_tls() -> None:
    """TLS between members always requires certificates of both."""
    cluster = clusterOf("listen: 6222, tls { cert_file: cert.pem, key_file: key.pem }")
    assert cluster.tls is not None and cluster.tls.verify


@pytest.mark.parametrize(
    "text, error",
    [
        ('name: "a b"', "cluster.name: cluster name cannot contain spaces or new lines"),
        (
            "routes: ['nats://a:1']",
            "cluster.routes: solicited routes require cluster capabilities, e.g. --cluster",
        ),
        (
            "listen: '127.0.0.1:1', routes: ['nats://u:canary@']",
            "cluster.routes: error parsing route url: it needs a host",
        ),
        (
            "listen: '127.0.0.1:1', routes: ['127.0.0.1:4']",
            'cluster.routes: error parsing route url ["127.0.0.1:4"]',
        ),
        ("listen: '127.0.0.1:70000'", "cluster.listen: invalid port 70000"),
        ("host: '127.0.0.1', port: -5", "cluster.port: invalid port -5"),
        (
            "listen: '127.0.0.1:1', authorization { user: u }",
            "cluster.authorization: a user needs a password, and a password a user",
        ),
        (
            "listen: '127.0.0.1:1', tls {}",
            "cluster.tls: members need 'cert_file' and 'key_file'",
        ),
        ("connect_retries: -1", "cluster.connect_retries: value can not be negative"),
        (
            "pool_size: -1, accounts: [A]",
            "cluster.accounts: pool_size cannot be negative if pinned accounts are specified",
        ),
        (
            "dialect: classic, accounts: [A]",
            "cluster.accounts: classic routes carry the global account only, over one connection",
        ),
        (
            "dialect: latin",
            'cluster.dialect: unknown dialect "latin": expected "modern", "classic", "auto"',
        ),
        ("accounts: [A, A]", 'cluster.accounts: found duplicate account name "A"'),
        (
            "cluster_advertise: 'a:b:c'",
            "cluster.cluster_advertise: address a:b:c: too many colons in address",
        ),
        (
            "permissions { import: 'a b', export: b }",
            'cluster.permissions.publish: subject "a b" is not a valid subject',
        ),
        (
            "permissions { export { allow: c, deny: ['a b'] } }",
            'cluster.permissions.subscribe.deny: subject "a b" is not a valid subject',
        ),
        (
            "permissions { allow_responses: true }",
            "cluster.permissions.allow_responses: routes answer nothing by themselves: there are "
            "no responses to allow",
        ),
    ],
)
def test_invalidSettings(text: str, error: str) -> None:
    """An invalid value is reported at its place."""
    assert errorsOf(text) == [error]


@pytest.mark.parametrize("text", ["listen: 6222", 'listen: "10.0.0.1:6222"', "port: -1"])
def test_openListener(text: str) -> None:
    """A listener that other machines reach must require a login."""
    (error,) = errorsOf(f"{text}, insecure_listen: false")
    assert error.startswith("cluster.listen: other machines reach")
    for guard in (
        "insecure_listen: true",
        "insecure_listen: false, authorization { user: u, password: p }",
        "insecure_listen: false, tls { cert_file: cert.pem, key_file: key.pem }",
    ):
        assert clusterOf(f"{text}, {guard}").port


@pytest.mark.parametrize(
    "text, error",
    [
        (
            "write_timeout: retry",
            "cluster.write_timeout: not supported yet (write timeout policies)",
        ),
        (
            "authorization { proxy_required: true }",
            "cluster.authorization.proxy_required: not supported yet (trusted proxies of links)",
        ),
    ],
)
def test_notYet(text: str, error: str) -> None:
    """The error for an unsupported key names it."""
    assert errorsOf(text) == [error]
    assert issubclass(NotSupportedYet, Exception)


def test_compression() -> None:
    """The default for compression is C{accept}. C{on} means C{s2_fast}."""
    assert Cluster().compression.mode == clusterOf("").compression.mode == "accept"
    assert clusterOf("compression: on").compression.mode == "s2_fast"
    assert clusterOf("compression: off").compression.mode == "off"
