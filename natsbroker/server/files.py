"""
The files that tell other programs about a running broker: its process id and its ports.

Promises: a reader never sees half a file; what was written is removed at the end, unless somebody
else's id stands in it by then.
Must never know: how ports come about.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from twisted.logger import Logger

__all__ = ["PidFile", "PortsFile", "programName"]

_log = Logger(namespace="natsbroker")


def programName(path: str) -> str:
    """
    The name of a program, as the ports file has it.

    @param path: the first argument of the process.
    """
    name = os.path.basename(path)
    if name == "__main__.py":
        name = os.path.basename(os.path.dirname(path))
    return name or "natsbroker"


class PidFile:
    """
    A file with a process id.
    """

    def __init__(self, path: str, pid: int) -> None:
        self.path = Path(path)
        self._text = str(pid)

    def write(self) -> None:
        """
        @raise OSError: if it cannot be written.
        """
        _writeWhole(self.path, self._text)

    def remove(self) -> None:
        """
        Remove it if it is still ours.
        """
        try:
            if self.path.read_text("ascii", "replace") == self._text:
                self.path.unlink()
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.error("Could not remove pidfile: {error}", error=error)


class PortsFile:
    """
    A file with the addresses of a process, by service, as JSON.
    """

    def __init__(self, directory: str, program: str, pid: int) -> None:
        """
        @param program: see L{programName}.
        """
        self.path = Path(directory) / f"{program}_{pid}.ports"

    def write(self, addresses: Mapping[str, Sequence[str]]) -> None:
        """
        @param addresses: URLs by the name of a service; services without any are left out.
        @raise OSError: if it cannot be written.
        """
        known = {name: list(urls) for name, urls in addresses.items() if urls}
        _writeWhole(self.path, json.dumps(known, separators=(",", ":")))

    def remove(self) -> None:
        """
        Remove it.
        """
        try:
            self.path.unlink()
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.error("Error cleaning up ports file {path}: {e}", path=self.path, e=error)


def _writeWhole(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text)
        else:
            partial.write_text(text)
            partial.replace(path)
    except OSError as error:
        error.filename = str(path)
        raise
