"""
Tests for L{natsbroker.config.keys.root}, and for the reference manual that lists its keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields

import pytest

from natsbroker.config.keys.root import ROOT, everySection, keyAt, restarts, secrets
from natsbroker.config.keys.types import (
    AnyType,
    BlockSchema,
    Key,
    ListType,
    MapType,
    Unsupported,
)
from natsbroker.config.model import (
    Cluster,
    Gateway,
    JetStream,
    Leafnodes,
    Logging,
    Monitoring,
    Settings,
    Streaming,
    TLSSettings,
)
from natsbroker.config.settings.leafnodes import RemoteLeaf
from natsbroker.wire.durations import secondsFrom
from tests.reference import MANUAL, rendered

HEADING = re.compile(r"^## (.+)$")
ROW = re.compile(r"^\| (`[^|]+) \| [^|]+ \| [^|]+ \| ([^|]+) \| (yes|not yet) \|$")

OPERATIONS = """
    listen client_advertise port server_name host debug trace trace_verbose trace_headers
    logtime logtime_utc mappings disable_sublist_cache accounts default_sentinel authorization
    http https http_port https_port http_base_path cluster gateway leafnodes store_dir jetstream
    logfile logfile_size_limit logfile_max_num syslog remote_syslog pidfile ports_file_dir
    prof_port max_control_line max_payload max_pending proxy_protocol max_connections
    max_traced_msg_len max_subscriptions max_sub_tokens ping_interval ping_max tls ocsp
    allow_non_tls write_deadline write_timeout lame_duck_duration lame_duck_grace_period
    operator resolver resolver_tls resolver_preload resolver_pinned_accounts no_auth_user
    system_account no_system_account no_header_support trusted_keys connect_error_reports
    reconnect_error_reports websocket mqtt server_tags server_metadata feature_flags
    default_js_domain ocsp_cache no_fast_producer_stall max_closed_clients proxies
    authorization.user authorization.pass authorization.token authorization.timeout
    authorization.users authorization.default_permissions authorization.auth_callout
    authorization.proxy_required authorization.users[].nkey authorization.users[].user
    authorization.users[].pass authorization.users[].permissions
    authorization.users[].allowed_connection_types authorization.users[].permissions.publish
    authorization.users[].permissions.subscribe
    authorization.users[].permissions.allow_responses.max
    authorization.users[].permissions.allow_responses.expires accounts.*.nkey accounts.*.imports
    accounts.*.exports accounts.*.jetstream accounts.*.users accounts.*.default_permissions
    accounts.*.mappings accounts.*.limits accounts.*.msg_trace cluster.name cluster.listen
    cluster.authorization cluster.routes cluster.tls cluster.cluster_advertise
    cluster.no_advertise cluster.connect_retries cluster.connect_backoff cluster.permissions
    cluster.pool_size cluster.accounts cluster.compression.mode
    cluster.compression.rtt_thresholds cluster.ping_interval cluster.ping_max
    cluster.write_deadline gateway.name gateway.listen gateway.authorization gateway.tls
    gateway.advertise gateway.connect_retries gateway.gateways[].name gateway.gateways[].tls
    gateway.gateways[].urls gateway.reject_unknown_cluster leafnodes.listen
    leafnodes.authorization.user leafnodes.authorization.nkey leafnodes.authorization.users
    leafnodes.authorization.account leafnodes.remotes leafnodes.tls leafnodes.advertise
    leafnodes.min_version leafnodes.compression leafnodes.isolate leafnodes.remotes[].urls
    leafnodes.remotes[].account leafnodes.remotes[].creds leafnodes.remotes[].nkey
    leafnodes.remotes[].tls leafnodes.remotes[].hub leafnodes.remotes[].deny_imports
    leafnodes.remotes[].deny_exports leafnodes.remotes[].ws_compress
    leafnodes.remotes[].ws_no_masking leafnodes.remotes[].jetstream_cluster_migrate
    leafnodes.remotes[].isolate leafnodes.remotes[].request_isolation
    leafnodes.remotes[].compression leafnodes.remotes[].first_info_timeout
    leafnodes.remotes[].disabled leafnodes.remotes[].proxy
    leafnodes.remotes[].ignore_discovered_servers jetstream.enabled jetstream.store_dir
    jetstream.max_mem jetstream.max_file jetstream.domain jetstream.key jetstream.cipher
    jetstream.sync_interval jetstream.limits.max_ack_pending jetstream.limits.max_ha_assets
    jetstream.limits.max_request_batch jetstream.limits.duplicate_window jetstream.limits.batch
    jetstream.unique_tag jetstream.strict jetstream.tpm tls.cert_file tls.key_file tls.ca_file
    tls.verify tls.verify_and_map tls.insecure tls.timeout tls.pinned_certs tls.handshake_first
    tls.min_version tls.cipher_suites tls.curve_preferences tls.connection_rate_limit
    tls.ocsp_peer tls.certs tls.cert_store router.plugin authorization.plugin plugins services
    fast_lane workers max_subject_shapes insecure_monitor monitor_origins streaming
