"""
Archives that are tidied while somebody archives, and what is kept of them.
"""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest

from natsbroker.spark import cli
from natsbroker.spark.errors import DataLoss, DataSourceError, OptionError
from natsbroker.spark.jobs.archive import tidying
from natsbroker.spark.jobs.archive.archiver import ArchiveOrigin
from natsbroker.spark.jobs.archive.converting import export
from natsbroker.spark.jobs.archive.job import archive
from natsbroker.spark.jobs.archive.tidying import Housekeeper, expire
from natsbroker.spark.jobs.common import inline
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.snapshots import TableSnapshot
from natsbroker.spark.tables.table import ArchiveTable, tableAt
from tests.spark.support import BrokerStation
from tests.spark.tablecontract import LOG, forge, grow


@pytest.fixture
def table(tmp_path: Path) -> ArchiveTable:
    """A table with the sequences from 1 to 5, a file each."""
    lake = tableAt(tmp_path / "lake")
    lake.make()
    lake.create(TableSnapshot.first(LOG, 1))
    for stop in range(2, 7):
        assert grow(lake, stop)
    return lake


def checkpoint(directory: Path, following: int, identity: str = LOG.identity) -> Path:
    """The checkpoint of a query that has read up to a sequence."""
    for name in ("commits", "offsets"):
        (directory / name).mkdir(parents=True)
    (directory / "commits" / "0").write_text("v1\n{}")
    places = {LOG.name: {"created": identity, "seq": following}}
    offset = json.dumps({"v": 1, "logs": places})
    (directory / "offsets" / "0").write_text(f"v1\n{{}}\n{offset}")
    return directory


def keeper(table: ArchiveTable, said: list[str], after: int = 3, keep: float = 0.0) -> Housekeeper:
    """A housekeeper that does not ask for holds."""
    options = readOptions({"servers": "h", "stream": "S"})
    return Housekeeper(table, options, inline, said.append, after, keep)


class TestHousekeeper:
    """The work beside archiving."""

    def test_compacts(self, table: ArchiveTable) -> None:
        """Small files are compacted at the start, and after every three versions."""
        said: list[str] = []
        one = keeper(table, said)
        for stop, files in ((6, 1), (7, 2), (8, 3), (9, 1)):
            if stop > 6:
                assert grow(table, stop)
            one.look(table.require())
            one.finish()
            assert len(table.require().files) == files
        assert (one.compacted, said, one.failures) == (9, [], 0)

    def test_noNumberOfVersions(self, table: ArchiveTable) -> None:
        """With no number of versions nothing is done."""
        one = keeper(table, [], after=0)
        one.look(table.require())
        one.finish()
        assert len(table.require().files) == 5

    def test_failure(self, table: ArchiveTable) -> None:
        """A damaged file is reported and not compacted."""
        said: list[str] = []
        [first, *_] = table.require().files
        forge(table.directory / first.path, 1)
        one = keeper(table, said)
        one.look(table.require())
        one.finish()
        assert one.failures == 1
        assert "sequences 1 to 1: is not what was archived" in said[0]
        assert len(table.require().files) == 5


class TestNeeded:
    """Files that stay although they are old."""

    def test_checkpoint(self, table: ArchiveTable, tmp_path: Path) -> None:
        """
        Files that a query has not yet read are kept. If its checkpoint cannot be read, all are
        kept.
        """
        query = checkpoint(tmp_path / "query", 4)
        assert expire(table, 1.0, (str(query),)) == 3
        assert table.require().start == 4
        with pytest.raises(DataSourceError, match="there is no checkpoint"):
            expire(table, 1.0, (str(tmp_path / "none"),))
        other = checkpoint(tmp_path / "other", 9, "beef")
        with pytest.raises(OptionError, match="does not read the channel of the archive"):
            expire(table, 1.0, (str(other),))
        assert table.require().start == 4

    def test_hold(self, broker: BrokerStation, tmp_path: Path) -> None:
        """Files under a hold in the broker are kept."""
        name = broker.channel()
        root = str(tmp_path / "lake")
        given = {"servers": broker.url, "channel": name}
        for n in range(4):
            broker.fill(name, [b"%d" % n])
            archive(None, given, root)
        plain = tmp_path / "plain"
        export(ArchiveOrigin.of(root), plain, 10)
        broker.fill(name, [b"4"])
        archive(None, given, root)
        identity = tableAt(root).require().log.identity
        hold = {"name": "mine", "floor": 3, "seconds": 60, "identity": identity}
        broker.channels.call("HOLD", name, hold)
        time.sleep(0.01)
        command = ("vacuum", "--archive", root, "--keep", "1ms", "--servers", broker.url)
        for _ in range(2):
            out = io.StringIO()
            assert cli.main(command, out, io.StringIO()) == 0, out.getvalue()
        assert tableAt(root).require().start == 3
        assert export(ArchiveOrigin.of(root), plain, 10)["rows"] == 1
        assert cli.main(command[:-2], io.StringIO(), io.StringIO()) == 0
        assert tableAt(root).require().start == 6
        broker.fill(name, [b"5", b"6"])
        for _ in range(2):
            archive(None, given, root)
        broker.fill(name, [b"7"])
        archive(None, given, root)
        time.sleep(0.01)
        assert cli.main(command[:-2], io.StringIO(), io.StringIO()) == 0
        with pytest.raises(DataLoss, match="stops at 6, and the archive begins at 9"):
            export(ArchiveOrigin.of(root), plain, 10)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("vacuum", "--archive", "d", "--keep", "1d", "--dry-run"), "exclude each other"),
        (("vacuum", "--archive", "d", "--needed-by", "c"), "needs --keep"),
        (("vacuum", "--archive", "d", "--keep", "month"), "--keep"),
        (
            ("archive", "--servers", "h", "--stream", "S", "--to", "d", "--keep", "1d"),
            "--keep needs --every",
        ),
        (
            ("archive", "--servers", "h", "--stream", "S", "--to", "d", "--needed-by", "c"),
            "--needed-by needs --keep",
        ),
    ],
)
def test_usageErrors(arguments: tuple[str, ...], text: str) -> None:
    """A wrong command line says why."""
    err = io.StringIO()
    assert cli.main(arguments, io.StringIO(), err) == 2
    assert text in err.getvalue()
    assert tidying.AGE == 86400
