"""
The console script: its output and its exit code.

The output of a running server is tested in tests/daemon/test_process.py.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from natsbroker import NATS_VERSION, __version__, main
from natsbroker.config.model import Settings
from natsbroker.connections import opensocket
from natsbroker.daemon import process as processModule
from natsbroker.daemon import processes
from natsbroker.daemon.processes import SignalError
from natsbroker.server.configuration import passedsockets
from tests.auth.operator.chain import Operator
from tests.interop.certificates import writeCertificates

#: A process id that the kernel gives nobody.
NOBODY = 2**22 + 1


class Process:
    """
    A replacement for the process that would run.

    @ivar made: the arguments of each process.
    """

    made: list[tuple[Any, ...]] = []
    code: int | OSError = 0

    def __init__(self, *arguments: Any) -> None:
        self.made.append(arguments)

    def run(self) -> int:
        if isinstance(self.code, OSError):
            raise self.code
        return self.code


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> type[Process]:
    """Run no server in these tests."""
    kind = type("Process", (Process,), {"made": []})
    monkeypatch.setattr(processModule, "ServerProcess", kind)
    monkeypatch.setattr(opensocket, "openSocket", lambda host, port: (host, port))
    return kind


def ran(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a command line."""
    stdout, stderr = io.StringIO(), io.StringIO()
    code = main.main(arguments, environment or {}, stdout, stderr)
    return code, stdout.getvalue(), stderr.getvalue()


def test_streaming() -> None:
    """C{natsbroker streaming} has a command line of its own."""
    code, out, _ = ran("streaming", "--help")
    assert (code, out.startswith("Usage: natsbroker streaming import DIR")) == (0, True)


