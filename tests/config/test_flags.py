"""
Tests for L{natsbroker.config.flags}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.flags import EVERY_FLAG, KINDS, STREAMING_FLAGS, TUNING_FLAGS, flagNamed
from natsbroker.config.goflags import FlagType
from natsbroker.config.keys.root import ROOT
from tests.config.keys.test_root import everyPath

SPELLINGS = """
    a addr net p port n name server_name P pid m http_port ms https_port c config t sl signal
    client_advertise ports_file_dir l log T logtime s syslog r remote_syslog D debug V trace VV DV
    DVV log_size_limit max_traced_msg_len js jetstream sd store_dir user pass auth tls tlsverify
    tlscert tlskey tlscacert routes cluster cluster_name no_advertise cluster_advertise
    connect_retries cluster_listen profile h help help_tls v version logtime_utc pure
"""
"""Every flag of nats-server 2.15, and C{pure}."""

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
    """Exactly nats-server's and nats-streaming-server's flags are known, and ours."""
    assert sorted(KINDS) == sorted((SPELLINGS + STREAMING_SPELLINGS).split())


def test_oneMeaning() -> None:
    """No spelling stands for two flags."""
    assert sum(len(flag.names) for flag in EVERY_FLAG) == len(KINDS)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("p", "--port"), ("DVV", "-DVV"), ("js", "--jetstream"), ("t", "-t"), ("net", "--addr")],
)
def test_name(name: str, shown: str) -> None:
    """In messages a flag has its long name."""
    assert flagNamed(name).name == shown


def test_kinds() -> None:
    """Ports are integers, switches booleans."""
    assert (KINDS["p"], KINDS["js"], KINDS["user"]) == (
        FlagType.INTEGER,
        FlagType.BOOLEAN,
        FlagType.STRING,
    )


def test_keys() -> None:
    """The key that a flag stands for is one of the configuration file."""
    for flag in EVERY_FLAG:
        first = flag.key.partition(".")[0]
        assert not first or ROOT.canonical(first) == first
    known = {path for path, _, _ in everyPath(ROOT, "")}
    assert {flag.key for flag in STREAMING_FLAGS + TUNING_FLAGS if flag.key} <= known
