"""
The catalogs in which archives are that are Iceberg tables, and how their metadata gets on disk.
"""

from __future__ import annotations

import io
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT
from sqlalchemy import create_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.pool import NullPool

from natsbroker.files import syncDirectory
from natsbroker.spark.errors import OptionError
from natsbroker.spark.tables.locations import SCHEMES, Location, ObjectOutput, filesystemOf
from natsbroker.spark.tables.snapshots import TableError

#: The archive's own catalog, and the file that names another one.
MARKS = ("catalog.db", "_nb_catalog.json")

_OWN = "natsbroker"
_TABLE = "natsbroker.archive"

_WRITER = {"py-io-impl": f"{__name__}.SyncedFileIO"}


class _SyncedStream(io.BufferedWriter):
    def close(self) -> None:
        if not self.closed:
            self.flush()
            os.fsync(self.fileno())
            super().close()
            syncDirectory(Path(str(self.name)).parent)


class _File(PyArrowFile):
    def create(self, overwrite: bool = False) -> Any:
        if self.location.partition(":")[0] in SCHEMES:
            return ObjectOutput(super().create(overwrite))
        path = Path(self._path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return _SyncedStream(io.FileIO(path, "w" if overwrite else "x"))


class SyncedFileIO(PyArrowFileIO):
    """
    Writes so that it stays, and reaches object stores as all that is not Iceberg's own does.
    """

    @staticmethod
    def parse_location(location: str, properties: Any = EMPTY_DICT) -> tuple[str, str, str]:
        scheme, host, path = PyArrowFileIO.parse_location(location, properties)
        return scheme, host, path.removeprefix(f"{host}/") if scheme in SCHEMES else path

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> Any:
        if scheme in SCHEMES:
            return filesystemOf(f"{scheme}://{netloc}")
        return super()._initialize_fs(scheme, netloc)

    def new_output(self, location: str) -> PyArrowFile:
        made = super().new_output(location)
        if location.startswith(("file:", "/")) or location.partition(":")[0] in SCHEMES:
            return _File(made.location, made._path, made._filesystem, made._buffer_size)
        return made


class IcebergLocation:
    def __init__(self, root: Location, catalog: str, identifier: str) -> None:
        """
        @param catalog: empty for the archive's own, which only directories have.
        """
        self.identifier = identifier
        self.location = f"file://{root}" if isinstance(root, Path) else str(root)
        self._root = root
        self._name = catalog
        self._catalog: Any = None

    def make(self) -> None:
        if self._name:
            said = {"catalog": self._name, "table": self.identifier}
            (self._root / MARKS[1]).write_text(json.dumps(said), "utf-8")
        namespace = self.identifier.rpartition(".")[0]
        with suppress(IntegrityError):  # Somebody else makes the same at the same moment.
            self._opened().create_namespace_if_not_exists(namespace)

    def catalog(self) -> Any:
        """
        @return: C{None} if it would have to be made.
        """
        if not self._name and not (self._root / MARKS[0]).exists():
            return None
        return self._opened()

    def _opened(self) -> Any:
        while self._catalog is None:
            try:
                self._catalog = load_catalog(self._name, **_WRITER) if self._name else self._own()
            except (IntegrityError, OperationalError) as error:
                # Somebody else makes the catalog's own tables at the same moment.
                if "already exists" not in str(error):
                    raise
        return self._catalog

    def _own(self) -> SqlCatalog:
        path = str(self._root / MARKS[0])
        uri = URL.create("sqlite", database=path, query={"timeout": "60"}).render_as_string()
        found = SqlCatalog(_OWN, uri=uri, warehouse=self.location, **_WRITER)
        # So that no file stays open between two questions.
        found.engine.dispose()
        found.engine = create_engine(uri, poolclass=NullPool)
        return found


def placeIn(root: Location, catalog: str) -> IcebergLocation:
    """
    @param catalog: C{CATALOG:NAMESPACE.TABLE}, or empty.
    """
    if re.search(r"[#?%]", str(root)):
        raise TableError(f"{root}: Iceberg has no names for files below #, ? and %")
    name, identifier = "", _TABLE
    try:
        said = json.loads((root / MARKS[1]).read_text("utf-8"))
        name, identifier = said["catalog"], said["table"]
        there = f"{name}:{identifier}"
    except FileNotFoundError:
        there = _OWN if (root / MARKS[0]).exists() else ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(f"{root / MARKS[1]}: makes no sense: {error}") from None
    if catalog:
        found = re.fullmatch(r"([^:]+):([^:.]+(?:\.[^:.]+)+)", catalog)
        if found is None:
            raise OptionError(f"catalog: CATALOG:NAMESPACE.TABLE expected, not {catalog!r}")
        if there and there != catalog:
            where = "in a catalog of its own" if there == _OWN else f"in the catalog {there}"
            raise OptionError(f"{root} is an archive {where}")
        name, identifier = found[1], found[2]
    if not name and not isinstance(root, Path):
        raise OptionError(
            f"{root}: an Iceberg table in an object store is in a catalog that makes its commits"
            " atomic: --catalog CATALOG:NAMESPACE.TABLE names it"
        )
    return IcebergLocation(root, name, identifier)


def nameOf(path: str, place: IcebergLocation) -> str:
    return path.removeprefix(f"{place.location}/").removeprefix("file://")
