"""
The flags of the command line, as C{--help} lists them: nats-server's and nats-streaming-server's,
and C{--pure}, C{--workers} and C{--streaming}. A row is the spellings with the value's placeholder,
the meaning, and for some the setting; everything else follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from natsbroker.config.goflags import FlagType

_Row = tuple[str, str, str]


def _rows(table: str) -> tuple[_Row, ...]:
    cells = [[*map(str.strip, line.split("|")), "", ""] for line in table.strip().splitlines()]
    return tuple((usage, meaning, words) for usage, meaning, words, *_ in cells)


class Flag(NamedTuple):
    """
    @ivar names: every spelling, without dashes.
    @ivar setting: the dotted attribute of the settings that it sets; empty for one that is an
        action, or that L{natsbroker.server.configuration.overrides} has a function for.
    @ivar key: of a flag whose feature is not built: the dotted path of the key that asks for it.
    """

    names: tuple[str, ...]
    type: FlagType
    setting: str = ""
    key: str = ""

    @property
    def name(self) -> str:
        longest = max(self.names, key=len)
        return f"--{longest}" if len(longest) > 3 else f"-{longest}"


_TYPES = {
    "": FlagType.BOOLEAN,
    "bytes": FlagType.INTEGER,
    "duration": FlagType.DURATION,
    "number": FlagType.INTEGER,
    "port": FlagType.INTEGER,
    "size": FlagType.SIZE,
}
"""The placeholder of a value -> its type; every other placeholder is a string."""

_SERVER = _rows("""
-a, --addr, --net <host> | address to listen on (default: 0.0.0.0, IPv6 too)
-p, --port <port> | port for clients, -1 for a random one (default: 4222)
-n, --name, --server_name <name> | name of the server (default: its id)
-c, --config <file> | configuration file
-t | check the configuration file and exit
-P, --pid <file> | file to write the process id to | pidfile
--ports_file_dir <dir> | folder for the file that lists the ports in use | ports_file_dir
-m, --http_port <port> | port for HTTP monitoring, on the address of -a
-ms, --https_port <port> | port for HTTPS monitoring (default address: loopback)
--client_advertise <host[:port]> | address to announce to clients | client_advertise
-sl, --signal <what>[=<pid>] | send reload, reopen, stop, quit, term, ldm or upgrade
 | to a process, named by its id or its pid file
