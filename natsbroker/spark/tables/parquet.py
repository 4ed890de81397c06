"""
Archives of Parquet files alone, with manifests of our own.

C{_nb/} has one manifest for each version, which describes the whole archive. The one with the
highest number holds.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from natsbroker.files import syncDirectory
from natsbroker.spark.tables.manifests import Manifest, TableError
from natsbroker.spark.tables.table import ArchiveTable, Vacuumed, deleted, failed

__all__ = ["ParquetTable"]

_VERSION = re.compile(r"(\d{10})\.json")


class ParquetTable(ArchiveTable):
    """
    An archive with manifests of its own.

    @ivar versionsAt: the directory of these.
    """

    form = "parquet"

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.versionsAt = self.root / "_nb"

    def make(self) -> None:
        super().make()
        try:
            self.versionsAt.mkdir(exist_ok=True)
        except OSError as error:
            raise failed(self.root, error) from None

    def versions(self) -> list[int]:
        try:
            names = os.listdir(self.versionsAt)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise failed(self.root, error) from None
        found = (_VERSION.fullmatch(each) for each in names)
        return sorted(int(each[1]) for each in found if each is not None)

    def latest(self) -> Manifest | None:
        while versions := self.versions():
            try:
                return self.version(versions[-1])
            except FileNotFoundError:
                continue  # Somebody vacuums, and there is a later one.
        return None

    def version(self, number: int) -> Manifest:
        """
        One version.

        @raise FileNotFoundError: if it is not there.
        """
        path = self.pathOf(number)
        try:
            manifest = Manifest.read(path.read_bytes())
        except FileNotFoundError:
            raise
        except OSError as error:
            raise failed(path, error) from None
        except TableError as error:
            raise TableError(f"{path}: {error}") from None
        if manifest.version != number:
            raise TableError(f"{path}: is version {manifest.version}")
        return manifest

    def pathOf(self, version: int) -> Path:
        return self.versionsAt / f"{version:010}.json"

    def commit(self, manifest: Manifest) -> bool:
        manifest.check()
        return self.put(self.pathOf(manifest.version).name, manifest.dumped())

    def put(self, name: str, data: bytes) -> bool:
        """
        Have a file beside the versions, whole and for good.

        @return: whether it is this one: not if somebody else has made one of that name.
        """
        draft = self.versionsAt / f".{secrets.token_hex(8)}.tmp"
        try:
            try:
                with open(draft, "xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(draft, self.versionsAt / name)
            except FileExistsError:
                return False
            finally:
                draft.unlink(missing_ok=True)
            syncDirectory(self.versionsAt)
        except OSError as error:
            raise failed(self.root, error) from None
        return True

    def vacuum(self, age: float, now: Callable[[], float], isDryRun: bool) -> Vacuumed:
        """
        Delete old manifests, and files that only they name or none.
        """
        self.require()
        oldest = now() - age
        kept, old = self._divided(self.versions(), oldest)
        named = {path for version in kept for path in self.version(version).paths}
        drafts = [each for each in self.versionsAt.iterdir() if each.name.endswith(".tmp")]
        files = (each for each in (self.root / "data").rglob("*") if each.is_file())
        data = [each for each in files if str(each.relative_to(self.root)) not in named]
        for each in [] if isDryRun else [self.pathOf(version) for version in old]:
            each.unlink(missing_ok=True)
        return replace(deleted(drafts + data, oldest, isDryRun), versions=len(old))

    def _divided(self, versions: Sequence[int], oldest: float) -> tuple[list[int], list[int]]:
        old: list[int] = []
        for version, following in pairwise(versions):
            if self.version(following).written >= oldest:
                break
            old.append(version)
        return list(versions[len(old) :]), old
