"""
The twistd plugin C{twistd natsbroker}: its options and its service.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch
from twisted.application.service import Application, Service
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.logger import ILogObserver, Logger
from twisted.python.usage import UsageError
from zope.interface import implementer

from natsbroker.broker import Broker
from natsbroker.config.settings.streaming import Streaming
from natsbroker.interfaces import IStoreOpener
from natsbroker.interfaces.records import StoreFailed
from natsbroker.runtime import plugins
from natsbroker.storage.memory import MemoryStore
from natsbroker.tap import Options, makeService
from natsbroker.workers.supervisor import Supervisor
from tests.server.reactors import Reactor
from tests.server.support import Host, logLines


@implementer(IStoreOpener)
class LateStore:
    """
    A store that the test opens.

    @ivar opening: a Deferred that fires with the store.
    """

    name = "late"

    def __init__(self) -> None:
        self.opening: Deferred[Any] = Deferred()

    def openStore(self, host: Any, section: Any) -> Any:
        return self.opening


def parsed(*arguments: str) -> Options:
    """The options of a command line."""
    options = Options()
    options.parseOptions(list(arguments))
    return options


class TestOptions:
    """The command line."""

    def test_noOptions(self) -> None:
        """Without options the settings are those of a default server."""
        options = parsed()
        assert options.clients == []
        assert (options.settings.port, options.settings.fast_lane) == (4222, True)

    def test_options(self) -> None:
        """Each option sets its setting."""
        options = parsed(
            *("--client", "tcp:1", "-p", "unix:/x", "--http", "-1", "--name", "n"),
            *("--user", "u", "--pass", "p", "--debug", "--trace", "--pure"),
            *("--ports_file_dir", "/d"),
        )
        settings = options.settings
        assert options.clients == ["tcp:1", "unix:/x"]
        assert settings.monitoring.http_port == -1
        assert (settings.server_name, settings.ports_file_dir) == ("n", "/d")
        assert (settings.authorization.user, settings.authorization.password) == ("u", "p")
        assert settings.logging.debug and settings.logging.trace
        assert not settings.fast_lane

    def test_token(self) -> None:
        """A token requires a login."""
        settings = parsed("--token", "t").settings
        assert settings.authorization.token == "t"
        assert settings.authorization.defined

    def test_file(self, tmp_path: Path) -> None:
        """The configuration file applies where no option says otherwise."""
        path = tmp_path / "x.conf"
        path.write_text("server_name: filed\nmax_payload: 7\ntrace: true\nhttp_port: 8222")
        settings = parsed("-c", str(path), "-n", "given").settings
        assert (settings.server_name, settings.max_payload) == ("given", 7)
        assert settings.logging.trace and settings.monitoring.http_port == 8222

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--http", "x"],
            ["--http", "70000"],
            ["--name", "with spaces"],
            ["-c", "/missing/x.conf"],
            ["--user", "u", "--token", "t", "-c", "/dev/null/x"],
            ["surplus"],
            ["--unknown"],
        ],
    )
    def test_unusableArguments(self, arguments: list[str]) -> None:
        """An invalid argument is a usage error, before twistd detaches from the terminal."""
        with pytest.raises(UsageError):
            parsed(*arguments)

    def test_mistakeInFile(self, tmp_path: Path) -> None:
        """A mistake in the file is a usage error with its position."""
        path = tmp_path / "x.conf"
        path.write_text("port: 1\nbogus: 1")
        with pytest.raises(UsageError, match=r'x\.conf:2:1: unknown field "bogus"'):
            parsed("-c", str(path))


@pytest.mark.parametrize("option", ["--user", "--pass", "--token"])
def test_emptyLogin(option: str) -> None:
    """An empty login, as from an empty variable, is an error that names the option."""
    with pytest.raises(UsageError, match=f"^{option}: is empty: everybody would be let in"):
        parsed(option, "")


class TestAuth:
    """Checkers of C{twisted.cred}, by C{--auth}."""

    def test_checkers(self, tmp_path: Path) -> None:
        """Each C{--auth} makes a checker, in order."""
        options = parsed("--auth", f"file:{tmp_path}", "--auth", "memory:a:b", "--auth=anonymous")
        assert [type(checker).__name__ for checker in options.checkers] == [
            "FilePasswordDB",
            "InMemoryUsernamePasswordDatabaseDontUse",
            "AllowAnonymousAccess",
        ]
        assert parsed().checkers == []

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            (["--auth", "nothing:x"], "Auth plugin not recognized: nothing"),
            (["--auth", "sshkey"], "Auth plugin not supported"),
            (["--auth", "memory:a"], "argstring must be in format"),
            (["--auth", "memory:a:b", "--token", "t"], "has no effect"),
            (["--auth", "memory:a:b", "--user", "u", "--pass", "p"], "has no effect"),
            (["--help-auth-type", "nothing"], "Invalid auth type"),
        ],
    )
    def test_unusableChecker(self, arguments: list[str], why: str) -> None:
        """An unusable checker is a usage error."""
        with pytest.raises(UsageError, match=why):
            parsed(*arguments)

    def test_besidePlugin(self, tmp_path: Path) -> None:
        """
        C{--auth} with a plugin in the file is a usage error, but users in the file are accepted.
        """
        path = tmp_path / "x.conf"
        path.write_text("authorization { plugin: htpasswd, file: x }")
        with pytest.raises(UsageError, match="has no effect"):
            parsed("--auth", "memory:a:b", "-c", str(path))
        path.write_text("accounts { A { users: [ {user: a} ] } }")
        assert parsed("--auth", "memory:a:b", "-c", str(path)).checkers

    @pytest.mark.parametrize(
        ("arguments", "texts"),
        [
            (["--help-auth"], ["AuthType", "memory", "file", "anonymous"]),
            (["--help-auth-type", "file"], ["Usage: --auth file", "ArgString format"]),
            (["--help-auth-type", "sshkey"], ["WARNING: This authType is not supported"]),
        ],
    )
    def test_help(self, arguments: list[str], texts: list[str]) -> None:
        """The supported kinds of checkers are listed and described, and others are not listed."""
        options = Options()
        options.authOutput = output = io.StringIO()
        with pytest.raises(SystemExit):
            options.parseOptions(arguments)
        assert [text for text in texts if text not in output.getvalue()] == []
        assert arguments != ["--help-auth"] or "sshkey" not in output.getvalue()

    def test_helpText(self) -> None:
        """C{--help} lists the options."""
        usage = Options().getUsage()
        for option in ("--auth=", "--help-auth", "--help-auth-type=", "--token="):
            assert option in usage

    def test_login(self, tmp_path: Path) -> None:
        """
        A user of the checker is the user of that name in the file, and other logins are refused.
        """
        users, path = tmp_path / "users", tmp_path / "x.conf"
        users.write_text("anna:apple\nbob:banana\n")
        path.write_text("accounts { A { users: [ {user: anna, password: other} ] } }")
        options = parsed("--auth", f"file:{users}", "-c", str(path))
        host = Host.around(makeService(options, Reactor())).start()
        try:
            grants = {
                name: host.client(_connect(name, password)).session.grant
                for name, password in [("anna", "apple"), ("bob", "banana"), ("carl", "x")]
            }
            assert grants["anna"].account == "A"
            assert (grants["bob"].account, grants["bob"].user) == ("$G", "bob")
            assert grants["carl"] is None
            assert host.client(_connect("anna", "other")).closed == "lost"
            assert host.client(b'CONNECT {"verbose":false}\r\n').closed == "lost"
        finally:
            host.broker.stopService()

    def test_reload(self, tmp_path: Path) -> None:
        """A reload keeps the checkers and applies the accounts of the file."""
        path = tmp_path / "x.conf"
        path.write_text("accounts { A { users: [ {user: anna} ] } }")
        options = parsed("--auth", "memory:anna:apple", "-c", str(path))
        host = Host.around(makeService(options, Reactor())).start()
        try:
            client = host.client(_connect("anna", "apple"))
            assert client.closed == ""
            path.write_text("accounts { B { users: [ {user: anna} ] } }")
            host.broker.reload(options.read({}))
            assert client.closed == "lost"
            assert host.client(_connect("anna", "apple")).session.grant.account == "B"
        finally:
            host.broker.stopService()


def _connect(user: str, password: str) -> bytes:
    return (
        b"CONNECT "
        + json.dumps({"verbose": False, "user": user, "pass": password}).encode()
        + b"\r\n"
    )


class TestStreaming:
    """The flags of nats-streaming-server."""

    @pytest.mark.parametrize(
        "line",
        [
            "-cid c -st FILE -dir d -mc 1 -msu 2 -mm 3 -mb 4 -ma 5s -mi 6s -hbi 7s -hbt 8s -hbf 9",
            "--cid=c --store file --dir=d --mc=1 --msu=2 --mm=3 --mb=4 --ma=5s --mi=6s --hbi=7s "
            "--hbt=8s --hbf=9",
            "--cluster_id c --store FILE --dir d --max_channels 1 --max_subs 2 --max_msgs 3 "
            "--max_bytes 4 --max_age 5s --max_inactivity 6s --hb_interval 7s --hb_timeout 8s "
            "--hb_fail_count 9",
        ],
    )
    def test_spellings(self, line: str) -> None:
        """Each option has nats-streaming-server's meaning, in any spelling."""
        assert parsed(*line.split()).settings.streaming == Streaming(
            cluster_id="c", store="lmdb", dir="d", max_channels=1, max_subs=2, max_msgs=3,
            max_bytes=4, max_age=5.0, max_inactivity=6.0,
            hb_interval=7.0, hb_timeout=8.0, hb_fail_count=9,
        )  # fmt: skip

    def test_among(self) -> None:
        """Options of NATS Streaming may be between those of twistd's kind."""
        options = parsed("-n", "given", "-mc", "0", "--client", "tcp:1", "-file_sync=false", "-V")
        assert options.settings.streaming == Streaming(max_channels=0)
        assert (options.clients, options.settings.server_name) == (["tcp:1"], "given")
        assert options.settings.logging.trace

    def test_switches(self) -> None:
        """Switches may have values, and -SD enables debugging with NATS Streaming."""
        assert parsed("--replace_durable").settings.streaming == Streaming(replace_durable=True)
        assert parsed("-replace_durable=true").settings.streaming == Streaming(replace_durable=True)
        assert parsed("--streaming").settings.streaming == Streaming()
        settings = parsed("-SD").settings
        assert (settings.logging.debug, settings.streaming) == (True, Streaming())

    @pytest.mark.parametrize("flag", ["-c", "-sc", "--stan_config"])
    def test_file(self, flag: str, tmp_path: Path) -> None:
        """
        Options take precedence over the file, which may be given as with nats-streaming-server.
        """
        path = tmp_path / "x.conf"
        path.write_text("streaming { id: filed, limits { mm: 7 } }")
        options = parsed(flag, str(path), "-cid", "given")
        assert options.settings.streaming == Streaming(cluster_id="given", max_msgs=7)
        assert options.path == str(path)

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("-cid", "flag needs an argument: -cid"),
            ("-mm many", 'invalid value "many" for flag -mm'),
            ("-mm -5", "max messages limit cannot be negative"),
            ("-st file", "root directory must be specified"),
            ("-clustered", "clusters of NATS Streaming servers"),
            ("-ns nats://", "error parsing NATS server url"),
            ("-encrypt", "not supported yet"),
            ("-c a -sc b", "must name the same configuration file"),
        ],
    )
    def test_unusableLine(self, line: str, message: str) -> None:
        """An invalid or unsupported command line is a usage error."""
        with pytest.raises(UsageError, match=message):
            parsed(*line.split())


