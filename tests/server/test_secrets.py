"""
Planted secrets. The tests search for them in the log, on all pages, in the answers of the system
account, in the errors of configurations, and in the C{repr} of a broker's parts.
"""

from __future__ import annotations

import gc
import io
import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from traceback import format_exception
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionRefusedError
from twisted.logger import globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.config.errors import ConfigError
from natsbroker.config.model import Logging, Settings
from natsbroker.daemon.logs import ProcessLog
from natsbroker.interfaces import IObserver
from natsbroker.runtime.reload import ReloadError
from natsbroker.server.configuration.build import buildText
from natsbroker.storage.postgres.connecting import Database
from natsbroker.system.options import OPTIONS
from natsbroker.testing.transport import MemoryTransport
from natsbroker.wire.serverinfo import parseConnect
from tests.server.support import Host
from tests.websocket.memory import Socket

#: In every planted text.
MARK = "hush"

SEED = "SUAHUSHDRLSVPHUSHHUSHHUSHHUSHHUSHHUSHHUSHHUSHHUSHHUSHHUSHA"

ENVIRONMENT = {"SECRET": f"{MARK}-environment", "NUMBER": "99999999999999990000000"}

CONFIG = f"""
server_name: quiet
log_format: text
debug: true
trace: true
trace_verbose: true
accounts {{
  A {{ users: [
    {{ user: ann, password: {MARK}-password }}
    {{ user: eve, password: $SECRET }}
  ] }}
  $SYS {{ users: [ {{ user: sys, password: {MARK}-system }} ] }}
}}
cluster {{
  name: c, listen: "127.0.0.1:6222"
  authorization {{ user: route, password: {MARK}-cluster }}
  routes: [ "nats-route://route:{MARK}-route@127.0.0.1:7001" ]
}}
gateway {{
  name: c, listen: "127.0.0.1:7222"
  authorization {{ user: gate, password: {MARK}-gateway }}
  gateways: [ {{ name: d, urls: [ "nats://gate:{MARK}-remote@127.0.0.1:7002" ] }} ]
}}
leafnodes {{
  listen: "127.0.0.1:7422"
  authorization {{ user: leaf, password: {MARK}-leafnode }}
  remotes: [ {{ urls: [ "nats-leaf://leaf:{MARK}-leaf@127.0.0.1:7003" ], account: A }} ]
}}
websocket {{
  listen: "127.0.0.1:8080", no_tls: true
  user_cookie: name, pass_cookie: word, token_cookie: token
}}
"""

STORES = f"""
authorization {{ token: {MARK}-token }}
websocket {{ port: 8080, no_tls: true, authorization {{ token: {MARK}-websocket }} }}
streaming {{
  store: postgres, store_options {{ source: "postgres://user:{MARK}-sql@127.0.0.1:1/x" }}
}}
"""

#: What a broker itself logs in with: at an HTTP service, and at another NATS server.
SERVICES = [
    f"""
    authorization {{
      plugin: http, url: "http://127.0.0.1:1/?key={MARK}-key"
      headers {{ Authorization: "Bearer {MARK}-bearer" }}
    }}
    """,
    f'streaming {{ nats_server: "nats://user:{MARK}-server@127.0.0.1:1" }}',
    f'streaming {{ nats_server: "nats://127.0.0.1:1", username: u, password: {MARK}-password }}',
    f'streaming {{ nats_server: "nats://127.0.0.1:1", token: {MARK}-token }}',
]