"""
"""Keys that operators of nats-server 2.15 use, and our own."""


def find(path: str) -> bool:
    """Whether the tables have a path, under any spelling."""
    sections = [ROOT]
    for part in re.split(r"\.", path):
        if part == "*":
            continue
        name = part.removesuffix("[]")
        keys = [
            section.keys[canonical]
            for section in sections
            if (canonical := section.canonical(name)) is not None
        ]
        if not keys:
            return False
        sections = [below for key in keys for kind in key.types for below in within(kind)]
    return True


def within(kind: AnyType) -> list[BlockSchema]:
    """The sections inside a type."""
    if isinstance(kind, BlockSchema):
        return [kind]
    if isinstance(kind, ListType | MapType):
        return [below for inner in kind.item.types for below in within(inner)]
    return []


@pytest.mark.parametrize("path", OPERATIONS.split())
def test_known(path: str) -> None:
    """Every key that operators use is known, also if its feature is missing."""
    assert find(path)


def test_unknownPath() -> None:
    """An unknown path is not in the tables."""
    assert not find("authorization.users[].bogus")


def test_oneMeaningPerSpelling() -> None:
    """No spelling stands for two keys of one section."""
    for section in everySection():
        spellings = [
            spelling for name, key in section.keys.items() for spelling in (name, *key.aliases)
        ]
        assert len(spellings) == len(set(spellings)), section.title
        assert spellings == [spelling.lower() for spelling in spellings]


def test_oneTitlePerSection() -> None:
    """Every section has a title of its own."""
    titles = [section.title for section in everySection()]
    assert len(titles) == len(set(titles))


def manual() -> dict[str, dict[str, tuple[str, str, str]]]:
    """
    Read the tables of the manual: title -> key -> spellings, types, supported.
    """
    results: dict[str, dict[str, tuple[str, str, str]]] = {}
    title = ""
    for line in MANUAL.read_text("utf-8").splitlines():
        heading, row = HEADING.match(line), ROW.match(line)
        if heading:
            title = heading[1]
        if row:
            names = re.findall(r"`([^`]+)`", row[1])
            results.setdefault(title, {})[names[0]] = (" ".join(names[1:]), row[2], row[3])
    return results


@dataclass(frozen=True)
class Row:
    """
    A key at a path.

    @ivar isRefused: whether the key, or a block around it, is not supported yet.
    """

    path: str
    section: BlockSchema
    name: str
    isRefused: bool


def everyPath(section: BlockSchema, prefix: str = "", isRefused: bool = False) -> list[Row]:
    """
    List every path of a block.
    """
    rows = []
    for name, key in section.keys.items():
        path = f"{prefix}.{name}" if prefix else name
        row = Row(path, section, name, isRefused or key.unsupported is not None)
        rows.append(row)
        for kind in key.types:
            rows += below(kind, path, row.isRefused)
    return rows


def below(kind: AnyType, path: str, isRefused: bool) -> list[Row]:
    """
    List every path below a type.
    """
    if isinstance(kind, BlockSchema):
        return everyPath(kind, path, isRefused)
    if isinstance(kind, ListType | MapType):
        step = "[]" if isinstance(kind, ListType) else ".*"
        return [row for inner in kind.item.types for row in below(inner, path + step, isRefused)]
    return []


EVERY_PATH = everyPath(ROOT)

FROZEN = {
    "top level": (Settings, Logging, Monitoring),
    "cluster": (Cluster,),
    "gateway": (Gateway,),
    "leafnodes": (Leafnodes,),
    "leafnodes.remotes[]": (RemoteLeaf,),
    "jetstream": (JetStream,),
    "jetstream.limits": (JetStream,),
    "streaming": (Streaming,),
    "streaming.store_limits": (Streaming,),
    "tls": (TLSSettings,),
}
"""The frozen blocks whose fields have the defaults of a section."""


def defaultOf(title: str, name: str) -> object:
    """
    Get the default of a key from its frozen field; L{None} for a key without one.
    """
    for kind in FROZEN.get(title, ()):
        for field in fields(kind):
            if field.name == name and isinstance(field.default, (str, bool, int, float)):
                return field.default
    return None


def defaults() -> Iterator[tuple[str, str, str, str]]:
    """
    Read the defaults of the manual: line, title, key, text.
    """
    title = ""
    for line in MANUAL.read_text("utf-8").splitlines():
        heading = HEADING.match(line)
        title = heading[1] if heading else title
        if ROW.match(line):
            cells = [cell.strip() for cell in line.split("|")]
            yield line, title, re.findall(r"`([^`]+)`", cells[1])[0], cells[3]


class TestManual:
    """The tables of docs/reference/configuration.md."""

    def test_keys(self) -> None:
        """The manual lists exactly the keys that the reader knows, with their spellings."""
        wanted = {
            section.title: {name: " ".join(key.aliases) for name, key in section.keys.items()}
            for section in everySection()
        }
        listed = {
            title: {name: row[0] for name, row in rows.items()} for title, rows in manual().items()
        }
        assert listed == wanted

    def test_manualIsGenerated(self) -> None:
        """The manual equals the output of C{python -m tests.reference}."""
        text = MANUAL.read_text("utf-8")
        assert rendered(text) == text

    def test_missingRow(self) -> None:
        """A key without a row in the manual gets one."""
        text = MANUAL.read_text("utf-8")
        lines = [line for line in text.splitlines() if not line.startswith("| `max_pending`")]
        row = "| `max_pending` | max_pending | none | an integer | yes |"
        assert row in rendered("\n".join(lines)).splitlines()

    def test_forms(self) -> None:
        """The manual names the types of each value."""
        for section in everySection():
            rows = manual()[section.title]
            assert {name: rows[name][1] for name in section.keys} == {
                name: key.typeNames for name, key in section.keys.items()
            }

    def test_supported(self) -> None:
        """The manual marks the keys that are supported in no section as not supported yet."""
        supported = {(row.section.title, row.name) for row in EVERY_PATH if not row.isRefused}
        tables = manual()
        for section in everySection():
            for name in section.keys:
                isSupported = (section.title, name) in supported
                wanted = (section.title, name, "yes" if isSupported else "not yet")
                assert (section.title, name, tables[section.title][name][2]) == wanted

    def test_defaults(self) -> None:
        """A default in the manual equals that of the frozen field."""
        compared = 0
        for line, title, name, text in defaults():
            default = defaultOf(title, name)
            match = re.fullmatch(r'`"?([^`"]*)"?`', text)
            if match is None or not default or default is True:
                continue
            if isinstance(default, float):
                text = match[1] if match[1][-1].isalpha() else f"{match[1]}s"
                assert secondsFrom(text) == default, line
            else:
                assert match[1] == str(default), line
            compared += 1
        assert compared > 20


def test_restarts() -> None:
    """Options that need a restart have nats-server's names, and exist in the settings."""
    assert restarts()["jetstream.store_dir"] == "jetstream storage directory"
    assert restarts()["operator.resolver"] == "AccountResolver"
    assert restarts()["cluster.name"] == "cluster name"
    for path in restarts():
        made: object = Settings(cluster=Cluster())
        for name in path.split("."):
            assert hasattr(made, name), path
            made = getattr(made, name)