class TestService:
    """The service of the plugin."""

    def made(self, *arguments: str) -> Host:
        """A service on a reactor in memory."""
        return Host.around(makeService(parsed(*arguments), Reactor()))

    def test_broker(self) -> None:
        """The service is a broker, which listens on the endpoints of the options."""
        host = self.made("--client", "tcp:1", "--client", "tcp:2")
        assert isinstance(host.broker, Broker)
        host.start()
        try:
            assert [server[0] for server in host.reactor.tcpServers] == [1, 2]
            assert host.client().ask(b"PING\r\n") == b"PONG\r\n"
        finally:
            host.broker.stopService()

    def test_settings(self) -> None:
        """Without endpoints the service listens on the addresses of the settings."""
        host = self.made().start()
        try:
            assert host.reactor.tcpServers[0][0] == 4222
        finally:
            host.broker.stopService()

    @pytest.mark.parametrize(
        "arguments",
        [["--client", "nowhere:1"], ["--client", "ssl:1:privateKey=/missing"]],
    )
    def test_unusableComposition(self, arguments: list[str]) -> None:
        """
        Settings with which no broker can be made end the process with one line for the reason.
        """
        with pytest.raises(SystemExit, match=r"^natsbroker: "):
            self.made(*arguments)

    def test_portsFile(self, tmp_path: Path) -> None:
        """The ports file exists while the service runs."""
        host = self.made("--ports_file_dir", str(tmp_path)).start()
        assert [file.name for file in tmp_path.iterdir()] == [f"natsbroker_{os.getpid()}.ports"]
        host.broker.stopService()
        assert list(tmp_path.iterdir()) == []