#: A configuration with an error beside a secret, for each kind of error.
BROKEN = [
    f"authorization {{ token: {MARK}-token",
    f"authorization {{ token: {MARK}-token, users: [ {{ user: a, password: {MARK}-b }} ] }}",
    f"authorization {{ token: [ {MARK}-token ] }}",
    f"authorization {{ user: a, pass: {MARK}-pass, pass2: {MARK}-pass }}",
    f"authorization {{ users: [ {{ user: a, pass: {MARK}-pass, nkey: {SEED} }} ] }}",
    f"authorization {{ users: [ {{ nkey: {SEED} }} ] }}",
    "authorization { token: 99999999999999990000000 }",
    "authorization { token: $NUMBER }",
    f"authorization {{ auth_callout {{ issuer: {SEED}, xkey: {SEED}, auth_users: [ a ] }} }}",
    f"accounts {{ A {{ nkey: {SEED} }} }}",
    f"trusted_keys: [ {SEED} ]",
    f"resolver_pinned_accounts: [ {SEED} ]",
    f"resolver: URL(ftp://a:{MARK}@h/)",
    f"cluster {{ listen: 1, routes: [ 'nats-route://a:{MARK}-route@h:x' ] }}",
    f"cluster {{ listen: 1, authorization {{ password: {MARK}-route }} }}",
    f"gateway {{ name: g, listen: 1, gateways: [ {{ name: d, url: 'nats://a:{MARK}@h:x' }} ] }}",
    f"leafnodes {{ remotes: [ {{ url: 'nats://a:{MARK}@h:x' }} ] }}",
    f"leafnodes {{ remotes: [ {{ url: 'nats://a:{MARK}@h:1', nkey: {SEED} }} ] }}",
    f"leafnodes {{ listen: 1, authorization {{ nkey: {SEED} }} }}",
    f"websocket {{ listen: 1, authorization {{ token: {MARK}, pass: {MARK} }} }}",
    f"streaming {{ nats_server: 'nats://a:{MARK}@h:x' }}",
    f"streaming {{ encryption_key: {MARK}-key }}",
    f"jetstream {{ encryption_key: {MARK}-key, cipher: x }}",
    f"jetstream {{ backend: memory, encryption_key: {MARK}, prev_key: {MARK} }}",
    f"jetstream {{ backend: postgres, backend_options {{ source: '{MARK}@h' }}, x: 1 }}",
    f"leafnodes {{ remotes: [ {{ url: 'nats://h:1', proxy {{ password: {MARK} }} }} ] }}",
]

#: What the system account hears of, at the least.
EVENTS = (
    *(".CONNECT ", ".DISCONNECT ", ".CLIENT.AUTH.ERR ", ".SERVER.CONNS ", ".STATSZ "),
    ".SHUTDOWN ",
)

PLANTED = (MARK, MARK.upper(), "99999999999999990000000")


def secretsIn(text: str) -> list[str]:
    """The parts of a text around planted secrets."""
    return [
        text[max(text.index(secret) - 100, 0) : text.index(secret) + 60]
        for secret in PLANTED
        if secret in text
    ]


@implementer(IObserver)
class FailingObserver:
    """An observer that raises an exception with the whole configuration as its argument."""

    def __init__(self) -> None:
        self.calls = 0

    def observe(self, advisory: object) -> None:
        """Fail."""
        self.calls += 1
        raise RuntimeError("broken")


