"""
All problems of a configuration, each with its place. C{-t} stops at the first, as nats-server does.
Here a wrong key counts as missing, and the rest is still checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from natsbroker.accounts.importchecks import problems as exchangeProblems
from natsbroker.auth.defaultauthorizer import loginsIn
from natsbroker.config.addresses import joined
from natsbroker.config.errors import ConfigError, ConfigErrors, oneLine
from natsbroker.config.files import readText
from natsbroker.config.model import Settings
from natsbroker.jetstream.composition import storeDirectory
from natsbroker.leafnodes.remote import credentialsIn
from natsbroker.server.configtest import folderProblem, referenceProblems
from natsbroker.server.configuration.build import Built, inspectFile
from natsbroker.server.kinds import KINDS
from natsbroker.server.risks import keyIn, openListeners, risksIn

_EVERYWHERE = {"0.0.0.0", "::"}

_LOCAL = {"localhost": "127.0.0.1"}

ERROR, WARNING = "error", "warning"

_LOGINS = (
    *("authorization", "accounts", "no_auth_user", "operator", "trusted_keys"),
    *("websocket", "mqtt"),
)
"""The keys that say who may connect."""


@dataclass(frozen=True, order=True)
class ConfigurationProblem:
    """
    @ivar line: 1 for the first; 0 when the problem belongs to no line.
    @ivar level: C{error} if it prevents a start, or will fail later; otherwise C{warning}.
    @ivar key: a dotted path; empty for an error of the syntax.
    """

    file: str
    line: int
    column: int
    level: str
    key: str
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        warning = "warning: " if self.level == WARNING else ""
        return f"{place}: {warning}{self.text}"


@dataclass(frozen=True)
class ConfigurationReport:
    configuration: str
    problems: list[ConfigurationProblem] = field(default_factory=list)

    @property
    def isFine(self) -> bool:
        return not self.problems

    @property
    def isRight(self) -> bool:
        return not any(problem.level == ERROR for problem in self.problems)

    def toJSON(self) -> dict[str, Any]:
        return {"fine": self.isFine, **asdict(self)}

    def lines(self) -> Iterator[str]:
        yield from map(str, self.problems)
        counts = [
            f"{count} {level}{'' if count == 1 else 's'}"
            for level in (ERROR, WARNING)
            if (count := sum(problem.level == level for problem in self.problems))
        ]
        yield f"{self.configuration}: {', '.join(counts) or 'nothing is wrong'}"


def configurationReport(path: str, environment: Mapping[str, str]) -> ConfigurationReport:
    readText(path)
    try:
        built = inspectFile(path, environment)
    except ConfigErrors as failure:
        return ConfigurationReport(path, [_written(error, path) for error in failure.errors])
    problems = [_written(problem, path) for problem in (*built.errors, *built.warnings)]
    problems += _Inspection(path, built).problems()
    return ConfigurationReport(path, sorted(problems))


def _written(error: ConfigError, path: str) -> ConfigurationProblem:
    position = error.position
    return ConfigurationProblem(
        position.source or path,
        position.line,
        position.column,
        ERROR,
        error.path,
        oneLine(error.describe()),
    )


class _Inspection:
    def __init__(self, path: str, built: Built) -> None:
        self._path = path
        self._settings = built.settings
        self._wrong = [error.path for error in built.errors]

    def problems(self) -> Iterator[ConfigurationProblem]:
        settings = self._settings
        for key, error in referenceProblems(settings, self._isWrong):
            yield from self._problem(ERROR, key, str(error))
        for problems in (
            _exchangeProblems(settings),
            _fileProblems(settings),
            _portProblems(settings),
        ):
            for key, text in problems:
                yield from self._problem(ERROR, key, text)
        for key, text in risksIn(settings):
            yield from self._problem(WARNING, key, text)
        try:
            required = loginsIn(settings).isRequired
        except ValueError as error:
            yield from self._problem(ERROR, "accounts", str(error))
            return
        if not self._isWrong(*_LOGINS):
            for key, text in openListeners(settings, required):
                yield from self._problem(WARNING, key, text)

    def _problem(self, level: str, key: str, text: str) -> Iterator[ConfigurationProblem]:
        """
        A problem of a key; none if the key is reported already, or its value comes from one that
        is.
        """
        if self._isWrong(key):
            return
        place = self._placeOf(key)
        text = text.removeprefix(f"{place}: ")
        file, line, column = place.rsplit(":", 2) if place else (self._path, "0", "0")
        if not text.startswith(f"{key}:"):
            text = f"{key}: {text}"
        yield ConfigurationProblem(file, int(line), int(column), level, key, oneLine(text))

    def _isWrong(self, *keys: str) -> bool:
        return any(
            path == key or path.startswith((f"{key}.", f"{key}["))
            for path in self._wrong
            for key in keys
        )

    def _placeOf(self, key: str) -> str:
        """The place of a key, or of the closest block around it that the file has."""
        while key and key not in self._settings.places:
            key = key.rpartition(".")[0]
        return self._settings.places.get(key, "")


_Found = Iterator[tuple[str, str]]


def _exchangeProblems(settings: Settings) -> _Found:
    for problem in exchangeProblems(settings.accounts, not settings.no_system_account):
        yield f"accounts.{problem.account}.{problem.part}", problem.message


def _fileProblems(settings: Settings) -> _Found:
    for key, path, problemOf in _paths(settings):
        problem = problemOf(path) if path else ""
        if problem:
            yield key, problem


def _paths(settings: Settings) -> Iterator[tuple[str, str, Callable[[str], str]]]:
    """
    Files and folders, apart from those that C{-t} checks, each with the function that finds its
    problem.
    """
    resolver, jetstream = settings.operator.resolver, settings.jetstream
    yield "logfile", settings.logging.logfile, fileProblem
    yield "pidfile", settings.pidfile, fileProblem
    yield "ports_file_dir", settings.ports_file_dir, folderProblem
    if resolver is not None:
        yield "resolver.dir", resolver.dir, folderProblem
    if jetstream.enabled and jetstream.backend == "lmdb":
        own = jetstream.backend_options.get("dir")
        name = "store_dir" if "store_dir" in settings.places else "jetstream.store_dir"
        key = "jetstream.backend_options" if own else name
        yield key, str(own or storeDirectory(jetstream)), folderProblem
    leafnodes = settings.leafnodes
    for index, remote in enumerate(() if leafnodes is None else leafnodes.remotes):
        key = f"leafnodes.remotes[{index}].credentials"
        yield key, remote.credentials, _credentialProblem


def fileProblem(path: str) -> str:
    file = Path(path).absolute()
    if file.is_dir():
        return f"{path} is a folder"
    if file.exists():
        return "" if os.access(file, os.W_OK) else f"{path} cannot be written to"
    if not file.parent.exists():
        return f"there is no folder {file.parent}"
    return folderProblem(str(file.parent))


def _credentialProblem(path: str) -> str:
    try:
        credentialsIn(path)
    except ValueError as error:
        return str(error)
    return ""


class _PortUse(NamedTuple):
    who: str
    keys: tuple[str, ...]
    host: str
    port: int

    def keyIn(self, settings: Settings) -> str:
        return keyIn(settings, *self.keys)

    @property
    def where(self) -> str:
        return joined(self.host, self.port)

    def collides(self, other: _PortUse) -> bool:
        hosts = {_LOCAL.get(use.host, use.host) for use in (self, other)}
        return self.port == other.port and (len(hosts) == 1 or bool(hosts & _EVERYWHERE))


def _listeners(settings: Settings) -> Iterator[_PortUse]:
    streaming, pages = settings.streaming, settings.monitoring
    if streaming is None or not streaming.nats_server:
        yield _PortUse("clients", ("port", "listen"), settings.host, settings.port)
    host = pages.http_host
    yield _PortUse("the monitoring pages", ("http_port", "http"), host, pages.http_port)
    yield _PortUse("the monitoring pages", ("https_port", "https"), host, pages.https_port)
    for kind in KINDS:
        block = getattr(settings, kind.key)
        if block is not None:
            keys = (f"{kind.key}.port", f"{kind.key}.listen", kind.key)
            yield _PortUse(kind.key, keys, block.host, block.port)


def _portProblems(settings: Settings) -> _Found:
    if problem := settings.monitoring.portProblem(settings.tls is not None):
        yield keyIn(settings, "https_port", "https"), problem
    taken = [listener for listener in _listeners(settings) if listener.port > 0]
    for first, second in combinations(taken, 2):
        if first.collides(second):
            yield second.keyIn(settings), f"{second.where} collides with the port of {first.who}"