@pytest.mark.parametrize(
    ("program", "isStreaming"),
    [
        ("/opt/bin/nats-streaming-server", True),
        ("/opt/bin/nats-server", False),
        ("natsbroker", False),
    ],
)
def test_name(
    program: str, isStreaming: bool, process: type[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command or link with nats-streaming-server's name serves NATS Streaming without a flag."""
    monkeypatch.setattr(sys, "argv", [program])
    with pytest.raises(SystemExit):
        main.run(["-p", "-1"])
    [(settings, *_)] = process.made
    assert (settings.streaming is not None) == isStreaming


def test_config() -> None:
    """C{natsbroker config schema} prints the schema of the configuration."""
    code, out, _ = ran("config", "schema")
    assert (code, "$defs" in out) == (0, True)


def test_completion() -> None:
    """C{natsbroker completion} prints a script that knows the Spark jobs."""
    code, out, _ = ran("completion", "bash")
    assert (code, "archive" in out) == (0, True)


class TestInformation:
    """Flags that only print."""

    @pytest.mark.parametrize("flag", ["-v", "--version", "version"])
    def test_version(self, flag: str) -> None:
        """The first line of C{--version} has the nats-server release that programs look for."""
        code, out, err = ran(flag)
        assert (code, err) == (0, "")
        assert out.splitlines() == [f"nats-server: v{NATS_VERSION}", f"natsbroker: v{__version__}"]

    @pytest.mark.parametrize("flag", ["-h", "--help", "help"])
    def test_help(self, flag: str) -> None:
        """The usage is printed."""
        code, out, _ = ran(flag)
        assert code == 0
        assert out.startswith("\nUsage: natsbroker ")
        assert "--ports_file_dir" in out

    def test_helpTLS(self) -> None:
        """The help about TLS is printed."""
        code, out, _ = ran("--help_tls")
        assert code == 0
        assert "TLS_AES_128_GCM_SHA256" in out

    def test_unknownFlag(self) -> None:
        """An unknown flag is reported with the usage, as nats-server does."""
        code, out, err = ran("--foo")
        assert (code, err) == (0, "nats-server: flag provided but not defined: -foo\n")
        assert "--ports_file_dir" in out

    def test_lastLine(self) -> None:
        """The error follows the usage, with a similar name."""
        both = io.StringIO()
        assert main.main(["--prot", "1"], {}, both, both) == 0
        last = both.getvalue().splitlines()[-1]
        assert last == "nats-server: flag provided but not defined: -prot, did you mean -port?"


class ClosedPipe(io.StringIO):
    """The writing end of a pipe without a reader."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_closedPipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    C{--help} into a closed pipe ends like other programs: with the code of SIGPIPE, and without a
    traceback.
    """
    with open(tmp_path / "pipe", "w") as pipe:
        monkeypatch.setattr(sys, "stdout", ClosedPipe(pipe.fileno()))
        with pytest.raises(SystemExit) as exited:
            main.run(["--help"])
    assert exited.value.code == 128 + signal.SIGPIPE


LOADING = """
import io, sys
from natsbroker.main import main
main(sys.argv[1:], {}, io.StringIO(), io.StringIO())
print(*sorted(sys.modules))
"""


def loadedBy(*arguments: str) -> set[str]:
    """The modules that a command line imports in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-c", LOADING, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


class TestLoading:
    """The modules that short commands import: neither Twisted nor the broker."""

    HEAVY = frozenset({"twisted", "zope.interface", "cryptography", "natsbroker.broker"})

    @pytest.mark.parametrize(
        "arguments",
        ["--version", "--help", "--signal ldm=1", "--foo", "completion zsh", "top --help"],
    )
    def test_noSettings(self, arguments: str) -> None:
        """The version, the usage and a signal do not import the settings."""
        loaded = loadedBy(*arguments.replace("=1", f"={NOBODY}").split())
        assert loaded & (self.HEAVY | {"natsbroker.config.model"}) == set()

    def test_check(self, tmp_path: Path) -> None:
        """C{-t} imports the settings, and of the rare blocks only those in the file."""
        path = tmp_path / "x.conf"
        path.write_text("port: 4222\ngateway { name: A }")
        loaded = loadedBy("-t", "-c", str(path))
        assert loaded & self.HEAVY == set()
        rare = {"accounts", "leafnodes", "routes", "streaming"}
        assert loaded & {f"natsbroker.{name}.reading" for name in rare} == set()
        assert "natsbroker.gateways.reading" in loaded


class TestChecking:
    """The flag -t, which checks a configuration."""

    def test_valid(self, tmp_path: Path) -> None:
        """C{-t} reports a valid file in nats-server's words."""
        path = tmp_path / "x.conf"
        path.write_text("port: 4222")
        code, out, err = ran("-t", "-c", str(path))
        assert (code, out) == (0, "")
        assert err.startswith(f"nats-server: configuration file {path} is valid (sha256:")

    def test_invalid(self, tmp_path: Path) -> None:
        """C{-t} reports each mistake with its position."""
        path = tmp_path / "x.conf"
        path.write_text("port: 4222\nbogus: 1")
        code, _, err = ran("-t", "-c", str(path))
        assert (code, err) == (1, f'nats-server: {path}:2:1: unknown field "bogus"\n')

    def test_workers(self, tmp_path: Path) -> None:
        """C{-t} reports a block that several workers cannot share, with its position."""
        path = tmp_path / "x.conf"
        path.write_text("workers: 2\nservices { traffic {} }")
        said = 'the service "traffic" does not say that it runs in several processes'
        text = f"nats-server: {path}:2:12: services.traffic: {said}; use one worker\n"
        code, _, err = ran("-t", "-c", str(path))
        assert (code, err) == (1, text)
        code, _, err = ran("-c", str(path))
        assert (code, err) == (1, text)

    def test_operators(self, tmp_path: Path) -> None:
        """C{-t} reports operators that cannot be served."""
        path = tmp_path / "x.conf"
        path.write_text(f"operator: {Operator().jwt()}")
        code, _, err = ran("-t", "-c", str(path))
        assert code == 1
        assert err == "nats-server: operators require an account resolver to be configured\n"

    def test_certificates(self, tmp_path: Path) -> None:
        """C{-t} reports a key of another certificate, with its position."""
        writeCertificates(tmp_path)
        path = tmp_path / "x.conf"
        files = f"cert_file: '{tmp_path}/server.pem', key_file: '{tmp_path}/client-key.pem'"
        path.write_text(f"port: 4222\ntls {{ {files} }}")
        code, _, err = ran("-t", "-c", str(path))
        assert code == 1
        assert err.startswith(f"nats-server: {path}:2:1: tls: key_file {tmp_path}/client-key.pem: ")

    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ("cluster {{ listen: '127.0.0.1:-1', tls {{ {files} }} }}", "35: cluster.tls"),
            ("leafnodes {{ listen: '127.0.0.1:-1', tls {{ {files} }} }}", "37: leafnodes.tls"),
            ("gateway {{ name: g, listen: '127.0.0.1:-1', tls {{ {files} }} }}", "44: gateway.tls"),
        ],
    )
    def test_linkCertificates(self, text: str, path: str, tmp_path: Path) -> None:
        """C{-t} reports a key of another certificate of a link, with its position."""
        writeCertificates(tmp_path)
        config = tmp_path / "x.conf"
        files = f"cert_file: '{tmp_path}/server.pem', key_file: '{tmp_path}/client-key.pem'"
        files += f", ca_file: '{tmp_path}/ca.pem'"
        config.write_text(text.format(files=files))
        code, _, err = ran("-t", "-c", str(config))
        assert code == 1
        assert err.startswith(f"nats-server: {config}:1:{path}: key_file {tmp_path}/client-key")

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("authorization { plugin: x }", "1:17: authorization.plugin: there is no"),
            ("router { plugin: x }", "1:10: router.plugin: there is no"),
            ("services { x { } }", "1:12: services.x: there is no"),
            (
                "gateway { name: g, listen: '127.0.0.1:-1', interest { plugin: x } }",
                "1:55: gateway.interest.plugin: there is no",
            ),
            ("streaming { store: x }", "1:13: streaming.store: there is no"),
            ("streaming { store: file, dir: FILE }", "1:26: streaming.dir: FILE is not a folder"),
            ("streaming { store: file, dir: FILE/a }", "1:26: streaming.dir: FILE is not a folder"),
        ],
    )
    def test_missingParts(self, text: str, told: str, tmp_path: Path) -> None:
        """C{-t} reports missing plugins and folders with their positions."""
        config = tmp_path / "x.conf"
        config.write_text(text.replace("FILE", str(config)))
        code, _, err = ran("-t", "-c", str(config))
        assert code == 1
        assert err.startswith(f"nats-server: {config}:" + told.replace("FILE", str(config)))

    def test_missing(self) -> None:
        """C{-t} requires a configuration file."""
        code, _, err = ran("-t")
        assert code == 1
        assert err.startswith("nats-server: must specify [-c, --config]")