class Daemon:
    """
    A syslog daemon, with a thread that reads what is sent to it.

    @ivar url: where it is.
    """

    _END = b"the end"

    def __init__(self, network: str, directory: Path) -> None:
        isUnix, kind = network == "unix", socket.SOCK_DGRAM if network == "udp" else None
        family = socket.AF_UNIX if isUnix else socket.AF_INET
        self._socket = socket.socket(family, kind or socket.SOCK_STREAM)
        self._socket.settimeout(5)
        self._socket.bind(str(directory / "log") if isUnix else ("127.0.0.1", 0))
        self._place = self._socket.getsockname()
        self.url = f"{network}://{self._place if isUnix else f'127.0.0.1:{self._place[1]}'}"
        self._received: list[bytes] = []
        if kind is None:
            self._socket.listen()
        self._thread = Thread(target=self._read if kind else self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with self._socket, self._socket.accept()[0] as connection:
            while data := connection.recv(1 << 16):
                self._received.append(data)

    def _read(self) -> None:
        with self._socket:
            while (data := self._socket.recv(1 << 16)) != self._END:
                self._received.append(data)

    def text(self) -> str:
        """The text that the daemon has received, after the broker is done."""
        if self.url.startswith("udp"):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(self._END, self._place)
        self._thread.join(5)
        return b"".join(self._received).decode("ascii")


class Log:
    """The log of a broker in each format and at each destination."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        journal = self._journal = (directory / "journal").open("w+")
        status = os.fstat(journal.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        self._file = directory / "broker.log"
        self._streams = {name: io.StringIO() for name in ("text", "json")}
        self._daemons = [Daemon(name, directory) for name in ("udp", "tcp", "unix")]
        formats = [
            ProcessLog(stream, Logging(debug=True, trace=True, trace_verbose=True, log_format=name))
            for name, stream in self._streams.items()
        ]
        collected = Logging(debug=True, trace=True, trace_verbose=True, remote_syslog="x")
        syslogs = [
            ProcessLog(io.StringIO(), replace(collected, remote_syslog=daemon.url))
            for daemon in self._daemons
        ]
        lined = replace(collected, remote_syslog="")
        others = [
            ProcessLog(journal, lined),
            ProcessLog(io.StringIO(), replace(lined, logfile=str(self._file))),
        ]
        self._logs = [*formats, *syslogs, *others]

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Record what is logged in the block."""
        with ExitStack() as stack:
            for log in self._logs:
                log.open()
                globalLogPublisher.addObserver(log.observer)
                stack.callback(log.close)
                stack.callback(globalLogPublisher.removeObserver, log.observer)
            yield

    def texts(self) -> dict[str, str]:
        """The text that each destination of the log received, by the name of the destination."""
        texts = {f"log {daemon.url.partition(':')[0]}": daemon.text() for daemon in self._daemons}
        with self._journal as journal:
            journal.seek(0)
            texts["log journal"] = journal.read()
        texts["log file"] = self._file.read_text()
        return texts | {f"log {name}": text.getvalue() for name, text in self._streams.items()}


def settingsOf(text: str) -> Settings:
    """The settings of a configuration that uses the environment."""
    return buildText(text, ENVIRONMENT, "quiet.conf").settings


def connect(host: Host, **options: object) -> Any:
    """Connect and send CONNECT."""
    client = host.dial()
    client.receive()
    hello = json.dumps({"verbose": False, "headers": True, **options}).encode()
    client.ask(b"CONNECT " + hello + b"\r\nPING\r\n")
    return client


def logIn(host: Host) -> Any:
    """
    Clients that log in rightly and wrongly.

    @return: one in the system account.
    """
    ann = connect(host, user="ann", **{"pass": f"{MARK}-password"})
    ann.ask(b"SUB > 1\r\nPUB a 0\r\n\r\n")
    assert not ann.closed
    connect(host, user="eve", **{"pass": f"{MARK}-environment"})
    for wrong in (
        {"user": "ann", "pass": f"{MARK}-wrong"},
        {"auth_token": f"{MARK}-token"},
        {"nkey": SEED, "sig": f"{MARK}-signature"},
        {"jwt": f"eyJ{MARK}.eyJ{MARK}.x", "sig": f"{MARK}-signature"},
        {"user": "nobody", "pass": f"{MARK}-unknown", "auth_token": f"{MARK}-both"},
    ):
        assert connect(host, **wrong).closed
    broken = host.dial()
    broken.receive()
    broken.ask(b'CONNECT {"user":"ann","pass":"%b-broken\r\n' % MARK.encode())
    host.advance(3.0)
    return connect(host, user="sys", **{"pass": f"{MARK}-system"})


def logInByCookie(host: Host) -> Socket:
    """
    Browsers that log in with the values of their cookies, right and wrong ones.

    @return: one that has logged in and is there.
    """
    factory = next(server[1] for server in host.reactor.tcpServers if server[0] == 8080)
    host.reactor.pass_ = host.reactor.advance
    clients = []
    for cookie in (
        f"name=ann; word={MARK}-password",
        f"name=ann; word={MARK}-wrong-cookie",
        f"token={MARK}-token-cookie",
    ):
        address = IPv4Address("TCP", "127.0.0.1", 50002)
        transport = MemoryTransport(host.reactor, factory.buildProtocol(address), address)
        transport.connect()
        browser = Socket(host.reactor, transport)
        browser.upgrade(Cookie=cookie)
        browser.ask()
        browser.ask(b'CONNECT {"verbose":false}\r\nSUB web 1\r\nPUB web 2\r\nhi\r\nPING\r\n')
        clients.append(browser)
    assert [bool(client.ending) for client in clients] == [False, True, True]
    return clients[0]


def refuse(host: Host) -> int:
    """
    Refuse the connections that the broker asks for.

    @return: how many.
    """
    asked, host.reactor.tcpClients[:] = list(host.reactor.tcpClients), []
    for _, _, factory, _, _ in asked:
        factory.clientConnectionFailed(None, Failure(ConnectionRefusedError()))
    return len(asked)


def pagesOf(host: Host) -> Iterator[tuple[str, str]]:
    """The text of every page, with all options."""
    shows = ("auth", "accs", "subs", "accounts", "streams", "consumers", "config", "unused")
    query = dict.fromkeys((*shows, "details", "leader-only"), "1")
    for path in list(host.broker.monitoring.pages):
        for asked in ({}, {**query, "state": "all"}, {**query, "subs": "detail"}):
            answer = host.broker.monitoring.answer(path, asked)
            assert answer is not None
            parts = [piece for piece in answer.body if isinstance(piece, bytes)]
            yield path, b"".join(parts).decode()


def values(root: object) -> Iterator[object]:
    """Find all objects of the package that are reachable from one object."""
    seen: dict[int, object] = {}
    waiting = [root]
    while waiting:
        deferred = waiting.pop()
        if id(deferred) in seen or isinstance(deferred, type):
            continue
        seen[id(deferred)] = deferred
        kind = type(deferred)
        if kind.__module__.startswith("natsbroker"):
            yield deferred
        if kind.__module__.split(".")[0] in ("natsbroker", "builtins", "collections", "functools"):
            waiting += [
                inner for inner in gc.get_referents(deferred) if not hasattr(inner, "__loader__")
            ]


@pytest.fixture
def host() -> Host:
    """A broker with secrets in every block, that runs."""
    running = Host(settingsOf(CONFIG), observers=[FailingObserver()]).start()
    running.settle()
    return running


def test_runningBroker(
    host: Host, flushLoggedErrors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker with many failing logins shows no secret, in any place."""
    texts: dict[str, str] = {}
    log = Log(tmp_path, monkeypatch)
    with log.kept():
        listener = connect(host, user="sys", **{"pass": f"{MARK}-system"})
        listener.ask(b"SUB $SYS.> 1\r\n")
        system = logIn(host)
        browser = logInByCookie(host)
        assert refuse(host) >= 3
        host.advance(2.0)
        refuse(host)
        system.ask(b"SUB _R.> 9\r\n")
        for kind in OPTIONS:
            options = json.dumps({"auth": True, "subscriptions": True, "state": 2}).encode()
            for body in (b"", options):
                line = b"PUB $SYS.REQ.SERVER.PING.%b _R.1 %d\r\n%b\r\n"
                texts[f"{kind}{body!r}"] = system.ask(
                    line % (kind.encode(), len(body), body)
                ).decode()
        assert '"data"' in texts["VARZb''"]
        assert b"PONG" in browser.ask(b"PING\r\n")
        texts |= {f"early page {path} {n}": text for n, (path, text) in enumerate(pagesOf(host))}
        changed = CONFIG.replace(f"{MARK}-", f"{MARK}-new-").replace("debug: true", "debug: false")
        with pytest.raises(ReloadError) as refused:
            host.broker.reload(settingsOf(changed))
        texts["reload error"] = str(refused.value)
        changed = CONFIG.replace(f"{MARK}-password", f"{MARK}-new-password")
        host.broker.reload(settingsOf(changed))
        host.advance(1.0)
        texts |= {f"page {path} {n}": text for n, (path, text) in enumerate(pagesOf(host))}
        for value in values(host.broker):
            texts[f"repr of {type(value).__qualname__} {id(value)}"] = repr(value)
        host.broker.stopService()
        host.settle()
        texts["events"] = listener.transport.take().decode()
    for event in EVENTS:
        assert event in texts["events"]
    texts |= log.texts()
    assert flushLoggedErrors(RuntimeError)
    assert texts["log journal"].startswith("<")
    for form in ("text", "json", "udp", "tcp", "unix", "journal", "file"):
        assert "authentication error" in texts[f"log {form}"]
        assert "[REDACTED]" in texts[f"log {form}"]
        assert "websocket" in texts[f"log {form}"].lower()
    assert len([text for text in texts if text.startswith("repr")]) > 300
    assert {name: secretsIn(text) for name, text in texts.items() if secretsIn(text)} == {}


@pytest.mark.parametrize("text", SERVICES, ids=range(len(SERVICES)))
def test_ownLogins(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flushLoggedErrors: Any
) -> None:
    """Logins that the broker uses for other services stay secret if those refuse the connection."""
    host = Host(settingsOf(f"listen: '127.0.0.1:4222', debug: true, trace: true\n{text}")).start()
    texts: dict[str, str] = {}
    log = Log(tmp_path, monkeypatch)
    with log.kept():
        host.settle()
        if list(host.broker.listeners):
            connect(host, user="ann", **{"pass": f"{MARK}-password"}, auth_token=f"{MARK}-token")
        assert refuse(host)
        host.advance(6.0)
        refuse(host)
        texts |= {f"page {path} {n}": text for n, (path, text) in enumerate(pagesOf(host))}
        for value in values(host.broker):
            texts[f"repr of {type(value).__qualname__} {id(value)}"] = repr(value)
        host.broker.stopService()
        host.settle()
    texts |= log.texts()
    flushLoggedErrors()
    assert {name: secretsIn(text) for name, text in texts.items() if secretsIn(text)} == {}


@pytest.mark.parametrize("text", BROKEN)
def test_brokenConfiguration(text: str) -> None:
    """The error of a configuration quotes no secret."""
    with pytest.raises(ConfigError) as caught:
        buildText(text, ENVIRONMENT, "quiet.conf")
    assert secretsIn(str(caught.value)) == []


def test_peers() -> None:
    """The C{repr} of a peer's CONNECT has no password."""
    connect = parseConnect(json.dumps({"pass": MARK, "auth_token": MARK}).encode())
    assert (connect.password, connect.auth_token) == (MARK, MARK)
    assert secretsIn(repr(connect)) == []


def test_stores() -> None:
    """The URL of a database, and tokens, are in no C{repr} of the settings."""
    settings = settingsOf(STORES)
    assert MARK in str(settings.streaming.store_options)  # type: ignore[union-attr]
    assert [secretsIn(repr(value)) for value in values(settings) if secretsIn(repr(value))] == []
    options = settings.streaming.store_options  # type: ignore[union-attr]
    assert secretsIn(repr(Database(str(options["source"])))) == []


@pytest.mark.parametrize("source", [f"{MARK}@h", f"postgres://u@h/d?{MARK}=1", f"a={MARK} b"])
def test_brokenSource(source: str) -> None:
    """The error of a connection string does not quote it, and neither does its cause."""
    with pytest.raises(ValueError, match="not a connection string") as caught:
        Database(source)
    assert secretsIn("".join(format_exception(caught.value))) == []