class TestWorkers:
    """The option C{--workers}."""

    def test_several(self) -> None:
        """The service is the parent of several workers, with the files and signals of a broker."""
        made = makeService(parsed("--workers", "3"), Reactor())
        assert isinstance(made, Supervisor)
        assert len(made.slots) == 3
        names = [service.name for service in made.services]
        assert names == ["process-files", "service-manager", "signals"]

    def test_one(self) -> None:
        """With one worker the service is an ordinary broker."""
        assert isinstance(makeService(parsed("--workers", "1"), Reactor()), Broker)

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["--client", "tcp:1"], "--client: endpoints and checkers work in one process only"),
            (["--auth", "memory:a:b"], "--auth: endpoints and checkers work in one process only"),
        ],
    )
    def test_unshared(self, arguments: list[str], reason: str) -> None:
        """Settings that several workers cannot share end the process with the reason."""
        with pytest.raises(SystemExit) as ended:
            makeService(parsed("--workers", "2", *arguments), Reactor())
        assert ended.value.code == f"natsbroker: {reason}; use one worker"

    def test_wrongNumber(self) -> None:
        """A number of workers below one is a usage error."""
        with pytest.raises(UsageError, match="must be from 1 to 64, or auto"):
            parsed("--workers", "0")


class TestLog:
    """The log of a process that twistd runs."""

    def lines(self, text: str, folder: Path, **twistd: Any) -> list[str] | None:
        """
        An informational and a debug line of the log, without time and process id; C{None} if the
        log is not ours.
        """
        (folder / "x.conf").write_text(text)
        options = parsed("-c", str(folder / "x.conf"))
        options.parent = {"nodaemon": True, **twistd}
        stdout = io.StringIO()
        application = Application("natsbroker")
        makeService(options, Reactor(), stdout).setServiceParent(application)
        observer = application.getComponent(ILogObserver)
        if observer is None:
            return None
        logger = Logger(namespace="natsbroker", observer=observer)
        logger.info("said")
        logger.debug("detail")
        written = stdout.getvalue() or (folder / "log").read_text()
        return [line.split(" ", 3)[3] for line in written.splitlines()]

    def test_stream(self, tmp_path: Path) -> None:
        """A foreground process logs to standard error, without debug lines."""
        assert self.lines("port: 4222", tmp_path) == ["[INF] said"]
        assert self.lines("debug: true", tmp_path, logfile="-") == ["[INF] said", "[DBG] detail"]

    def test_file(self, tmp_path: Path) -> None:
        """The log file of the settings takes precedence over that of twistd."""
        path = tmp_path / "log"
        assert self.lines(f'log_file: "{path}"', tmp_path, logfile="/missing/log") == ["[INF] said"]
        path.unlink()
        assert self.lines("port: 4222", tmp_path, logfile=str(path)) == ["[INF] said"]

    def test_daemon(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A daemon logs to twistd's default file."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "twistd.log").symlink_to(tmp_path / "log")
        assert self.lines("port: 4222", tmp_path, nodaemon=False) == ["[INF] said"]

    @pytest.mark.parametrize("choice", [{"logger": object}, {"syslog": True}])
    def test_chosen(self, choice: dict[str, Any], tmp_path: Path) -> None:
        """A log observer that twistd was given is kept."""
        assert self.lines(f'log_file: "{tmp_path}/log"', tmp_path, **choice) is None
        assert not (tmp_path / "log").exists()

    def test_missingFolder(self, tmp_path: Path) -> None:
        """A log file that cannot be opened ends the process with the reason."""
        with pytest.raises(SystemExit, match=r"^error opening file: open .*: no such file"):
            self.lines(f'log_file: "{tmp_path}/missing/log"', tmp_path)

    def test_reload(self, tmp_path: Path) -> None:
        """A reload can enable debug lines."""
        path = tmp_path / "x.conf"
        path.write_text("port: 4222")
        options = parsed("-c", str(path))
        options.parent = {"nodaemon": True}
        broker = makeService(options, Reactor(), io.StringIO())
        path.write_text("port: 4222\ndebug: true")
        broker.reload(options.read({}))
        assert broker.log is not None and broker.log.observer.settings.debug


class TestTakenPort:
    """A port in use."""

    def test_ends(self, tmp_path: Path) -> None:
        """A port in use ends the process with code 1 and one line, which twistd's terminal gets."""
        options, reactor = parsed(), Reactor()
        (tmp_path / "pid").write_text("1")
        reading, writing = os.pipe()
        options.parent = {"pidfile": str(tmp_path / "pid"), "statusPipe": writing, "logger": object}

        def listenTCP(*arguments: Any, **more: Any) -> Any:
            raise CannotListenError("0.0.0.0", 4222, OSError(98, "Address already in use"))

        reactor.listenTCP = listenTCP  # type: ignore[method-assign]
        broker = makeService(options, reactor)
        with logLines() as lines, pytest.raises(SystemExit) as ended:
            broker.startService()
        assert ended.value.code == 1 and not broker.running
        reason = '0.0.0.0:4222, "listen tcp 0.0.0.0:4222: bind: address already in use"'
        assert f"[FTL] Error listening on port: {reason}" in lines
        with open(reading, "rb") as pipe:
            assert pipe.read() == f"1 Error listening on port: {reason}".encode()[:100]
        assert not (tmp_path / "pid").exists()


class TestUnforeseenFailure:
    """An unexpected exception of a service."""

    def test_ends(self, monkeypatch: pytest.MonkeyPatch, flushLoggedErrors: Any) -> None:
        """
        An unexpected exception ends the process with code 1 and one line, without twistd's
        traceback.
        """

        def startService(service: Any) -> None:
            raise RuntimeError("broken")

        monkeypatch.setattr(Service, "startService", startService)
        broker = makeService(parsed(), Reactor())
        with logLines() as lines, pytest.raises(SystemExit) as ended:
            broker.startService()
        assert ended.value.code == 1
        [line] = [line for line in lines if "FTL" in line]
        assert line.startswith(f"[FTL] Cannot start: RuntimeError at {__file__}:")
        assert len(flushLoggedErrors(RuntimeError)) == 1


class TestLateFailure:
    """A start that fails after the reactor has started."""

    def broker(self, store: IStoreOpener, reactor: Reactor, tmp_path: Path) -> tuple[Any, int]:
        """A daemon's broker that opens a store, and the pipe to its terminal."""
        path = tmp_path / "x.conf"
        path.write_text("streaming { store: late }")
        options = parsed("-c", str(path))
        reading, writing = os.pipe()
        options.parent = {"pidfile": "", "statusPipe": writing, "logger": object}
        with MonkeyPatch.context() as patch:
            patch.setattr(plugins.Plugins, "named", lambda *given, **named: store)
            return makeService(options, reactor), reading

    def test_ends(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        The terminal of a daemon waits for the store, and gets the reason if that cannot be opened.
        """
        reactor = Reactor()
        exits: list[Any] = []
        monkeypatch.setattr(atexit, "register", exits.append)
        store = LateStore()
        broker, reading = self.broker(store, reactor, tmp_path)
        with logLines() as lines:
            broker.startService()
            assert "statusPipe" not in broker.twistd
            reactor.steps = [lambda: store.opening.errback(StoreFailed("the disk is gone"))]
            reactor.run()
        assert lines.count("[FTL] the disk is gone") == 1
        assert reactor.stopped == 1 and len(exits) == 1
        with open(reading, "rb") as pipe:
            assert pipe.read() == b"1 the disk is gone"

    def test_ready(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The terminal of a daemon is released when the store is open."""
        reactor = Reactor()
        exits: list[Any] = []
        monkeypatch.setattr(atexit, "register", exits.append)
        store = LateStore()
        broker, reading = self.broker(store, reactor, tmp_path)
        broker.startService()
        os.set_blocking(reading, False)
        with open(reading, "rb", buffering=0) as pipe:
            assert pipe.read() is None
            store.opening.callback(MemoryStore(reactor, 0, time.time_ns))
            reactor.run()
            for _ in range(8):
                reactor.advance(0)
            assert pipe.read() == b"0"
        assert exits == []
        broker.stopService()


class TestSignals:
    """Signals that twistd leaves to the broker."""

    def signalled(self, host: Host, number: int) -> list[str]:
        """Send a signal to the running service, and return the log lines."""
        reactor = host.reactor
        with logLines(debug=False) as lines:
            reactor.steps = [lambda: os.kill(os.getpid(), number)]
            reactor.run()
        return lines

    def test_reload(self, tmp_path: Path) -> None:
        """HUP reloads the file, and the options still take precedence."""
        path = tmp_path / "x.conf"
        path.write_text("max_payload: 7")
        options = parsed("-c", str(path), "-n", "given")
        host = Host.around(makeService(options, Reactor())).start()
        path.write_text("max_payload: 8\nserver_name: filed")
        lines = self.signalled(host, signal.SIGHUP)
        assert "[INF] Reloaded: max_payload = 8" in lines
        assert host.broker.settings.server_name == "given"
        host.broker.stopService()

    def test_lameDuck(self) -> None:
        """USR2 starts lame duck mode, which ends with the process."""
        host = Host.around(makeService(parsed(), Reactor())).start()
        lines = self.signalled(host, signal.SIGUSR2)
        assert "[INF] Entering lame duck mode, stop accepting new clients" in lines
        assert host.reactor.stopped == 1
        host.broker.stopService()

    def test_otherSignals(self) -> None:
        """Other signals are handled by twistd, and all handlers are restored at the end."""
        signals = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR2]
        before: list[Any] = [signal.getsignal(number) for number in signals]
        host = Host.around(makeService(parsed(), Reactor())).start()
        assert [signal.getsignal(number) for number in signals[:3]] == before[:3]
        host.broker.stopService()
        assert [signal.getsignal(number) for number in signals] == before
