"""
Finding and opening stores.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker.interfaces import ILeasedStore, IStoreOpener, IStreamStore
from natsbroker.runtime.plugins import PluginError, Plugins
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.storage.stores import (
    LMDBOpener,
    MemoryOpener,
    PostgresOpener,
    monotonicOf,
    storeOpener,
    wallClockOf,
)
from natsbroker.testing.pumped import PumpedReactor
from tests.postgresql import PostgresServer


class Host:
    """The part of a host that an opener needs."""

    def __init__(self, reactor: Any) -> None:
        self.reactor = reactor


@implementer(IStoreOpener)
class Foreign:
    """The stores of another package."""

    name = "foreign"

    def openStore(self, host: Any, section: Any) -> Any:
        """Never called."""


class WallReactor:
    """A reactor whose clock is the wall clock."""

    seconds = staticmethod(time.time)


@pytest.mark.parametrize("opener", [MemoryOpener(), LMDBOpener(), PostgresOpener()])
def test_provides(opener: Any) -> None:
    """The built-in stores provide the same interface as those of plugins."""
    assert verifyObject(IStoreOpener, opener)


def test_memory() -> None:
    """A store in memory opens at once, with its configured size limit."""
    store: Any = MemoryOpener().openStore(Host(Clock()), {"max_size": 10}).result  # type: ignore[arg-type]
    assert verifyObject(IStreamStore, store)
    log = store.open("x").result
    assert log.append([(b"s", b"", b"x" * 100, 0)]).addErrback(str).result


def test_lmdb(tmp_path: Path) -> None:
    """A store on disk is made in its folder."""
    reactor = PumpedReactor()
    opening = LMDBOpener().openStore(Host(reactor), {"dir": str(tmp_path / "a" / "b")})  # type: ignore[arg-type]
    store = reactor.wait(opening)
    assert verifyObject(IStreamStore, store)
    reactor.wait(store.close())
    assert (tmp_path / "a" / "b" / "data.mdb").exists()


def test_encrypted(tmp_path: Path) -> None:
    """A store on disk may be encrypted."""
    reactor = PumpedReactor()
    section = {"dir": str(tmp_path / "a"), "encryption": Encryption("key")}
    reactor.wait(reactor.wait(LMDBOpener().openStore(Host(reactor), section)).close())  # type: ignore[arg-type]
    assert (tmp_path / "a" / "keys-0").exists()


@pytest.mark.parametrize(
    ("given", "isSynced"),
    [("Always", True), (0, True), (-1.5, True), ("0s", True), ("2m", False), (0.5, False)],
)
def test_interval(tmp_path: Path, given: object, isSynced: bool) -> None:
    """A time between syncs is a duration or seconds; acknowledged records wait for it."""
    reactor = PumpedReactor()
    section = {"dir": str(tmp_path / "a"), "sync_interval": given}
    store: Any = reactor.wait(LMDBOpener().openStore(Host(reactor), section))  # type: ignore[arg-type]
    others = list(reactor.getDelayedCalls())
    log = reactor.wait(store.open("x"))
    reactor.wait(log.append([(b"s", b"", b"x", 0)]))
    assert (reactor.getDelayedCalls() == others) is isSynced
    reactor.wait(store.close())


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"dir": ""},
        {"dir": 5},
        {"dir": "x", "max_size": -1},
        {"dir": "x", "y": 1},
        {"dir": "x", "sync_interval": "never"},
        {"dir": "x", "sync_interval": True},
        {"dir": "x", "encryption": "a key"},
    ],
)
def test_sections(section: dict[str, object]) -> None:
    """Options that make no sense are refused."""
    with pytest.raises(ValueError, match=r"dir|max_size|sync_interval|unknown|duration|encrypt"):
        LMDBOpener().openStore(Host(Clock()), section)  # type: ignore[arg-type]


def test_postgres(postgres: PostgresServer) -> None:
    """A store in a database is opened with nats-streaming-server's options and natsbroker's own."""
    reactor = PumpedReactor()
    schema = postgres.newSchema()
    section = {
        "driver": "postgres",
        "source": postgres.source,
        "max_open_conns": 5,
        "no_caching": True,
        "bulk_insert_limit": 100,
        "dir": "ignored",
        "schema": schema,
        "lease": "2s",
    }
    store: Any = reactor.wait(PostgresOpener().openStore(Host(reactor), section))  # type: ignore[arg-type]
    assert verifyObject(ILeasedStore, store)
    [left] = postgres.execute(schema, "SELECT extract(epoch FROM expires - now()) FROM holder")
    assert left[0] <= 2
    reactor.wait(store.close())
    assert postgres.execute(schema, "SELECT version FROM format") == [(1,)]
    postgres.execute(schema, f'DROP SCHEMA "{schema}" CASCADE')


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ({}, "needs source"),
        ({"source": 5}, "needs source"),
        ({"source": "x=y z"}, "not a connection string"),
        ({"driver": "mysql", "source": "host=x"}, 'driver "mysql" is not supported'),
        ({"max_open_conns": 2}, "max_open_conns must be at least 3"),
        ({"max_open_conns": True}, "max_open_conns must be at least 3"),
        ({"schema": ""}, "cannot be the name of a schema"),
        ({"schema": "x" * 64}, "cannot be the name of a schema"),
        ({"schema": 1}, "schema must be a name"),
        ({"lease": "0.1s"}, "is not between 0.5 and 3600"),
        ({"lease": "5"}, "missing unit in duration"),
        ({"lease": None}, "lease must be a duration"),
        ({"max_size": 5}, 'unknown option "max_size"'),
    ],
)
def test_databaseSections(section: dict[str, object], why: str) -> None:
    """Options of a database that make no sense are refused, before anything is connected to."""
    section = {"source": "host=nowhere", **section} if section else {}
    with pytest.raises(ValueError, match=re.escape(why)):
        PostgresOpener().openStore(Host(Clock()), section)  # type: ignore[arg-type]


def test_withoutPsycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library is missing, the error says how to install it."""
    monkeypatch.setitem(sys.modules, "natsbroker.storage.postgres.connecting", None)
    with pytest.raises(ValueError, match=r"pip install natsbroker\[postgres\]"):
        PostgresOpener().openStore(Host(Clock()), {"source": "host=nowhere"})  # type: ignore[arg-type]


def test_storeOpener() -> None:
    """A store opener is found by its name, built-in or from a plugin."""
    plugins = Plugins(lambda interface: [Foreign()])
    assert storeOpener("memory", plugins).name == "memory"
    assert storeOpener("lmdb", plugins).name == "lmdb"
    assert storeOpener("postgres", plugins).name == "postgres"
    assert isinstance(storeOpener("foreign", plugins), Foreign)
    with pytest.raises(PluginError, match='no IStoreOpener named "other"'):
        storeOpener("other", plugins)


def test_clocks() -> None:
    """
    A reactor that goes by the wall clock is given a clock that cannot be set; a test's reactor is
    asked for both times.
    """
    assert monotonicOf(WallReactor) is time.monotonic
    assert wallClockOf(WallReactor) is time.time_ns
    clock = Clock()
    clock.advance(2)
    assert (monotonicOf(clock)(), wallClockOf(clock)()) == (2, 2_000_000_000)