class TestSignal:
    """The flag --signal."""

    def test_signalIsSent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The signal is sent to the named process."""
        sent: list[tuple[str, str]] = []
        monkeypatch.setattr(processes, "sendSignal", lambda *given: sent.append(given))
        assert ran("--signal", "ldm=42") == (0, "", "")
        assert sent == [("ldm", "42")]

    def test_pidFile(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The process may be named by its pid file."""
        sent: list[tuple[str, str]] = []
        monkeypatch.setattr(processes, "sendSignal", lambda *given: sent.append(given))
        path = tmp_path / "pid"
        path.write_text("43")
        assert ran("-sl", f"reload={path}")[0] == 0
        assert sent == [("reload", "43")]

    def test_unreachable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process that cannot be signalled is reported with exit code 1."""

        def fail(name: str, process: str) -> None:
            raise SignalError("no natsbroker processes running")

        monkeypatch.setattr(processes, "sendSignal", fail)
        assert ran("--signal", "stop") == (
            1,
            "",
            "nats-server: no natsbroker processes running\n",
        )

    @pytest.mark.parametrize("text", ["foo=1", "stop=abc"])
    def test_unknownSignal(self, text: str) -> None:
        """An unknown signal or an invalid process is refused."""
        assert ran("--signal", text)[0] == 1


class TestRunning:
    """A server that the console script runs."""

    def test_flags(self, process: type[Process]) -> None:
        """Flags set the settings."""
        assert ran("-a", "127.0.0.1", "-p", "-1", "-DV")[0] == 0
        [(settings, _, _, program, read, warnings, _, _)] = process.made
        assert (settings.host, settings.port) == ("127.0.0.1", -1)
        assert settings.logging.debug and settings.logging.trace
        assert (read, warnings) == (None, [])
        assert program

    def test_file(self, process: type[Process], tmp_path: Path) -> None:
        """
        The settings are read from the file, and again at a reload. Flags take precedence both
        times.
        """
        path = tmp_path / "x.conf"
        path.write_text("port: 5000\nmax_payload: $SIZE")
        assert ran("-c", str(path), "-p", "4000", environment={"SIZE": "7"})[0] == 0
        settings: Settings
        read: Callable[[], Settings]
        [(settings, _, _, _, read, *_)] = process.made
        assert (settings.port, settings.max_payload) == (4000, 7)
        path.write_text("port: 5001\nmax_payload: 8")
        assert (read().port, read().max_payload) == (4000, 8)

    @pytest.mark.parametrize(
        ("arguments", "opened"),
        [
            (["-a", "127.0.0.1", "-p", "4333"], ("127.0.0.1", 4333)),
            (["-p", "4333", "-cid", "test-cluster"], ("0.0.0.0", 4333)),
            (["-p", "-1"], None),
            (["-p", "4333", "-store", "file", "-dir", "data"], None),
            (["-p", "4333", "-ns", "nats://127.0.0.1:4222"], None),
            (["-p", "4333", "-js"], None),
        ],
        ids=["plain", "memory", "any port", "store on disk", "other server", "streams"],
    )
    def test_clientSocket(
        self, process: type[Process], arguments: list[str], opened: tuple[str, int] | None
    ) -> None:
        """
        The client port is opened before other modules are loaded, unless a store must be read
        first.
        """
        assert ran(*arguments)[0] == 0
        assert process.made[0][-2] == ({"client": opened} if opened else {})

    @pytest.mark.parametrize("arguments", [[], ["-js"]], ids=["plain", "streams"])
    def test_passedSocket(
        self, process: type[Process], arguments: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A socket that another process has opened is used, and its address is the broker's."""
        passed = socket.create_server(("127.0.0.1", 0))
        sockets, environment = {"client": passed}, {"LISTEN_FDS": "1"}
        monkeypatch.setattr(passedsockets, "passedSockets", lambda *_: sockets)
        with passed:
            assert ran("-p", "4333", *arguments, environment=environment)[0] == 0
            [(settings, *_, given, _)] = process.made
            assert (settings.host, settings.port) == passed.getsockname()
            assert given == sockets

    def test_unusableSocket(self, process: type[Process]) -> None:
        """Invalid variables for passed sockets are an error."""
        environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "many"}
        code, _, err = ran(environment=environment)
        assert (code, process.made) == (1, [])
        assert err == 'nats-server: LISTEN_FDS: "many" is not a number of sockets\n'

    def test_code(self, process: type[Process]) -> None:
        """The exit code is that of the process."""
        process.code = 1
        assert ran("-p", "-1")[0] == 1

    def test_logFile(self, process: type[Process]) -> None:
        """A log file that cannot be opened is reported with exit code 1."""
        process.code = FileNotFoundError(2, "No such file or directory", "/x/log")
        assert ran("-l", "/x/log") == (
            1,
            "",
            "nats-server: error opening file: open /x/log: no such file or directory\n",
        )

    @pytest.mark.parametrize(
        "arguments", [["--ft_group", "x"], ["-p", "99999"], ["-c", "/missing/x.conf"], ["surplus"]]
    )
    def test_refusedArguments(self, process: type[Process], arguments: list[str]) -> None:
        """An invalid or unsupported argument is refused with a reason, and no server runs."""
        code, _, err = ran(*arguments)
        assert code == 1
        assert err.startswith("nats-server: ")
        assert process.made == []


def test_run() -> None:
    """The console script exits with the code of the server."""
    with pytest.raises(SystemExit) as exited:
        main.run(["--version"])
    assert exited.value.code == 0


@pytest.mark.parametrize(("argument", "code"), [("--version", 0), ("-t", 1)])
def test_process(argument: str, code: int) -> None:
    """
    The arguments of the process are the default. Its output is complete, and handlers for the end
    of the interpreter do not delay it.
    """
    program = (
        "import atexit, natsbroker.main; atexit.register(print, 'late'); natsbroker.main.run()"
    )
    done = subprocess.run([sys.executable, "-c", program, argument], capture_output=True, text=True)
    assert done.returncode == code
    assert "nats-server: " in done.stdout + done.stderr
    assert "late" not in done.stdout
