"""
Tests for L{natsbroker.config.flags}.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from natsbroker.config.errors import ConfigError
from natsbroker.config.flags import EVERY_FLAG, FLAG_TYPES, REFUSED, Flag, flagNamed, usage
from natsbroker.config.goflags import FlagType
from natsbroker.config.keys.root import keyAt
from natsbroker.config.model import Settings, changed
from natsbroker.server.configuration.commandline import invocationFrom

SPELLINGS = """
    a addr net p port n name server_name P pid m http_port ms https_port c config t sl signal
    client_advertise ports_file_dir log_format l log T logtime s syslog r remote_syslog D debug
    V trace VV DV DVV log_size_limit max_traced_msg_len js jetstream sd store_dir user pass
    auth tls tlsverify tlscert tlskey tlscacert routes cluster cluster_name no_advertise
    cluster_advertise connect_retries cluster_listen profile h help help_tls v version
    logtime_utc pure workers
"""
"""Every flag of nats-server 2.15, and ours."""

STREAMING_SPELLINGS = """
    streaming cid cluster_id st store dir mc max_channels msu max_subs mm max_msgs mb max_bytes
    ma max_age mi max_inactivity hbi hb_interval hbt hb_timeout hbf hb_fail_count SD stan_debug
    SV stan_trace SDV sc stan_config ns nats_server ft_group clustered cluster_node_id
    cluster_bootstrap cluster_peers cluster_log_path encrypt encryption_cipher encryption_key
    replace_durable secure tls_client_cert tls_client_key tls_client_cacert sql_driver sql_source
    sql_no_caching sql_max_open_conns sql_bulk_insert_limit file_compact_enabled file_compact_frag
    file_compact_interval file_compact_min_size file_buffer_size file_read_buffer_size file_crc
    file_crc_poly file_sync file_slice_max_msgs file_slice_max_bytes file_slice_max_age
    file_slice_archive_script file_fds_limit file_parallel_recovery file_truncate_bad_eof
    file_auto_sync io_batch_size io_sleep_time syslog_name cluster_log_cache_size
    cluster_log_snapshots cluster_trailing_logs cluster_sync cluster_raft_logging
    cluster_proceed_on_restore_failure cluster_allow_add_remove_node
"""
"""The flags of nats-streaming-server 0.25, and C{streaming}."""


def test_spellings() -> None:
    """The known flags are exactly those of nats-server and nats-streaming-server, and ours."""
    assert sorted(FLAG_TYPES) == sorted((SPELLINGS + STREAMING_SPELLINGS).split())


def test_oneMeaning() -> None:
    """No spelling stands for two flags."""
    assert sum(len(flag.names) for flag in EVERY_FLAG) == len(FLAG_TYPES)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("p", "--port"), ("DVV", "-DVV"), ("js", "--jetstream"), ("t", "-t"), ("net", "--addr")],
)
def test_longName(name: str, shown: str) -> None:
    """Messages use the long name of a flag."""
    assert flagNamed(name).name == shown


def test_kinds() -> None:
    """Ports are integers, switches booleans."""
    assert (FLAG_TYPES["p"], FLAG_TYPES["js"], FLAG_TYPES["user"]) == (
        FlagType.INTEGER,
        FlagType.BOOLEAN,
        FlagType.STRING,
    )


@pytest.mark.parametrize("flag", [flag for flag in EVERY_FLAG if flag.setting])
def test_settings(flag: Flag) -> None:
    """The attribute that a flag sets exists in the settings, with a value of the same type."""
    changes = {FlagType.STRING: "x", FlagType.BOOLEAN: True}
    value = changes.get(flag.type, 7)
    made: Any = changed(Settings(), flag.setting, value)
    for name in flag.setting.split("."):
        made = made[name] if isinstance(made, Mapping) else getattr(made, name)
    assert made == value


def test_refusedKeys() -> None:
    """The key of a refused flag is a key of the configuration that is not supported either."""
    refused = [flag.key for flag in EVERY_FLAG if flag.key]
    assert refused and all(keyAt(key).unsupported for key in refused)


VALUES = {
    FlagType.BOOLEAN: "true",
    FlagType.INTEGER: "1",
    FlagType.STRING: "x",
    FlagType.DURATION: "1s",
    FlagType.SIZE: "1",
}
"""A value for a flag of each kind."""


def isMissing(name: str, kind: FlagType) -> bool:
    """Whether a flag is refused because its feature is not built."""
    try:
        invocationFrom([f"--{name}={VALUES[kind]}"], {})
    except ConfigError as error:
        return "not supported yet" in str(error)
    return False


def test_everyFlag() -> None:
    """The usage lists every flag with all spellings and dashes."""
    named = set(re.findall(r"(?<![\w-])--?(\w+)", usage("natsbroker")))
    assert {name for flag in EVERY_FLAG for name in flag.names} <= named


def test_program() -> None:
    """The usage begins with the name of the program, where scripts look for it."""
    text = usage("natsbroker")
    first = "       natsbroker check --config FILE [--json]\n"
    assert text.startswith(f"\nUsage: natsbroker [options]\n{first}")


def test_refusedFlagsStandApart() -> None:
    """The usage lists exactly the flags of unsupported features as refused."""
    section = usage("natsbroker").split(f"{REFUSED}:\n")[1].split("\n\n")[0]
    listed = set(re.findall(r"(?<![\w-])--?(\w+)", section))
    missing = {
        name for flag in EVERY_FLAG for name in flag.names if isMissing(flag.names[0], flag.type)
    }
    assert listed == missing


def test_width() -> None:
    """The lines of the usage are not wider than a terminal."""
    assert max(map(len, usage("natsbroker").splitlines())) <= 100
