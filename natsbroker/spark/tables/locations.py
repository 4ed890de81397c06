"""The location of a table: a directory, or a prefix in an object store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from natsbroker.spark.tables.snapshots import TableError

#: The stores that deltalake knows, whose way of logging in is theirs.
SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")

_PIECE = 1 << 20


@lru_cache
def filesystemOf(url: str) -> Any:
    from deltalake.fs import DeltaStorageHandler

    # The same store, credentials and settings as those of the table's log.
    return pafs.PyFileSystem(DeltaStorageHandler(url))


@dataclass(frozen=True)
class ObjectPath:
    """
    An object, or a prefix, with the part of C{Path} that tables need. Content is stored when the
    writer is closed.

    @ivar root: the URL of the table or of a directory of tables.
    """

    root: str
    name: str = ""

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(self.root, f"{self.name}/{name}" if self.name else name)

    def __str__(self) -> str:
        return f"{self.root}/{self.name}" if self.name else self.root

    def exists(self) -> bool:
        filesystem = filesystemOf(self.root)
        chosen = pafs.FileSelector(self.name, allow_not_found=True)
        isFile = filesystem.get_file_info(self.name).type != pafs.FileType.NotFound
        return isFile or bool(filesystem.get_file_info(chosen))

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object. Some stores do not report that there was none."""
        try:
            filesystemOf(self.root).delete_file(self.name)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def read_text(self, encoding: str) -> str:
        with filesystemOf(self.root).open_input_file(self.name) as source:
            return bytes(source.read()).decode(encoding)

    def write_text(self, text: str, encoding: str) -> None:
        stream = filesystemOf(self.root).open_output_stream(self.name)
        with ObjectOutput(stream) as sink:
            sink.write(text.encode(encoding))


class ObjectOutput(pa.BufferedOutputStream):
    """
    Writes to an object in pieces of twice its buffer's size. Arrow passes on larger ones in a form
    that the stream of deltalake does not take.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream, 2 * _PIECE)

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            super().write(view[start : start + _PIECE])
        return len(view)


Location = Path | ObjectPath


def locationOf(text: str | os.PathLike[str] | ObjectPath) -> Location:
    if isinstance(text, ObjectPath):
        return text
    spelled = os.fspath(text)
    spelled = spelled[7:] if spelled.startswith("file:///") else spelled
    match = re.match(r"([a-zA-Z][\w+.-]*):/", spelled)
    if match is None:
        return Path(spelled).absolute()
    if match[1].lower() not in SCHEMES:
        raise TableError(f"{spelled}: a directory, or {', '.join(f'{x}://' for x in SCHEMES)}")
    return ObjectPath(spelled.rstrip("/"))


def directoryOf(text: str | os.PathLike[str] | ObjectPath) -> Path:
    place = locationOf(text)
    if isinstance(place, ObjectPath):
        raise TableError(f"{place}: only directories of mounted file systems are supported here")
    return place


def opened(place: Location) -> tuple[Any, str]:
    """The Arrow filesystem that has a place, and the place's name there."""
    if isinstance(place, ObjectPath):
        return filesystemOf(place.root), place.name
    return pafs.LocalFileSystem(), str(place)


def sizeOf(place: Location) -> int:
    filesystem, name = opened(place)
    return filesystem.get_file_info(name).size or 0


def filesBelow(place: Location, folder: str) -> Iterator[tuple[str, float, int]]:
    """The path below a place, time and size of each file in a directory tree."""
    filesystem, name = opened(place)
    above = f"{name}/" if name else ""
    chosen = pafs.FileSelector(f"{above}{folder}", allow_not_found=True, recursive=True)
    for info in filesystem.get_file_info(chosen):
        if info.type == pafs.FileType.File:
            yield info.path.removeprefix(above), info.mtime.timestamp(), info.size or 0


def parquetFile(place: Location) -> Any:
    """A Parquet file that is read with the checksums of its pages, if it has any."""
    filesystem, name = opened(place)
    return pq.ParquetFile(name, filesystem=filesystem, page_checksum_verification=True)
