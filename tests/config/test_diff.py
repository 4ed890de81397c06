"""
Tests for L{natsbroker.config.diff}.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from natsbroker.config.diff import Change, differences, reloadProblems
from natsbroker.config.model import Settings
from tests.config.support import settingsOf

CERTIFICATE = "cert_file: cert.pem, key_file: key.pem"


def changes(old: str, new: str) -> list[Change]:
    """The differences between two configurations."""
    return differences(settingsOf(old), settingsOf(new))


def test_sameSettings() -> None:
    """Comments, order and another file name are not changes."""
    assert changes("port: 1, debug: true", "# x\ndebug: yes\nport 1") == []


CHANGED = [
    ("port: 1", "port: 2", "port", 1, 2),
    ("debug: no", "debug: yes", "logging.debug", False, True),
    ("ping_interval: '1m'", "ping_interval: '2m'", "ping_interval", 60.0, 120.0),
    (f"tls {{ {CERTIFICATE} }}", f"tls {{ {CERTIFICATE}, verify: on }}", "tls.verify", False, True),
    (
        "accounts { A { limits { max_conn: 1 } } }",
        "accounts { A { limits { max_conn: 2 } } }",
        "accounts.A.limits.max_connections",
        1,
        2,
    ),
    (
        "server_metadata { a: b }",
        "server_metadata { a: c }",
        "server_metadata.a",
        "b",
        "c",
    ),
    ("plugins { p { x: 1 } }", "plugins { p { x: 2 } }", "plugins.p.x", 1, 2),
    ("services { s {} }", "port: 4222", "services.s", {}, None),
    ("port: 4222", "services { s {} }", "services.s", None, {}),
    ("write_timeout: default", "port: 4222", "write_timeout", "default", None),
]


@pytest.mark.parametrize(("old", "new", "path", "before", "after"), CHANGED)
def test_paths(old: str, new: str, path: str, before: object, after: object) -> None:
    """A change has the path of its key and both values."""
    (change,) = changes(old, new)
    assert (change.path, change.old, change.new) == (path, before, after)


def test_users() -> None:
    """A list of users changes as a whole."""
    (change,) = changes(
        "authorization { users: [ {user: a, pass: x} ] }",
        "authorization { users: [ {user: a, pass: y} ] }",
    )
    assert change.path == "authorization.users"


def test_tlsComes() -> None:
    """A new block is one change. Settings that depend on the block are further changes."""
    changed = changes("port: 4222", f"tls {{ {CERTIFICATE} }}")
    assert [change.path for change in changed] == ["tls", "authorization.timeout"]


def test_secretsStayOut() -> None:
    """The text of a change hides passwords, tokens and options of plugins."""
    old = "authorization { plugin: p, token: canary1, o: canary2 }\nplugins { p { k: canary3 } }"
    changed = changes(old, "authorization { plugin: p, user: u, pass: canary4 }")
    assert {change.path for change in changed} == {
        "authorization.user",
        "authorization.password",
        "authorization.token",
        "authorization.options.o",
        "plugins.p",
    }
    assert "canary" not in f"{changed} {[str(change) for change in changed]}"
    users = changes(
        "authorization { users: [ {user: a, pass: canary} ] }", "authorization { users: [] }"
    )
    assert "canary" not in str(users)


PROBLEMS = [
    ("port: 14081", "port: 14089", "Port: old=14081, new=14089"),
    ("host: a", "host: b", "Host: old=a, new=b"),
    ("server_name: a", "server_name: b", "ServerName: old=a, new=b"),
    ("http_port: 1", "http_port: 2", "HTTPPort: old=1, new=2"),
    ("no_header_support: no", "no_header_support: yes", "NoHeaderSupport: old=false, new=true"),
    (
        "operator: eyJ\nresolver: MEM",
        "operator: eyJ\nresolver { type: full, dir: a }",
        "AccountResolver: old=memory, new=full",
    ),
    (
        "jetstream { sync_interval: '10s' }",
        "jetstream { sync_interval: '30s' }",
        "SyncInterval: old=10s, new=30s",
    ),
    ("operator: eyJa\nresolver: MEM", "operator: eyJb\nresolver: MEM", "TrustedOperators: "),
]


@pytest.mark.parametrize(("old", "new", "problem"), PROBLEMS)
def test_problems(old: str, new: str, problem: str) -> None:
    """A key that needs a restart is reported with nats-server's error."""
    first = reloadProblems(changes(old, new))[0]
    assert first.startswith(f"config reload not supported for {problem}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_payload: 1k", "max_payload: 2k"),
        ("port: 5", "port: -1"),
        ("debug: no", "debug: yes"),
        ("accounts: [A]", "accounts: [A, B]"),
    ],
)
def test_noProblems(old: str, new: str) -> None:
    """Limits, logs and accounts can be changed at a reload, and a random port is kept."""
    changed = changes(old, new)
    assert changed
    assert reloadProblems(changed) == []


def test_pathsBelow() -> None:
    """A path that needs a restart includes all paths below it."""
    assert reloadProblems([Change("router.plugin", "a", "b")]) == [
        "config reload not supported for Router: old=a, new=b"
    ]


def test_clusterName() -> None:
    """Keys of features that are not built need a restart too."""
    before = replace(Settings(), deferred={"cluster": {"name": "a", "token": "canary"}})
    after = replace(Settings(), deferred={"cluster": {"name": "b", "routes": ["canary"]}})
    changed = differences(before, after)
    assert "canary" not in str([str(change) for change in changed])
    before = replace(Settings(), deferred={"cluster": {"name": "a"}})
    after = replace(Settings(), deferred={"cluster": {"name": "b"}})
    assert reloadProblems(differences(before, after)) == [
        "config reload not supported for cluster name: old=a, new=b"
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "<nil>"), (True, "true"), (1.5, "1.5s"), (("a", "b"), "[a b]"), (7, "7"), ("x", "x")],
)
def test_goText(value: object, text: str) -> None:
    """Values are written as Go writes them."""
    assert Change("x", value, value).textOf(value) == text
