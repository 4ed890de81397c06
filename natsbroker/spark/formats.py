"""
Which format an archive has, and what provides it.

Promises: an archive that is there is opened as what it is; libraries of a format are loaded when
one is opened, and their absence is told with the extra that brings them.
Must never know: how a format keeps its manifest.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from natsbroker.spark.errors import OptionError
from natsbroker.spark.tables import Table, rootOf

__all__ = ["FORMATS", "formOf", "tableAt"]

#: The module and class of each format, and what tells that a directory has it.
_PROVIDERS = {
    "parquet": ("natsbroker.spark.parquettable", "ParquetTable", "_nb"),
}

FORMATS = tuple(_PROVIDERS)


def formOf(root: Path) -> str:
    """
    The format of the archive in a directory; empty if there is none.
    """
    found = [form for form, (_, _, mark) in _PROVIDERS.items() if (root / mark).exists()]
    return found[0] if found else ""


def tableAt(place: str | os.PathLike[str], form: str = "") -> Table:
    """
    The archive in a directory.

    @param form: its format; empty: that of the archive that is there, C{parquet} if none is.
    @raise OptionError: if it has another one, or a library is missing.
    @raise TableError: if it is no directory of a file system that is mounted here.
    """
    root = rootOf(place)
    there = formOf(root)
    if form and there and form != there:
        raise OptionError(f"{root} is an archive of the format {there}, not {form}")
    module, name, _ = _PROVIDERS[form or there or "parquet"]
    try:
        provider = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("natsbroker"):
            raise
        extra = form or there
        raise OptionError(f"format {extra}: pip install 'natsbroker[{extra}]'") from None
    table: Table = provider(root)
    return table
