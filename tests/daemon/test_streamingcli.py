"""
The command C{natsbroker streaming}.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from natsbroker.daemon import streamingcli as cli
from natsbroker.daemon.streamingcli import DONE, FAILED, NOT_DONE, USAGE
from natsbroker.storage.lmdb.reports import keep, unacknowledged
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.streaming.filestore.writer import StoreWriter, flip


class RunnableReactor(PumpedReactor):
    """
    A reactor that runs until it is stopped.

    @cvar turns: the number of turns after which a signal stops it, or C{None}.
    """

    turns: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self._isRunning = True
        self._begin: list[Callable[[], object]] = []
        self._stopping: list[Callable[[], Any]] = []

    def addSystemEventTrigger(self, phase: str, event: str, call: Callable[[], Any]) -> object:
        assert (phase, event) == ("before", "shutdown")
        self._stopping.append(call)
        return call

    def removeSystemEventTrigger(self, trigger: Any) -> None:
        self._stopping.remove(trigger)

    def callWhenRunning(self, call: Callable[[], object]) -> None:
        self._begin.append(call)

    def run(self) -> None:
        for begin in self._begin:
            begin()
        turns = 0
        while self._isRunning and turns != self.turns:
            self.turn()
            turns += 1
        for stop in self._stopping:
            self.wait(stop())

    def stop(self) -> None:
        self._isRunning = False


@pytest.fixture
def writer(tmp_path: Path) -> StoreWriter:
    """A directory with a channel of three messages and a durable subscription."""
    writer = StoreWriter(tmp_path / "stan")
    channel = writer.channel("orders")
    channel.messages(1, 3)
    channel.subscription(1, clientID="c", durableName="d", isDurable=True, lastSent=2)
    return writer


def ran(*arguments: str, **environment: str) -> tuple[int, dict[str, Any], str]:
    """The exit code, the last line of standard output as JSON, and standard error."""
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(arguments, environment, out, err, RunnableReactor())
    lines = out.getvalue().splitlines()
    return code, json.loads(lines[-1]) if lines else {}, err.getvalue()


def ranInto(
    writer: StoreWriter, *flags: str, **environment: str
) -> tuple[int, dict[str, Any], str]:
    """The results of an import into the store beside the directory."""
    store = ("--store", "file", "--dir", str(writer.root.parent / "store"))
    return ran("import", str(writer.root), *store, *flags, **environment)


def lastOf(directory: Path, channel: str, cluster: str = "test-cluster") -> int:
    """The last sequence of a channel in a store on disk."""
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, directory))
    last: int = reactor.wait(store.open(f"stan/{cluster}/{channel}", create=False)).bounds().last
    reactor.wait(store.close())
    return last


class TestCommandLine:
    """Command lines."""

    def test_help(self) -> None:
        """Help is printed on standard output."""
        for arguments in (["--help"], ["import", "--help"], ["import", "DIR", "-h"]):
            out = io.StringIO()
            assert cli.main(arguments, {}, out, io.StringIO()) == DONE
            assert out.getvalue().startswith("Usage: natsbroker streaming import DIR")

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["export", "x"], "there is no command 'export', only 'import'"),
            (["import"], "import needs the directory first"),
            (["import", "--check"], "import needs the directory first"),
            (["import", "x"], "a store that is not in memory"),
            (["import", "x", "--store", "memory"], "a store that is not in memory"),
            (["import", "x", "--store", "file"], "root directory must be specified"),
            (["import", "x", "--nonsense"], "flag provided but not defined: -nonsense"),
            (["import", "x", "--file_crc_poly", "many"], 'invalid value "many"'),
            (["import", "x", "-v"], "not understood: -v"),
        ],
    )
    def test_wrong_arguments(self, arguments: list[str], text: str) -> None:
        """An invalid command line ends with exit code 2 and the reason."""
        code, _, error = ran(*arguments)
        assert (code, text in error) == (USAGE, True), error

    def test_nothing_given(self) -> None:
        """Without arguments the help is printed, with the exit code of an invalid command line."""
        assert cli.main([], {}, io.StringIO(), io.StringIO()) == USAGE


class TestImport:
    """Imports of a data directory."""

    def test_imports(self, writer: StoreWriter) -> None:
        """An import copies the channels to the store, and a second import finds nothing new."""
        figures = {
            "channels": 1, "messages": 3, "subscriptions": 1, "clients": 0, "damaged": 0,
        }  # fmt: skip
        code, output, error = ranInto(writer)
        assert (code, output) == (
            DONE, {"imported": True, "already": False, "written": 3, **figures},
        )  # fmt: skip
        assert error == "orders: 3 messages, 1 to 3, 1 subscriptions\n"
        assert lastOf(writer.root.parent / "store", "orders") == 3
        code, output, _ = ranInto(writer)
        assert (code, output["already"], output["written"]) == (DONE, True, 0)

    def test_configurationFile(self, writer: StoreWriter) -> None:
        """Store, cluster and limits may come from a configuration file."""
        writer = StoreWriter(writer.root.parent / "other", "production")
        writer.channel("orders").messages(1, 9)
        directory = writer.root.parent / "store"
        file = writer.root.parent / "broker.conf"
        file.write_text(
            f'streaming {{ id: production, store: file, dir: "{directory}",'
            " store_limits { max_msgs: 4 } }"
        )
        code, output, _ = ran("import", str(writer.root), "-c", str(file))
        assert (code, output["written"]) == (DONE, 4)
        assert lastOf(directory, "orders", "production") == 9

    def test_limits(self, writer: StoreWriter) -> None:
        """The limits of an import are those of the flags."""
        code, output, _ = ranInto(writer, "-mm", "2")
        assert (code, output["messages"]) == (DONE, 2)

    def test_otherCluster(self, writer: StoreWriter) -> None:
        """An import is refused if the cluster of the directory is not that of the service."""
        code, _, error = ranInto(writer, "-cid", "production")
        assert code == NOT_DONE
        assert "is of cluster test-cluster, not production: import it with -cid" in error

    def test_check(self, writer: StoreWriter) -> None:
        """C{--check} needs no store and creates none."""
        code, output, _ = ran("import", str(writer.root), "--check")
        assert (code, output["messages"], output["imported"]) == (DONE, 3, False)

    def test_damage(self, writer: StoreWriter) -> None:
        """
        Damaged data stops the import before anything is written, unless the operator skips it.
        """
        flip(writer.root / "orders" / "msgs.1.dat", 16)
        code, output, error = ranInto(writer)
        assert (code, output["damaged"], output["imported"]) == (NOT_DONE, 1, False)
        assert "orders: message 1 is damaged" in error
        assert "1 damaged: nothing was imported (--skip_damaged imports the rest)" in error
        assert not (writer.root.parent / "store").exists()
        code, output, _ = ranInto(writer, "--skip_damaged")
        assert (code, output["written"], output["damaged"]) == (DONE, 2, 1)

    def test_key(self, writer: StoreWriter) -> None:
        """The key of an encrypted store is given by a flag or by the environment."""
        data = "01bb3abf2a0000000000000001d1b03dcdab04bb43d07d22f7c134fcb94e7304f95f8e1a28"
        writer.channel("vault").message(1, bytes.fromhex(data))
        code, _, error = ranInto(writer)
        assert (code, "vault: its messages are encrypted" in error) == (NOT_DONE, True)
        code, _, _ = ranInto(writer, "--check", NATS_STREAMING_ENCRYPTION_KEY="sample-key")
        assert code == DONE
        code, output, _ = ranInto(writer, "--encryption_key", "sample-key")
        assert (code, output["written"]) == (DONE, 4)

    def test_polynomial(self, tmp_path: Path) -> None:
        """The polynomial of the checksums can be given, as for the server."""
        from natsbroker.streaming.filestore.framing import checksumFor

        writer = StoreWriter(tmp_path / "stan", checksum=checksumFor(0x82608EDB))
        writer.channel("orders").messages(1, 3)
        assert ranInto(writer)[0] == NOT_DONE
        assert ranInto(writer, "--file_crc_poly", str(0x82608EDB))[0] == DONE

    def test_sameDirectory(self, writer: StoreWriter) -> None:
        """The store cannot be in the data directory."""
        code, _, error = ran(
            "import", str(writer.root), "--store", "file", "--dir", str(writer.root)
        )
        assert code == FAILED
        assert "is a data directory of nats-streaming-server and was not touched" in error

    def test_storeInUse(self, writer: StoreWriter) -> None:
        """An import into a store that another process uses fails at once."""
        reactor = PumpedReactor()
        store = reactor.wait(openLMDB(reactor, writer.root.parent / "store"))
        code, _, error = ranInto(writer)
        assert (code, "has the store in" in error) == (FAILED, True)
        reactor.wait(store.close())

    def test_storeOption(self, writer: StoreWriter) -> None:
        """An unknown option of the store is an error with its name."""
        code, _, error = ranInto(writer, "--sql_source", "x")
        assert (code, 'unknown option "source"' in error) == (FAILED, True)

    @pytest.mark.parametrize("turns", range(4))
    def test_interrupted(
        self, writer: StoreWriter, monkeypatch: pytest.MonkeyPatch, turns: int
    ) -> None:
        """A signal during the import closes the store, and the next import completes it."""
        monkeypatch.setattr(RunnableReactor, "turns", turns)
        code, _, error = ranInto(writer)
        assert (code, "interrupted: run it again to finish the import" in error) == (NOT_DONE, True)
        monkeypatch.setattr(RunnableReactor, "turns", None)
        code, output, _ = ranInto(writer)
        assert (code, output["already"]) == (DONE, False)
        assert lastOf(writer.root.parent / "store", "orders") == 3


class TestAcknowledge:
    """C{natsbroker streaming acknowledge}."""

    def test_acknowledges(self, tmp_path: Path) -> None:
        """An acknowledged loss is printed once and counts as known, and its report is kept."""
        reactor = PumpedReactor()
        store = reactor.wait(openLMDB(reactor, tmp_path))
        keep(tmp_path / "none", ["orders: 3 to 4 may be lost"])
        out, error = io.StringIO(), io.StringIO()
        assert cli.main(["acknowledge", str(tmp_path)], {}, out, error) == DONE
        assert "orders: 3 to 4 may be lost" in out.getvalue()
        assert unacknowledged(tmp_path) == []
        assert (tmp_path / "damaged-1" / "report.txt").exists()
        out = io.StringIO()
        assert cli.main(["acknowledge", str(tmp_path)], {}, out, error) == DONE
        assert out.getvalue() == f"{tmp_path}: nothing to acknowledge\n"
        reactor.wait(store.close())

    @pytest.mark.parametrize("arguments", [[], ["--dir", "x"], ["a", "b"], ["/nowhere"]])
    def test_wrongCommandLine(self, arguments: list[str]) -> None:
        """The error for a missing directory names the argument."""
        out, error = io.StringIO(), io.StringIO()
        assert cli.main(["acknowledge", *arguments], {}, out, error) == USAGE
        assert error.getvalue().startswith("natsbroker streaming: ")
        assert not out.getvalue()

    def test_cannotBeNoted(self, tmp_path: Path) -> None:
        """An acknowledgement that cannot be written fails."""
        (tmp_path / "STORE").write_bytes(b"")
        (tmp_path / "damaged-1").mkdir()
        out, error = io.StringIO(), io.StringIO()
        assert cli.main(["acknowledge", str(tmp_path)], {}, out, error) == FAILED
        assert "report.txt" in error.getvalue()
