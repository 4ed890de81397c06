"""The files of a process: pid file, ports file, and the configuration file that a reload reads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from twisted.application.service import Service
from twisted.logger import Logger

from natsbroker.broker import Broker
from natsbroker.config.diff import Change
from natsbroker.config.errors import ConfigError
from natsbroker.config.model import Settings
from natsbroker.errors import BrokerError
from natsbroker.files import replaceFile
from natsbroker.runtime.failures import StartError
from natsbroker.runtime.reload import ReloadError, Step

_log = Logger(namespace="natsbroker")


class ProcessFiles(Service):
    name = "process-files"

    def __init__(
        self,
        broker: Broker,
        program: str,
        read: Callable[[], Settings] | None = None,
        pid: int | None = None,
    ) -> None:
        self._broker = broker
        self._program = program
        self._read = read
        self._pid = pid or 0
        self._pidFile: PidFile | None = None
        self._portsFile: PortsFile | None = None
        broker.addPlanner(self._plan)

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        # Not earlier: twistd forks after it has made a service, before it starts the service.
        self._pid = self._pid or os.getpid()
        settings = self._broker.settings
        if settings.pidfile:
            self._pidFile = PidFile(settings.pidfile, self._pid)
            try:
                self._pidFile.write()
            except OSError as error:
                why = f"Could not write pidfile: {_goText(error)}"
                raise StartError(settings.placed("pidfile", why)) from error
        self._broker.whenReady().addCallbacks(
            lambda _: self._writePorts(self._broker.settings.ports_file_dir), lambda failure: None
        )

    def _writePorts(self, directory: str) -> None:
        if not directory or not self.running:
            return
        self._portsFile = PortsFile(directory, self._program, self._pid)
        try:
            self._portsFile.write(self._broker.addresses())
        except OSError as error:
            why = f"Error writing ports file ({self._portsFile.path}): {_goText(error)}"
            settings = self._broker.settings
            _log.error("{why}", why=settings.placed("ports_file_dir", why))

    def stopService(self) -> None:
        super().stopService()  # type: ignore[no-untyped-call]
        for file in (self._pidFile, self._portsFile):
            if file is not None:
                file.remove()

    def reload(self) -> list[str]:
        """Reload the configuration; return and log the problems that prevent it."""
        try:
            if self._read is None:
                raise BrokerError(
                    "can only reload config when a file is provided using -c or --config"
                )
            self._broker.reload(self._read())
        except ReloadError as refused:
            return self._refuse(refused.problems)
        except (BrokerError, ConfigError) as error:
            return self._refuse(str(error).splitlines())
        return []

    def _refuse(self, problems: Iterable[str]) -> list[str]:
        problems = list(problems)
        for problem in problems:
            _log.error("Failed to reload server configuration: {problem}", problem=problem)
        return problems

    def _plan(self, new: Settings, changes: Sequence[Change]) -> Step:
        changed = {change.path for change in changes}

        def apply() -> None:
            if "pidfile" in changed:
                self._movePidFile(new.pidfile)
            if "ports_file_dir" in changed:
                if self._portsFile is not None:
                    self._portsFile.remove()
                self._writePorts(new.ports_file_dir)

        return apply

    def _movePidFile(self, path: str) -> None:
        if self._pidFile is not None:
            self._pidFile.remove()
        self._pidFile = PidFile(path, self._pid) if path else None
        try:
            if self._pidFile is not None:
                self._pidFile.write()
        except OSError as error:
            _log.error("Failed to write pidfile: {why}", why=_goText(error))


def _goText(error: OSError) -> str:
    return f"open {error.filename}: {(error.strerror or str(error)).lower()}"


def programName(path: str) -> str:
    name = os.path.basename(path)
    if name == "__main__.py":
        name = os.path.basename(os.path.dirname(path))
    return name or "natsbroker"


class PidFile:
    def __init__(self, path: str, pid: int) -> None:
        self.path = Path(path)
        self._text = str(pid)

    def write(self) -> None:
        _writeWhole(self.path, self._text)

    def remove(self) -> None:
        try:
            if self.path.read_text("ascii", "replace") == self._text:
                self.path.unlink()
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.error("Could not remove pidfile: {error}", error=error)


class PortsFile:
    def __init__(self, directory: str, program: str, pid: int) -> None:
        self.path = Path(directory) / f"{program}_{pid}.ports"

    def write(self, addresses: Mapping[str, Sequence[str]]) -> None:
        known = {name: list(urls) for name, urls in addresses.items() if urls}
        _writeWhole(self.path, json.dumps(known, separators=(",", ":")))

    def remove(self) -> None:
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            _log.error("Error cleaning up ports file {path}: {e}", path=self.path, e=error)


def _writeWhole(path: Path, text: str) -> None:
    try:
        if path.exists() and not path.is_file():
            path.write_text(text)
        else:
            replaceFile(path, lambda draft: draft.write_text(text))
    except OSError as error:
        error.filename = str(path)
        raise
