"""
Tests for L{natsbroker.config.keys.links}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.errors import NotSupportedYet
from tests.config.support import complaintsOf, errorsOf, readingOf

FINE = [
    """cluster {
        name: C, listen: "127.0.0.1:-1", pool_size: 3, accounts: [A], compression: s2_fast
        authorization { user: a, pass: b, timeout: 1.5 }
        routes: ["nats://a:b@127.0.0.1:1"], ping_interval: "10s", no_advertise: true
        permissions { import: "a", export: ["b"] }
    }""",
    "cluster { compression: { mode: s2_auto, rtts: ['5ms', '10ms'] } }",
    """leafnodes {
        authorization { users: [ {user: a, pass: b, account: '$G'} ] }
        port: -1, compression: s2_fast
    }""",
]

UNSUPPORTED = [
    """gateway {
        name: A, listen: "127.0.0.1:-1", write_timeout: close
        gateways: [ {name: B, url: "x:1"}, {name: C, urls: ["y:1", "z:1"]} ]
    }""",
    "leaf { remotes: [ {url: x, hub: true, deny_imports: a, tls { cert_store: y } } ] }",
]


@pytest.mark.parametrize("text", FINE)
def test_acceptedBlock(text: str) -> None:
    """A block that nats-server accepts is read without an error."""
    assert readingOf(text)[1].errors == []


@pytest.mark.parametrize("text", UNSUPPORTED)
def test_valid(text: str) -> None:
    """A link that nats-server accepts is refused only because it is not supported yet."""
    assert [type(error) for error in errorsOf(text)] == [NotSupportedYet]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("cluster { bogus: 1 }", 's.conf:1:11: unknown field "bogus" in cluster'),
        (
            "gateway { gateways: [ {nam: B} ] }",
            's.conf:1:24: unknown field "nam" in gateway.gateways[0], did you mean "name"?',
        ),
        (
            "leafnodes { remotes: [ {hub: 1} ] }",
            "s.conf:1:25: leafnodes.remotes[0].hub: expected a boolean, got an integer",
        ),
        ("cluster: x", "s.conf:1:1: cluster: expected a map, got a string"),
    ],
)
def test_mistakes(text: str, complaint: str) -> None:
    """Mistakes in the block of a link are reported although the link is not supported yet."""
    assert complaint in complaintsOf(text)


@pytest.mark.parametrize(
    "path",
    [
        "cluster.connect_retries",
        "cluster.ping_max",
        "cluster.ping_interval",
        "cluster.write_deadline",
        "cluster.authorization.timeout",
        "gateway.connect_retries",
        "gateway.write_deadline",
        "gateway.authorization.timeout",
        "leafnodes.reconnect",
        "leafnodes.dial_timeout",
        "leafnodes.write_deadline",
        "leafnodes.authorization.timeout",
        "websocket.handshake_timeout",
        "websocket.ping_interval",
        "websocket.authorization.timeout",
    ],
)
def test_negative(path: str) -> None:
    """A negative number or duration is an error at its key."""
    *blocks, name = path.split(".")
    text = f"{' { '.join(blocks)} {{ {name}: -1 {' }' * len(blocks)}"
    assert f"{path}: value can not be negative" in complaintsOf(text)[0]
    assert len(complaintsOf(text)) == 1


@pytest.mark.parametrize(
    "path",
    [
        "cluster.authorization.user",
        "gateway.authorization.pass",
        "leafnodes.authorization.nkey",
        "websocket.authorization.token",
        "authorization.token",
    ],
)
def test_empty(path: str) -> None:
    """An empty user or password is an error at its key."""
    *blocks, name = path.split(".")
    text = f'{" { ".join(blocks)} {{ {name}: "" {" }" * len(blocks)}'
    assert f"{path}: is empty: everybody would be let in" in complaintsOf(text)[0]
