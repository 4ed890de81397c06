"""
Tests for L{natsbroker.server.configuration.checks}.
"""

from __future__ import annotations

import pytest

from natsbroker.config import errors
from natsbroker.config.addresses import isLoopback
from tests.auth.operator.keys import ACCOUNT
from tests.config.support import built, complaintsOf, settingsOf

USERS = "authorization { users: [ {user: a} ] }"
CALLOUT = f"issuer: {ACCOUNT}, auth_users: [a]"
REACHED_PAGES = errors.REACHED_PAGES.format("0.0.0.0")
TLS = "tls { cert_file: cert.pem, key_file: key.pem }"

FINE = [
    "client_advertise: h",
    "client_advertise: 'h:1'",
    "client_advertise: '[::1]:1'",
    f"accounts: [A]\nauthorization {{ auth_callout {{ {CALLOUT}, allowed_accounts: [A] }} }}",
    f"no_auth_user: a\n{USERS}",
    "no_auth_user: a\naccounts { A { users: [ {user: a} ] } }",
    "system_account: S\naccounts { S {} }",
    "accounts { $SYS { users: [ {user: s} ] }\n A { users: [ {user: a} ] } }",
    "accounts { $SYS { users: [ {user: s} ] } }\nauthorization { users: [ {user: a} ] }",
    "accounts { $SYS { users: [ {user: s} ] } }\nauthorization {}",
    "accounts { $SYS { users: [ {user: s} ] } }\nno_auth_user: s",
    "accounts { $SYS {} }",
    f"https_port: 1\n{TLS}",
    f"http_port: 1\nhttps_port: 2\n{TLS}",
    "https_port: -1",
    "http: '0.0.0.0:8222'",
    "http: '127.0.0.1:8222'\ninsecure_monitor: false",
    "accounts { $SYS { users: [ {user: s} ] } }",
    "system_account: S\naccounts { S { users: [ {user: s} ] } }",
    "http: 'LOCALHOST:1'",
    "no_system_account: true",
]


@pytest.mark.parametrize("text", FINE)
def test_consistentSettings(text: str) -> None:
    """Consistent settings cause no error."""
    settingsOf(text)


MISTAKES = [
    ("no_auth_user: b", 'no_auth_user: "b" present, but users/nkeys are not defined'),
    (
        "no_auth_user: b\nauthorization { user: b, pass: c }",
        'no_auth_user: "b" present, but users/nkeys are not defined',
    ),
    (
        f"no_auth_user: b\n{USERS}",
        'no_auth_user: "b" not present as user or nkey in authorization block or account '
        "configuration",
    ),
    (
        "system_account: S",
        "system_account: error resolving system account: account missing",
    ),
    (
        "client_advertise: 'foo:bar:4222'",
        "client_advertise: Error setting server INFO with ClientAdvertise value of foo:bar:4222, "
        "err=address foo:bar:4222: too many colons in address",
    ),
    (
        f"authorization {{ auth_callout {{ {CALLOUT}, allowed_accounts: [A] }} }}",
        'authorization: auth_callout allowed account "A" not found in configured accounts',
    ),
    (
        "system_account: '$SYS'",
        "system_account: error resolving system account: account missing",
    ),
    (
        "system_account: '$G'",
        "system_account: the global account cannot be the system account",
    ),
    ("authorization { user: a }", f"authorization.user: {errors.NO_PASSWORD}"),
    ("authorization { password: x }", f"authorization.pass: {errors.NO_USER}"),
    (
        "leafnodes { port: 1, authorization { user: a } }",
        f"leafnodes.authorization.user: {errors.NO_PASSWORD}",
    ),
    (
        "websocket { port: 1, no_tls: true, authorization { password: x } }",
        f"websocket.authorization.pass: {errors.NO_USER}",
    ),
    ("http: '0.0.0.0:8222'\ninsecure_monitor: false", f"http: {REACHED_PAGES}"),
    ("http_port: 8222\ninsecure_monitor: false", f"http_port: {REACHED_PAGES}"),
]


@pytest.mark.parametrize(("text", "complaint"), MISTAKES)
def test_mistakes(text: str, complaint: str) -> None:
    """A setting that needs or excludes another one is reported."""
    assert [problem.partition(" ")[2] for problem in complaintsOf(text)] == [complaint]


HOSTS = [
    ("127.0.0.1", True),
    ("127.9.9.9", True),
    ("::1", True),
    ("localhost", True),
    ("0.0.0.0", False),
    ("::", False),
    ("10.0.0.1", False),
    ("example.org", False),
    ("", False),
]


@pytest.mark.parametrize(("host", "loopback"), HOSTS)
def test_isLoopback(host: str, loopback: bool) -> None:
    """A loopback address is recognized. An unknown host name does not count as one."""
    assert isLoopback(host) is loopback


@pytest.mark.parametrize(
    ("text", "isOn"),
    [
        ("accounts { A {} }", False),
        ("accounts { A { jetstream: disabled } }", False),
        ("accounts { A { jetstream: enabled } }", True),
        ("accounts { A { jetstream: true } }", True),
        ("accounts { A { jetstream { max_mem: 1k, max_streams: 5 } } }", True),
    ],
)
def test_account(text: str, isOn: bool) -> None:
    """An account has JetStream if its settings enable it, with any limits."""
    assert built(text).settings.accounts["A"].jetstream is isOn


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "jetstream { enabled: false, domain: a.b }",
            "invalid domain name: may not contain ., * or >",
        ),
        (
            "jetstream { enabled: false, domain: '*' }",
            "invalid domain name: may not contain ., * or >",
        ),
        ("default_js_domain { A: hub }", 'references non existing account "A"'),
        ('default_js_domain { "$SYS": hub }', 'contains the system account "$SYS"'),
        (
            "accounts { A { jetstream: enabled } }\ndefault_js_domain { A: hub }",
            'contains account name "A" with enabled JetStream',
        ),
        (
            "accounts { A {} }\ndefault_js_domain { A: h.b }",
            'contains account "A" with invalid domain name "h.b"',
        ),
    ],
)
def test_complaints(text: str, complaint: str) -> None:
    """An invalid domain, and a default domain of an unsuitable account, are reported."""
    (problem,) = complaintsOf(text)
    assert problem.endswith(complaint)
