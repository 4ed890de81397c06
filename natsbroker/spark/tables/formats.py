"""
Which format an archive has, and what provides it.
"""

from __future__ import annotations

import importlib
import os

from natsbroker.spark.errors import OptionError
from natsbroker.spark.tables.locations import Location, ObjectPath, locationOf
from natsbroker.spark.tables.snapshots import TableError
from natsbroker.spark.tables.table import ArchiveTable

#: The module and class of each format, and what tells that a directory has it.
_PROVIDERS = {
    "delta": ("natsbroker.spark.tables.delta", "DeltaLakeTable", ("_delta_log",)),
    "iceberg": (
        "natsbroker.spark.tables.iceberg",
        "IcebergTable",
        ("catalog.db", "_nb_catalog.json"),
    ),
}

FORMATS = tuple(_PROVIDERS)

#: What an archive of Parquet files with manifests of our own has, as earlier versions made them.
FORMER = "_nb"


def formOf(root: Location) -> str:
    """
    The format of the archive in a directory; empty if there is none.
    """
    for form, (_, _, marks) in _PROVIDERS.items():
        if any((root / each).exists() for each in marks):
            return form
    if (root / FORMER).exists():
        raise TableError(
            f"{root} was made by an earlier version: natsbroker spark convert --archive {root}"
            " --to DIR makes a Delta table of it"
        )
    return ""


def tableAt(
    place: str | os.PathLike[str] | ObjectPath, form: str = "", catalog: str = ""
) -> ArchiveTable:
    """
    The archive in a directory.

    @param form: its format; empty: that of the archive that is there, C{delta} if none is.
    @param catalog: of an Iceberg table that is begun: C{CATALOG:NAMESPACE.TABLE}; empty for one of
        its own in the directory.
    """
    root = locationOf(place)
    there = formOf(root)
    if form and there and form != there:
        raise OptionError(f"{root} is an archive of the format {there}, not {form}")
    extra = form or there or ("iceberg" if catalog else "delta")
    module, name, _ = _PROVIDERS[extra]
    try:
        provider = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("natsbroker"):
            raise
        raise OptionError(f"format {extra}: pip install 'natsbroker[{extra}]'") from None
    if extra == "iceberg" and isinstance(root, ObjectPath):
        raise OptionError(f"{root}: an archive in an object store has the format delta")
    if catalog and extra != "iceberg":
        raise OptionError("catalog: only Iceberg tables are in one")
    table: ArchiveTable = provider(root, catalog) if catalog else provider(root)
    return table
