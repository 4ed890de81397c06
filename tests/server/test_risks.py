"""
Settings that are probably a mistake.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from natsbroker.config.errors import REACHED_PAGES
from natsbroker.config.model import Cluster, Gateway, Settings, TLSSettings
from natsbroker.config.settings.listeners import UNGUARDED
from natsbroker.server.configuration.build import buildText
from natsbroker.server.risks import (
    HASH_UNSAID,
    NO_LEAF_CERTIFICATE,
    NO_PASSWORDS,
    NO_PLACEMENT,
    NO_PROFILES,
    NOBODY_KNOWN,
    NOBODY_MAPPED,
    ONLY_SYSTEM_USERS,
    allRisks,
    risksIn,
)
from natsbroker.server.start import announceStart
from tests.server.support import logLines, settingsOf

LOCAL = "listen: '127.0.0.1:1'"

HASH = f"$2a$11${'x' * 53}"

HASHED = f"authorization {{ user: u, password: '{HASH}' }}"

NKEY = "UC6NLCN7AS34YOJVCYD4PJ3QB7QGLYG5B5IMBT25VW5K4TNUJODM7BOX"


class TestRisks:
    """Settings that are allowed but unwise."""

    PLAIN = "[WRN] Plaintext passwords detected, use nkeys or bcrypt"
    LARGE = (
        "[WRN] Maximum payloads over 8.00 MB are generally discouraged and could lead to poor "
        "performance"
    )
    NO_PORT = "[WRN] the URL of h has no port that can be dialled"
    TEMPORARY = "[WRN] Temporary storage directory used, data could be lost on system reboot"

    @pytest.mark.parametrize(
        ("text", "warnings"),
        [
            ("port: 4222", []),
            ("authorization { user: u, password: p }", [PLAIN]),
            ("authorization { users: [{user: u, password: p}] }", [PLAIN]),
            (f"authorization {{ user: u, password: '$2a$04${'x' * 53}' }}", []),
            ("accounts { A { users: [{user: u, password: p}] } }", [PLAIN]),
            ("authorization { token: t }", []),
            (f"authorization {{ users: [{{nkey: {NKEY}}}] }}", []),
            (f"accounts {{ A {{ users: [{{nkey: {NKEY}}}] }} }}", []),
            (f"authorization {{ users: [{{nkey: {NKEY}}}, {{user: u, password: p}}] }}", [PLAIN]),
            ("max_payload: 8MB", []),
            ("max_payload: 9MB", [LARGE]),
            ("jetstream: enabled", [TEMPORARY]),
            ("jetstream: enabled, store_dir: x", []),
            ("jetstream { store_dir: x }", []),
            ("jetstream { backend_options { dir: x } }", []),
            ("jetstream { backend: memory }", []),
            ("jetstream { enabled: false }", []),
            ("http: '127.0.0.1:1'", []),
            ("http: '10.0.0.1:1'", [f"[WRN] {REACHED_PAGES.format('10.0.0.1')}"]),
            ("http_port: 1", [f"[WRN] {REACHED_PAGES.format('0.0.0.0')}"]),
            ("http_port: 1, insecure_monitor: true", []),
            ("cluster { port: 6222 }", [f"[WRN] {UNGUARDED.format('0.0.0.0:6222', 'member')}"]),
            ("cluster { port: 6222, insecure_listen: true }", []),
            ("cluster { listen: '127.0.0.1:6222' }", []),
            ("cluster { listen: '127.0.0.1:1', routes: ['nats://u:p@h'] }", [NO_PORT]),
            (
                "gateway { name: g, listen: '127.0.0.1:1', gateways: [{name: h, url: 'h:0'}] }",
                [NO_PORT],
            ),
            ("leafnodes { remotes: [{url: 'nats://h:70000'}, {url: 'nats://h'}] }", [NO_PORT]),
            ("prof_port: 6060, prof_block_rate: 1", [f"[WRN] {NO_PROFILES}"]),
            ("jetstream { store_dir: x, unique_tag: 'az:' }", [f"[WRN] {NO_PLACEMENT}"]),
            ("jetstream { store_dir: x, unique_tag: '' }", []),
            (
                "feature_flags { js_ack_fc_v2: true, b: false }",
                ["[WRN] feature_flags have no effect here: b, js_ack_fc_v2"],
            ),
            ("leafnodes { port: 1, tls {} }", [f"[WRN] {NO_LEAF_CERTIFICATE}"]),
            ("leafnodes { tls {} }", []),
            (f"cluster {{ {LOCAL}, {HASHED} }}", [f"[WRN] {HASH_UNSAID}"]),
            (f"cluster {{ {LOCAL}, {HASHED}, routes: ['nats://u:p@h:1'] }}", []),
            (f"gateway {{ name: g, {LOCAL}, {HASHED} }}", [f"[WRN] {HASH_UNSAID}"]),
            (
                "gateway { name: g, port: 7222 }",
                [f"[WRN] {UNGUARDED.format('0.0.0.0:7222', 'gateway')}"],
            ),
            (
                f"accounts {{ $SYS {{ users: [{{nkey: {NKEY}}}] }} }}",
                [f"[WRN] {ONLY_SYSTEM_USERS.format('$SYS')}"],
            ),
            (f"accounts {{ $SYS {{ users: [{{nkey: {NKEY}}}] }} }}, authorization {{}}", []),
        ],
    )
    def test_reportedRisk(self, text: str, warnings: list[str]) -> None:
        """A risk is reported in nats-server's words."""
        with logLines() as lines:
            announceStart(settingsOf(text), "ID", {})
        assert [line for line in lines if "[WRN]" in line] == warnings