def test_secrets() -> None:
    """Passwords, keys and tokens are marked as secret, and users are not."""
    assert {"pass", "token", "nkey", "encryption_key", "resolver_preload"} <= secrets()
    assert not {"user", "port", "name"} & secrets()


def test_keysAreKeys() -> None:
    """Every section has keys with at least one type."""
    for section in everySection():
        assert all(isinstance(key, Key) and key.types for key in section.keys.values())


def unsupported(path: str) -> Unsupported:
    """The unsupported feature of a key."""
    notice = keyAt(path).unsupported
    assert notice is not None
    return notice


def test_unsupportedFeature() -> None:
    """A key of a feature that is not built names this feature."""
    assert str(unsupported("jetstream.tpm")) == "not supported yet (keys in a TPM)"
    assert not unsupported("jetstream.tpm").accepts({})


def test_supportedFeature() -> None:
    """A key of a supported feature gives no warning."""
    assert keyAt("port").unsupported is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("streaming.encrypt", False),
        ("streaming.partitioning", False),
        ("write_timeout", "default"),
    ],
)
def test_valueThatSwitchesOff(path: str, value: object) -> None:
    """The value that disables an unsupported feature is accepted."""
    assert unsupported(path).accepts(value)


@pytest.mark.parametrize(
    ("path", "value"),
    [("write_timeout", "retry"), ("streaming.partitioning", 0)],
)
def test_valueThatAsks(path: str, value: object) -> None:
    """Any other value of an unsupported feature is refused, also an equal one of another type."""
    assert not unsupported(path).accepts(value)
