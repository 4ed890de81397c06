"""
The flags of the command line: nats-server's and nats-streaming-server's, and C{--pure} and
C{--streaming}.

This module promises a table of names, kinds and the key of the configuration file that
each stands for.  It must never know what to do with a value.
"""

from __future__ import annotations

from dataclasses import dataclass

from natsbroker.config.goflags import FlagType

__all__ = [
    "EVERY_FLAG",
    "FLAGS",
    "KINDS",
    "STREAMING_FLAGS",
    "TUNING_FLAGS",
    "Flag",
    "flagNamed",
]


@dataclass(frozen=True, slots=True)
class Flag:
    """
    A flag.

    @ivar names: every spelling, without dashes; the last is used in messages.
    @ivar key: the dotted path of the key that it sets; empty when it sets none.
    """

    names: tuple[str, ...]
    kind: FlagType
    key: str = ""

    @property
    def name(self) -> str:
        """
        The spelling for messages, with its dashes.
        """
        longest = self.names[-1]
        return f"--{longest}" if len(longest) > 3 else f"-{longest}"


def _flag(names: str, kind: FlagType, key: str = "") -> Flag:
    return Flag(tuple(names.split()), kind, key)


_BOOLEAN, _INTEGER, _STRING = FlagType.BOOLEAN, FlagType.INTEGER, FlagType.STRING
_DURATION, _SIZE = FlagType.DURATION, FlagType.SIZE

FLAGS = (
    _flag("h help", _BOOLEAN),
    _flag("v version", _BOOLEAN),
    _flag("help_tls", _BOOLEAN),
    _flag("c config", _STRING),
    _flag("t", _BOOLEAN),
    _flag("sl signal", _STRING),
    _flag("pure", _BOOLEAN, "fast_lane"),
    _flag("p port", _INTEGER, "port"),
    _flag("a net addr", _STRING, "host"),
    _flag("n name server_name", _STRING, "server_name"),
    _flag("client_advertise", _STRING, "client_advertise"),
    _flag("P pid", _STRING, "pidfile"),
    _flag("ports_file_dir", _STRING, "ports_file_dir"),
    _flag("m http_port", _INTEGER, "http_port"),
    _flag("ms https_port", _INTEGER, "https_port"),
    _flag("D debug", _BOOLEAN, "debug"),
    _flag("V trace", _BOOLEAN, "trace"),
    _flag("VV", _BOOLEAN, "trace_verbose"),
    _flag("DV", _BOOLEAN, "trace"),
    _flag("DVV", _BOOLEAN, "trace_verbose"),
    _flag("T logtime", _BOOLEAN, "logtime"),
    _flag("logtime_utc", _BOOLEAN, "logtime_utc"),
    _flag("l log", _STRING, "logfile"),
    _flag("log_size_limit", _INTEGER, "logfile_size_limit"),
    _flag("max_traced_msg_len", _INTEGER, "max_traced_msg_len"),
    _flag("s syslog", _BOOLEAN, "syslog"),
    _flag("r remote_syslog", _STRING, "remote_syslog"),
    _flag("user", _STRING, "authorization.user"),
    _flag("pass", _STRING, "authorization.pass"),
    _flag("auth", _STRING, "authorization.token"),
    _flag("tls", _BOOLEAN, "tls"),
    _flag("tlsverify", _BOOLEAN, "tls.verify"),
    _flag("tlscert", _STRING, "tls.cert_file"),
    _flag("tlskey", _STRING, "tls.key_file"),
    _flag("tlscacert", _STRING, "tls.ca_file"),
    _flag("js jetstream", _BOOLEAN, "jetstream"),
    _flag("sd store_dir", _STRING, "store_dir"),
    _flag("routes", _STRING, "cluster"),
    _flag("cluster", _STRING, "cluster"),
    _flag("cluster_listen", _STRING, "cluster"),
    _flag("cluster_name", _STRING, "cluster"),
    _flag("cluster_advertise", _STRING, "cluster"),
    _flag("no_advertise", _BOOLEAN, "cluster"),
    _flag("connect_retries", _INTEGER, "cluster"),
    _flag("profile", _INTEGER, "prof_port"),
)

