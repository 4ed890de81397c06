"""
Tests for L{natsbroker.config.flags}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.flags import FLAGS, KINDS, flagNamed
from natsbroker.config.goflags import FlagKind
from natsbroker.config.schema import ROOT

SPELLINGS = """
    a addr net p port n name server_name P pid m http_port ms https_port c config t sl signal
    client_advertise ports_file_dir l log T logtime s syslog r remote_syslog D debug V trace VV DV
    DVV log_size_limit max_traced_msg_len js jetstream sd store_dir user pass auth tls tlsverify
    tlscert tlskey tlscacert routes cluster cluster_name no_advertise cluster_advertise
    connect_retries cluster_listen profile h help help_tls v version logtime_utc pure
"""
"""Every flag of nats-server 2.15, and C{pure}."""


def test_spellings() -> None:
    """Exactly nats-server's flags are known, and ours."""
    assert sorted(KINDS) == sorted(SPELLINGS.split())


def test_oneMeaning() -> None:
    """No spelling stands for two flags."""
    assert sum(len(flag.names) for flag in FLAGS) == len(KINDS)


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
        FlagKind.INTEGER,
        FlagKind.BOOLEAN,
        FlagKind.STRING,
    )


def test_keys() -> None:
    """The key that a flag stands for is one of the configuration file."""
    for flag in FLAGS:
        first = flag.key.partition(".")[0]
        assert not first or ROOT.canonical(first) == first
