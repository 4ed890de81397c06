"""
What C{--help} and C{--help_tls} print.

This module promises text for a person.  It must never know how flags are read.
"""

from __future__ import annotations

from natsbroker.config.build_tls import CIPHER_SUITES, CURVES, INSECURE_CIPHER_SUITES

_FLAGS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Server Options",
        (
            ("-a, --addr, --net <host>", "address to listen on (default: 0.0.0.0)"),
            ("-p, --port <port>", "port for clients, -1 for a random one (default: 4222)"),
            ("-n, --name, --server_name <name>", "name of the server (default: its id)"),
            ("-c, --config <file>", "configuration file"),
            ("-t", "check the configuration file and exit"),
            ("-P, --pid <file>", "file to write the process id to"),
            ("--ports_file_dir <dir>", "folder for the file that lists the ports in use"),
            ("-m, --http_port <port>", "port for HTTP monitoring, on loopback"),
            ("-ms, --https_port <port>", "port for HTTPS monitoring, on loopback"),
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
        "Known, and refused until their feature is there",
        (
            ("-s, --syslog; -r, --remote_syslog <url>", ""),
            ("-js, --jetstream; -sd, --store_dir <dir>", ""),
            ("--routes <urls>; --cluster, --cluster_listen <url>", ""),
            ("--cluster_name <name>; --cluster_advertise <host:port>", ""),
            ("--no_advertise; --connect_retries <number>", ""),
            ("--profile <port>", ""),
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
    lines = ["", f"Usage: {program} [options]"]
    for title, flags in _FLAGS:
        lines += ["", f"{title}:"]
        lines += [f"    {names:<36} {meaning}".rstrip() for names, meaning in flags]
    return "\n".join(lines) + "\n"


def tlsHelp() -> str:
    """
    Describe a C{tls} block and list the names that it may use.
    """
    groups = (
        ("Cipher suites:", CIPHER_SUITES),
        ("With allow_insecure_cipher_suites: true also:", INSECURE_CIPHER_SUITES),
        ("Curve preferences:", CURVES),
    )
    parts = ["\n".join([title, *(f"    {name}" for name in names)]) for title, names in groups]
    return _TLS + "\n\n".join(parts) + "\n"
