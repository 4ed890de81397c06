"""
What C{--help} and C{--help_tls} print.

This module promises text for a person.  It must never know how flags are read.
"""

from __future__ import annotations

REFUSED = "Known, and refused until their feature is there"
"""The title of the flags that end a start."""

_FLAGS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Server Options",
        (
            ("-a, --addr, --net <host>", "address to listen on (default: 0.0.0.0, IPv6 too)"),
            ("-p, --port <port>", "port for clients, -1 for a random one (default: 4222)"),
            ("-n, --name, --server_name <name>", "name of the server (default: its id)"),
            ("-c, --config <file>", "configuration file"),
            ("-t", "check the configuration file and exit"),
            ("-P, --pid <file>", "file to write the process id to"),
            ("--ports_file_dir <dir>", "folder for the file that lists the ports in use"),
            ("-m, --http_port <port>", "port for HTTP monitoring, on the address of -a"),
            ("-ms, --https_port <port>", "port for HTTPS monitoring (default address: loopback)"),
            ("--client_advertise <host[:port]>", "address that clients are told to use"),
            ("-sl, --signal <what>[=<pid>]", "send reload, reopen, stop, quit, term or ldm"),
            ("", "to a process, named by its id or its pid file"),
            ("--pure", "do not use the compiled fast lane"),
        ),
    ),
    (
        "Logging Options",
        (
            ("-l, --log <file>", "log to a file"),
            ("-T, --logtime", "put the time on each line (default: true)"),
            ("--logtime_utc", "in UTC"),
            ("-D, --debug", "log debugging lines"),
            ("-V, --trace", "log the protocol"),
            ("-VV", "log the protocol, the system account's too"),
            ("-DV", "-D and -V"),
            ("-DVV", "-D and -VV"),
            ("--log_size_limit <bytes>", "rotate the log file at this size"),
            ("--max_traced_msg_len <bytes>", "how much of a message a trace line shows"),
        ),
    ),
    (
        "Authorization Options",
        (
            ("--user <name>", "user that clients must be"),
            ("--pass <password>", "and its password"),
            ("--auth <token>", "token that clients must bring"),
        ),
    ),
    (
        "TLS Options",
        (
            ("--tls", "use TLS, do not ask clients for certificates"),
            ("--tlsverify", "use TLS, ask clients for certificates"),
            ("--tlscert <file>", "certificate of the server"),
            ("--tlskey <file>", "its private key"),
            ("--tlscacert <file>", "authority for the certificates of clients"),
        ),
    ),
    (
        "Cluster Options",
        (
            ("--routes <urls>", "members to connect to, with commas between them"),
            ("--cluster, --cluster_listen <url>", "where to listen for members"),
            ("--cluster_name <name>", "name of the cluster (default: the members agree on one)"),
            ("--cluster_advertise <host[:port]>", "address that members are told to use"),
            ("--no_advertise", "do not tell clients of the other members"),
            ("--connect_retries <number>", "how often a member that was heard of is dialled"),
        ),
    ),
    (
        "Streaming Options, any of which asks for NATS Streaming",
        (
            ("--streaming", "NATS Streaming with its defaults"),
            ("-cid, --cluster_id <name>", "id of the cluster (default: test-cluster)"),
            ("-st, --store <name>", "memory, file (lmdb), sql (postgres), or a plugin's name"),
            ("--dir <dir>", "folder for a store on disk"),
            ("-mc, --max_channels <number>", "how many channels (0: any number)"),
            ("-msu, --max_subs <number>", "subscriptions of a channel (0: any number)"),
            ("-mm, --max_msgs <number>", "messages of a channel (0: any number)"),
            ("-mb, --max_bytes <size>", "bytes of a channel (0: any number)"),
            ("-ma, --max_age <duration>", "how long a message is kept (0s: for ever)"),
            ("-mi, --max_inactivity <duration>", "when a channel that nobody uses is deleted"),
            ("-hbi, --hb_interval <duration>", "time between heartbeats of a client"),
            ("-hbt, --hb_timeout <duration>", "time to answer one"),
            ("-hbf, --hb_fail_count <number>", "how many may be left unanswered"),
            ("-ns, --nats_server <url>; --secure", "serve the clients of another NATS server"),
            ("--replace_durable", "replace an active durable subscription, do not refuse"),
            ("--sql_driver <name>; --sql_source <source>", "options of a store in a database"),
            ("--sql_no_caching; --sql_max_open_conns <number>", ""),
            ("--sql_bulk_insert_limit <number>", ""),
            ("-SD, --stan_debug; -SV, --stan_trace; -SDV", "the same as -D"),
            ("-sc, --stan_config <file>", "the same as -c"),
        ),
    ),
    (
        "Accepted, without effect",
        (
            ("-sd, --store_dir <dir>", "folder of JetStream, which is not there yet"),
            ("--file_compact_enabled; --file_compact_frag; --file_compact_interval", ""),
            ("--file_compact_min_size; --file_buffer_size; --file_read_buffer_size", ""),
            ("--file_crc; --file_crc_poly; --file_sync; --file_auto_sync", ""),
            ("--file_slice_max_msgs; --file_slice_max_bytes; --file_slice_max_age", ""),
            ("--file_slice_archive_script; --file_fds_limit; --file_parallel_recovery", ""),
            ("--file_truncate_bad_eof; --io_batch_size; --io_sleep_time; --syslog_name", ""),
            ("--cluster_log_cache_size; --cluster_log_snapshots; --cluster_trailing_logs", ""),
            ("--cluster_sync; --cluster_raft_logging; --cluster_allow_add_remove_node", ""),
            ("--cluster_proceed_on_restore_failure", ""),
        ),
    ),
    (
        REFUSED,
        (
            ("-s, --syslog; -r, --remote_syslog <url>", ""),
            ("-js, --jetstream; --profile <port>", ""),
            ("--tls_client_cert <file>; --tls_client_key <file>", ""),
            ("--tls_client_cacert <file>", ""),
            ("--ft_group <name>; --clustered; --cluster_node_id <name>", ""),
            ("--cluster_bootstrap; --cluster_peers <names>; --cluster_log_path <dir>", ""),
            ("--encrypt; --encryption_cipher <name>; --encryption_key <key>", ""),
        ),
    ),
    (
        "Common Options",
        (
            ("-h, --help", "show this text"),
            ("--help_tls", "show what a tls block can say"),
            ("-v, --version", "show the version"),
        ),
    ),
)