STREAMING_FLAGS = (
    _flag("streaming", _BOOLEAN, "streaming"),
    _flag("cid cluster_id", _STRING, "streaming.cluster_id"),
    _flag("st store", _STRING, "streaming.store"),
    _flag("dir", _STRING, "streaming.dir"),
    _flag("mc max_channels", _INTEGER, "streaming.store_limits.max_channels"),
    _flag("msu max_subs", _INTEGER, "streaming.store_limits.max_subs"),
    _flag("mm max_msgs", _INTEGER, "streaming.store_limits.max_msgs"),
    _flag("mb max_bytes", _SIZE, "streaming.store_limits.max_bytes"),
    _flag("ma max_age", _DURATION, "streaming.store_limits.max_age"),
    _flag("mi max_inactivity", _DURATION, "streaming.store_limits.max_inactivity"),
    _flag("hbi hb_interval", _DURATION, "streaming.hb_interval"),
    _flag("hbt hb_timeout", _DURATION, "streaming.hb_timeout"),
    _flag("hbf hb_fail_count", _INTEGER, "streaming.hb_fail_count"),
    _flag("replace_durable", _BOOLEAN, "streaming.replace_durable"),
    _flag("sql_driver", _STRING, "streaming.sql_options.driver"),
    _flag("sql_source", _STRING, "streaming.sql_options.source"),
    _flag("sql_no_caching", _BOOLEAN, "streaming.sql_options.no_caching"),
    _flag("sql_max_open_conns", _INTEGER, "streaming.sql_options.max_open_conns"),
    _flag("sql_bulk_insert_limit", _INTEGER, "streaming.sql_options.bulk_insert_limit"),
    _flag("SD stan_debug", _BOOLEAN, "streaming.stan_debug"),
    _flag("SV stan_trace", _BOOLEAN, "streaming.stan_trace"),
    _flag("SDV", _BOOLEAN, "streaming.stan_trace"),
    _flag("sc stan_config", _STRING),
    _flag("ns nats_server", _STRING, "streaming.nats_server"),
    _flag("ft_group", _STRING, "streaming.ft_group"),
    _flag("clustered", _BOOLEAN, "streaming.cluster"),
    _flag("cluster_node_id", _STRING, "streaming.cluster"),
    _flag("cluster_bootstrap", _BOOLEAN, "streaming.cluster"),
    _flag("cluster_peers", _STRING, "streaming.cluster"),
    _flag("cluster_log_path", _STRING, "streaming.cluster"),
    _flag("encrypt", _BOOLEAN, "streaming.encrypt"),
    _flag("encryption_cipher", _STRING, "streaming.encryption_cipher"),
    _flag("encryption_key", _STRING, "streaming.encryption_key"),
    _flag("secure", _BOOLEAN, "streaming.secure"),
    _flag("tls_client_cert", _STRING, "streaming.tls"),
    _flag("tls_client_key", _STRING, "streaming.tls"),
    _flag("tls_client_cacert", _STRING, "streaming.tls"),
)
"""Those of nats-streaming-server; any of them asks for NATS Streaming."""

TUNING_FLAGS = (
    _flag("file_compact_enabled", _BOOLEAN, "streaming.file_options"),
    _flag("file_compact_frag", _INTEGER, "streaming.file_options"),
    _flag("file_compact_interval", _INTEGER, "streaming.file_options"),
    _flag("file_compact_min_size", _SIZE, "streaming.file_options"),
    _flag("file_buffer_size", _SIZE, "streaming.file_options"),
    _flag("file_read_buffer_size", _SIZE, "streaming.file_options"),
    _flag("file_crc", _BOOLEAN, "streaming.file_options"),
    _flag("file_crc_poly", _INTEGER, "streaming.file_options"),
    _flag("file_sync", _BOOLEAN, "streaming.file_options"),
    _flag("file_slice_max_msgs", _INTEGER, "streaming.file_options"),
    _flag("file_slice_max_bytes", _SIZE, "streaming.file_options"),
    _flag("file_slice_max_age", _DURATION, "streaming.file_options"),
    _flag("file_slice_archive_script", _STRING, "streaming.file_options"),
    _flag("file_fds_limit", _INTEGER, "streaming.file_options"),
    _flag("file_parallel_recovery", _INTEGER, "streaming.file_options"),
    _flag("file_truncate_bad_eof", _BOOLEAN, "streaming.file_options"),
    _flag("file_auto_sync", _DURATION, "streaming.file_options"),
    _flag("io_batch_size", _INTEGER, "streaming.file_options"),
    _flag("io_sleep_time", _INTEGER, "streaming.file_options"),
    _flag("syslog_name", _STRING, "streaming.syslog_name"),
    _flag("cluster_log_cache_size", _INTEGER),
    _flag("cluster_log_snapshots", _INTEGER),
    _flag("cluster_trailing_logs", _INTEGER),
    _flag("cluster_sync", _BOOLEAN),
    _flag("cluster_raft_logging", _BOOLEAN),
    _flag("cluster_proceed_on_restore_failure", _BOOLEAN),
    _flag("cluster_allow_add_remove_node", _BOOLEAN),
)
"""Those of nats-streaming-server that tune what works otherwise here, or a cluster's log, which
C{clustered} would ask for: they have no effect."""

EVERY_FLAG = FLAGS + STREAMING_FLAGS + TUNING_FLAGS

_BY_NAME = {name: flag for flag in EVERY_FLAG for name in flag.names}

KINDS = {name: flag.kind for name, flag in _BY_NAME.items()}
"""Spelling -> what it takes."""


def flagNamed(name: str) -> Flag:
    """
    Find a flag by one of its spellings.

    @raise KeyError: when there is none.
    """
    return _BY_NAME[name]