@pytest.mark.parametrize(
    "text",
    [
        "authorization { user: u, password: $P }",
        "password: $P\nauthorization { users: [{user: u, password: $password}] }",
        "accounts { A { users: [{user: u, password: $P}] } }",
    ],
)
def test_environment(text: str) -> None:
    """A password from the environment does not count as a plaintext password."""
    settings = buildText(f"listen: '127.0.0.1:1'\n{text}", {"P": "secret"}).settings
    assert list(risksIn(settings)) == []


@pytest.mark.parametrize("key, kind", [("cluster", Cluster), ("gateway", Gateway)])
def test_mapped(key: str, kind: Any) -> None:
    """Certificates that cannot name a user admit no client."""
    block = kind(host="127.0.0.1", port=1, tls=TLSSettings(verify_and_map=True))
    assert list(risksIn(Settings(**{key: block}))) == [(f"{key}.tls", NOBODY_MAPPED)]
    assert list(risksIn(Settings(**{key: replace(block, user="u")}))) == []


ANNA = "users: [ {user: anna}, {user: bob, password: p} ]"


@pytest.mark.parametrize(
    ("text", "isReported"),
    [
        (f"authorization {{ {ANNA} }}", True),
        (f"accounts {{ A {{ {ANNA} }} }}", True),
        (f"accounts {{ A {{ {ANNA} }} }}, no_auth_user: anna", False),
        (f"accounts {{ A {{ {ANNA} }} }}, authorization {{ plugin: htpasswd, file: x }}", False),
        (f"authorization {{ users: [ {{nkey: {NKEY}}} ] }}", False),
        ("authorization { user: u, password: p }", False),
    ],
)
def test_noPassword(text: str, isReported: bool) -> None:
    """Users that every client can name are reported, unless somebody else decides about them."""
    settings = settingsOf(f"{LOCAL}, {text}")
    warning = NO_PASSWORDS.format("anna")
    assert (warning in [message for _, message in risksIn(settings)]) == isReported
    mapped = replace(settings, tls=TLSSettings(verify_and_map=True))
    assert warning not in [message for _, message in risksIn(mapped)]


def test_known() -> None:
    """Without URLs of other servers, no certificate can name one."""
    tls = TLSSettings(verify_cert_and_check_known_urls=True)
    block = Cluster(host="127.0.0.1", port=1, user="u", password=HASH, tls=tls)
    assert list(risksIn(Settings(cluster=block))) == [("cluster.tls", NOBODY_KNOWN)]
    peered = replace(block, routes=("nats://h:1",))
    assert list(risksIn(Settings(cluster=peered))) == []
    both = replace(block, tls=replace(tls, verify_and_map=True))
    assert list(risksIn(Settings(cluster=both))) == []


class TestSeparateStreams:
    """JetStream whose streams are not shared with the cluster."""

    @pytest.mark.parametrize(
        ("text", "isWarned"),
        [
            ("cluster { listen: '127.0.0.1:1' }, jetstream: enabled", True),
            ("cluster { listen: '127.0.0.1:1' }, jetstream { store_dir: x }", True),
            ("cluster { listen: '127.0.0.1:1' }, jetstream { backend: memory }", True),
            ("cluster { listen: '127.0.0.1:1' }", False),
            ("jetstream: enabled", False),
            (
                "cluster { listen: '127.0.0.1:1' }, jetstream "
                "{ backend: postgres, backend_options { source: 'dbname=x' } }",
                False,
            ),
        ],
    )
    def test_warning(self, text: str, isWarned: bool) -> None:
        """The log warns if JetStream is not shared with the cluster."""
        with logLines() as lines:
            announceStart(settingsOf(text), "ID", {})
        assert any("not shared with its cluster" in line for line in lines) == isWarned


class TestAll:
    """Risks of settings and of listeners together."""

    def test_clients(self) -> None:
        """Listeners where clients need no login are reported, unless all clients need one."""
        settings = settingsOf("port: 4222")
        [(key, text)] = allRisks(settings, False)
        assert (key, "need no login" in text) == ("port", True)
        assert list(allRisks(settings, True)) == []