_TLS = """
A tls block names a certificate, its key, and what clients must bring:

    tls {
        cert_file: "server.pem"
        key_file: "server-key.pem"
        ca_file: "clients.pem"
        verify: true
        min_version: "1.2"
    }

"""


def usage(program: str) -> str:
    """
    Describe the command line.
    """
    lines = ["", f"Usage: {program} [options]", f"       {program} spark JOB [options]"]
    lines += [f"       {program} streaming import DIR [options]"]
    lines += [f"       {program} streaming acknowledge DIR"]
    lines += ["", f"'{program} spark --help' lists the jobs for Apache Spark."]
    lines += [f"'{program} streaming --help' tells how data of nats-streaming-server is imported."]
    for title, flags in _FLAGS:
        lines += ["", f"{title}:"]
        lines += [f"    {names:<36} {meaning}".rstrip() for names, meaning in flags]
    return "\n".join(lines) + "\n"


def tlsHelp() -> str:
    """
    Describe a C{tls} block and list the names that it may use.
    """
    from natsbroker.config.tls import CIPHER_SUITES, CURVES, INSECURE_CIPHER_SUITES

    groups = (
        ("Cipher suites:", CIPHER_SUITES),
        ("With allow_insecure_cipher_suites: true also:", INSECURE_CIPHER_SUITES),
        ("Curve preferences:", CURVES),
    )
    parts = ["\n".join([title, *(f"    {name}" for name in names)]) for title, names in groups]
    return _TLS + "\n\n".join(parts) + "\n"