--workers <count> | processes that are the server, or auto for one on each core
--profile <port> | no effect, with a warning: profiles of nats-server are Go's | prof_port
--pure | do not use the compiled lane
""")

_LOGGING = _rows("""
-l, --log <file> | log to a file | logfile
-s, --syslog | log to the syslog daemon of this machine | syslog
-r, --remote_syslog <url> | log to one at udp://host:port or tcp://host:port | remote_syslog
--log_format <name> | text or json | log_format
-T, --logtime | put the time on each line (default: true) | logtime
--logtime_utc | in UTC | logtime_utc
-D, --debug | log debugging lines | debug
-V, --trace | log the protocol | trace
-VV | log the protocol, the system account's too
-DV | -D and -V
-DVV | -D and -VV
--log_size_limit <bytes> | rotate the log file at this size | logfile_size_limit
--max_traced_msg_len <bytes> | how much of a message a trace line shows | max_traced_msg_len
""")

_AUTHORIZATION = _rows("""
--user <name> | user that clients must be | user
--pass <password> | and its password | password
--auth <token> | token that clients must bring | token
""")

_TLS = _rows("""
--tls | use TLS, do not ask clients for certificates
--tlsverify | use TLS, ask clients for certificates
--tlscert <file> | certificate of the server
--tlskey <file> | its private key
--tlscacert <file> | authority for the certificates of clients
""")

_JETSTREAM = _rows("""
-js, --jetstream | JetStream | enabled
-sd, --store_dir <dir> | folder of the streams in files | store_dir
""")

_CLUSTER = _rows("""
--routes <urls> | members to connect to, with commas between them
--cluster, --cluster_listen <url> | where to listen for members
--cluster_name <name> | name of the cluster (default: the members agree on one) | name
--cluster_advertise <host[:port]> | address to announce to members | advertise
--no_advertise | do not tell clients of the other members | no_advertise
--connect_retries <number> | how often an announced member is dialled | connect_retries
""")

_STREAMING = _rows("""
--streaming | NATS Streaming with its defaults
-cid, --cluster_id <name> | id of the cluster (default: test-cluster) | cluster_id
-st, --store <name> | memory, file (lmdb), sql (postgres), or a plugin's name | store
--dir <dir> | folder for a store on disk | dir
-mc, --max_channels <number> | how many channels (0: any number) | max_channels
-msu, --max_subs <number> | subscriptions of a channel (0: any number) | max_subs
-mm, --max_msgs <number> | messages of a channel (0: any number) | max_msgs
-mb, --max_bytes <size> | bytes of a channel (0: any number) | max_bytes
-ma, --max_age <duration> | how long a message is kept (0s: for ever) | max_age
-mi, --max_inactivity <duration> | when a channel that nobody uses is deleted | max_inactivity
-hbi, --hb_interval <duration> | time between heartbeats of a client | hb_interval
-hbt, --hb_timeout <duration> | time to answer one | hb_timeout
-hbf, --hb_fail_count <number> | how many may be left unanswered | hb_fail_count
-ns, --nats_server <url>; --secure | serve the clients of another NATS server | nats_server secure
--replace_durable | replace an active durable subscription, do not refuse | replace_durable
--sql_driver <name>; --sql_source <source> | options of a store in a database | \
store_options.driver store_options.source
--sql_no_caching; --sql_max_open_conns <number> |  | \
store_options.no_caching store_options.max_open_conns
--sql_bulk_insert_limit <number> |  | store_options.bulk_insert_limit
-SD, --stan_debug; -SV, --stan_trace; -SDV | the same as -D
-sc, --stan_config <file> | the same as -c
""")

_TUNING = _rows("""
--file_compact_enabled; --file_compact_frag; --file_compact_interval |  | boolean integer integer
--file_compact_min_size; --file_buffer_size; --file_read_buffer_size |  | size size size
--file_crc; --file_crc_poly; --file_sync; --file_auto_sync |  | boolean integer boolean duration
--file_slice_max_msgs; --file_slice_max_bytes; --file_slice_max_age |  | integer size duration
--file_slice_archive_script; --file_fds_limit; --file_parallel_recovery |  | string integer integer
--file_truncate_bad_eof; --io_batch_size; --io_sleep_time; --syslog_name |  | \
boolean integer integer string
--cluster_log_cache_size; --cluster_log_snapshots; --cluster_trailing_logs |  | \
integer integer integer
--cluster_sync; --cluster_raft_logging; --cluster_allow_add_remove_node |  | boolean boolean boolean
--cluster_proceed_on_restore_failure |  | boolean
""")
"""
Flags of nats-streaming-server that tune its files, or the log of its clusters: natsbroker has
neither. Their rows name types, since they have no placeholders.
"""

_STREAMING_UNSUPPORTED = _rows("""
--tls_client_cert <file>; --tls_client_key <file> |  | tls tls
--tls_client_cacert <file> |  | tls
--ft_group <name>; --clustered; --cluster_node_id <name> |  | ft_group cluster cluster
--cluster_bootstrap; --cluster_peers <names>; --cluster_log_path <dir> |  | cluster cluster cluster
--encrypt; --encryption_cipher <name>; --encryption_key <key> |  | \
encrypt encryption_cipher encryption_key
""")

_COMMON = _rows("""
-h, --help | show this text
--help_tls | show what a tls block can say
-v, --version | show the version
""")

_COMMANDS = _rows("""
check --config FILE [--json]
check --store DIR [--json]
completion SHELL
config schema
spark JOB [options]
streaming import DIR [options]
streaming acknowledge DIR
top [--server URL] [--every SECONDS]
""")

REFUSED = "Refused until their feature is supported"
"""The title of the flags that end a start."""

_ACCEPTED = "Accepted, without effect"

_GROUPS = (
    ("Server Options", _SERVER),
    ("Logging Options", _LOGGING),
    ("Authorization Options", _AUTHORIZATION),
    ("TLS Options", _TLS),
    ("JetStream Options", _JETSTREAM),
    ("Cluster Options", _CLUSTER),
    ("Streaming Options (any of them starts NATS Streaming)", _STREAMING),
    (_ACCEPTED, _TUNING),
    (REFUSED, _STREAMING_UNSUPPORTED),
    ("Common Options", _COMMON),
)


_DASHED = re.compile(r"(?<![\w-])--?\w+")


def _spelled(row: _Row) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """
    @return: for each flag of a row its names, its placeholder, and its word of the third column.
    """
    usages = [part for part in row[0].split(";") if part]
    words = row[2].split() or [""] * len(usages)
    for usage, word in zip(usages, words, strict=True):
        placeholder = re.search(r"<(\w+)", usage)
        names = (spelling.lstrip("-") for spelling in _DASHED.findall(usage))
        yield tuple(names), placeholder[1] if placeholder else "", word


def _setting(rows: tuple[_Row, ...], prefix: str = "") -> tuple[Flag, ...]:
    return tuple(
        Flag(names, _TYPES.get(value, FlagType.STRING), word and prefix + word)
        for row in rows
        for names, value, word in _spelled(row)
    )


def _refused(rows: tuple[_Row, ...], prefix: str = "") -> tuple[Flag, ...]:
    return tuple(flag._replace(setting="", key=flag.setting) for flag in _setting(rows, prefix))


_STREAMING_REFUSED = _refused(_STREAMING_UNSUPPORTED, "streaming.")

STREAMING_FLAGS = _setting(_STREAMING, "streaming.") + _STREAMING_REFUSED
"""The flags of nats-streaming-server. Any of them starts NATS Streaming."""

TUNING_FLAGS = tuple(
    Flag(names, FlagType(word)) for row in _TUNING for names, _, word in _spelled(row)
)

EVERY_FLAG = (
    _setting(_SERVER + _TLS + _COMMON)
    + _setting(_JETSTREAM, "jetstream.")
    + _setting(_LOGGING, "logging.")
    + _setting(_AUTHORIZATION, "authorization.")
    + _setting(_CLUSTER, "cluster.")
    + STREAMING_FLAGS
    + TUNING_FLAGS
)

_BY_NAME = {name: flag for flag in EVERY_FLAG for name in flag.names}

FLAG_TYPES = {name: flag.type for name, flag in _BY_NAME.items()}
"""The spelling of a flag -> the type of its value."""


class Suggestion(NamedTuple):
    """
    A flag as a shell completes it.

    @ivar spellings: with their dashes, as the usage has them.
    @ivar value: its placeholder; empty for a boolean.
    """

    spellings: tuple[str, ...]
    value: str
    meaning: str


def suggestions() -> Iterator[Suggestion]:
    """
    @return: every flag that has an effect.
    """
    for title, rows in _GROUPS:
        if title in (_ACCEPTED, REFUSED):
            continue
        for row in rows:
            usages = filter(None, row[0].split(";"))
            for usage, (_, value, _) in zip(usages, _spelled(row), strict=True):
                yield Suggestion(tuple(_DASHED.findall(usage)), value, row[1])


def commands() -> dict[str, list[str]]:
    """
    @return: first word of a command -> the words and the flags that can stand behind it.
    """
    following: dict[str, list[str]] = {}
    for row in _COMMANDS:
        first, second, *_ = row[0].split()
        words = [second] if second.isalpha() and second.islower() else []
        there = following.setdefault(first, [])
        there += [word for word in words + _DASHED.findall(row[0]) if word not in there]
    return following


def flagNamed(name: str) -> Flag:
    return _BY_NAME[name]


def usage(program: str) -> str:
    lines = ["", f"Usage: {program} [options]"]
    lines += [f"       {program} {row[0]}" for row in _COMMANDS]
    lines += ["", f"'{program} spark --help' lists the jobs for Apache Spark."]
    lines += [f"'{program} streaming --help' tells how data of nats-streaming-server is imported."]
    lines += [f"'{program} config --help' and '{program} completion --help' say what these print,"]
    lines += [f"'{program} check --help' and '{program} top --help' what these show."]
    for title, rows in _GROUPS:
        lines += ["", f"{title}:"]
        lines += [f"    {row[0]:<36} {row[1]}".rstrip() for row in rows]
    return "\n".join(lines) + "\n"
