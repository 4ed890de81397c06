"""
The flags of the command line: nats-server's, and C{--pure}.

This module promises a table of names, kinds and the key of the configuration file that
each stands for.  It must never know what to do with a value.
"""

from __future__ import annotations

from dataclasses import dataclass

from natsbroker.config.goflags import FlagKind

__all__ = ["FLAGS", "KINDS", "Flag", "flagNamed"]


@dataclass(frozen=True, slots=True)
class Flag:
    """
    A flag.

    @ivar names: every spelling, without dashes; the last is used in messages.
    @ivar key: the dotted path of the key that it sets; empty when it sets none.
    """

    names: tuple[str, ...]
    kind: FlagKind
    key: str = ""

    @property
    def name(self) -> str:
        """
        The spelling for messages, with its dashes.
        """
        longest = self.names[-1]
        return f"--{longest}" if len(longest) > 3 else f"-{longest}"


def _flag(names: str, kind: FlagKind, key: str = "") -> Flag:
    return Flag(tuple(names.split()), kind, key)


_BOOLEAN, _INTEGER, _STRING = FlagKind.BOOLEAN, FlagKind.INTEGER, FlagKind.STRING

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

_BY_NAME = {name: flag for flag in FLAGS for name in flag.names}

KINDS = {name: flag.kind for name, flag in _BY_NAME.items()}
"""Spelling -> what it takes."""


def flagNamed(name: str) -> Flag:
    """
    Find a flag by one of its spellings.

    @raise KeyError: when there is none.
    """
    return _BY_NAME[name]
