"""
A whole broker in memory.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest
from twisted.application.service import IService, Service
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker import errors, hot
from natsbroker.accounts.registry import BuiltInRouter
from natsbroker.advisories import (
    ClientConnected,
    ClientDisconnected,
    LameDuckStarted,
    Reloaded,
)
from natsbroker.auth.authenticator import Authenticator
from natsbroker.broker import Broker
from natsbroker.config.errors import ConfigErrors
from natsbroker.interfaces import (
    IAuthorizerPlugin,
    IBrokerHost,
    IBrokerService,
    IObserver,
    IPublishFilter,
    ISubjectRouter,
)
from natsbroker.monitoring.healthz import HealthQuery
from natsbroker.runtime.failures import StartError
from natsbroker.runtime.plugins import PluginError, Plugins
from natsbroker.runtime.reload import ReloadError
from natsbroker.testing.memory import MemoryBroker
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.values import Kind, Message
from tests.server.support import Advisories, Host, logLines, settingsOf
from tests.support import Recorder, needsCompiled


def outcome(deferred: Deferred[Any]) -> list[Any]:
    """A list for the outcome of a Deferred."""
    results: list[Any] = []
    deferred.addBoth(results.append)
    return results


class Denying(Authenticator):
    """An authorizer that denies every login, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.open = False

    def grant(self, avatar: Any, hello: ConnectRequest) -> Any:
        self.asked += 1
        if self.open:
            return Grant(user="me")
        raise errors.Unauthorized("closed")


class Lifecycle(Service):
    """A service that records its calls."""

    def __init__(self, log: list[str], host: Any) -> None:
        self._log = log
        self._host = host

    def startService(self) -> None:
        """Start."""
        super().startService()  # type: ignore[no-untyped-call]
        self._log.append(f"start listening={self._host.listeners.isOpen}")

    def stopService(self) -> None:
        """Stop."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._log.append(f"stop clients={len(self._host.clientContext.connections)}")


@implementer(IBrokerService)
class Maker:
    """Makes services that record their calls."""

    name = "mine"

    def __init__(self) -> None:
        self.log: list[str] = []
        self.given: list[Any] = []

    def makeService(self, host: IBrokerHost, section: Mapping[str, Any]) -> IService:
        self.given.append((host, dict(section)))
        made: Any = Lifecycle(self.log, host)
        return made  # type: ignore[no-any-return]


class TestHost:
    """The broker's methods for plugins."""

    def test_provides(self) -> None:
        """The broker is a broker host and a service."""
        broker = Host().broker
        verifyObject(IBrokerHost, broker)
        verifyObject(IService, broker)

    def test_bus(self) -> None:
        """A service and the clients of its account exchange messages."""
        host = Host("accounts { A {} }").start()
        client = host.client()
        client.ask(b"SUB foo 1\r\n")
        recorder = Recorder()
        bus = host.broker.bus()
        bus.subscribe(b"bar", recorder)
        bus.publish(Message(b"foo", b"hi"))
        assert client.ask(b"PUB bar 2\r\nyo\r\n") == b"MSG foo 1 2\r\nhi\r\n"
        assert recorder.bodies == [b"yo"]
        assert host.broker.bus("A").account == "A"

    def test_localBus(self) -> None:
        """
        A service for this broker alone is reached by the broker's clients, and not by other
        brokers.
        """
        host = Host().start()
        recorder = Recorder()
        host.broker.bus(isLocal=True).subscribe(b"foo", recorder)
        host.client().ask(b"PUB foo 2\r\nyo\r\n")
        route = host.broker.accounts["$G"].busFor(Kind.ROUTE)
        assert route.publish(Message(b"foo", b"no")) == 0
        assert recorder.bodies == [b"yo"]

    def test_noBus(self) -> None:
        """An account that does not exist has no bus."""
        with pytest.raises(KeyError):
            Host().broker.bus("A")

    def test_filter(self) -> None:
        """A filter decides about every message until it is removed."""

        @implementer(IPublishFilter)
        class Dropping:
            def filterMessage(self, message: Message, kind: int) -> Message | None:
                return None

        host = Host().start()
        client = host.client()
        client.ask(b"SUB foo 1\r\n")
        remove = host.broker.addFilter("$G", Dropping())
        assert client.ask(b"PUB foo 2\r\nhi\r\n") == b""
        remove()
        assert client.ask(b"PUB foo 2\r\nhi\r\n") == b"MSG foo 1 2\r\nhi\r\n"

    def test_observe(self) -> None:
        """Observers are notified of clients until they are removed."""

        @implementer(IObserver)
        class Observer(Advisories):
            pass

        first, second = Observer(), Observer()
        host = Host(observers=[first]).start()
        stop = host.broker.observe(second)
        client = host.client()
        stop()
        client.transport.hangUp()
        host.settle()
        assert [type(event) for event in first.seen] == [ClientConnected, ClientDisconnected]
        assert [type(event) for event in second.seen] == [ClientConnected]


class TestReading:
    """Brokers that read their own configuration."""

    def test_fromText(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The text may refer to the environment, and other arguments are passed to the broker."""
        monkeypatch.setenv("SHOP", "tea")
        broker = Broker.fromText("server_name: $SHOP", endpoints=[], random=Random(1))
        assert broker.settings.server_name == "tea"
        assert list(broker.listeners) == []

    def test_fromFile(self, tmp_path: Path) -> None:
        """A file is read from its path, and may include files beside it."""
        (tmp_path / "server.conf").write_text("include 'name.conf'")
        (tmp_path / "name.conf").write_text("server_name: tea")
        broker = Broker.fromFile(tmp_path / "server.conf", endpoints=[])
        assert broker.settings.server_name == "tea"
        assert broker.settings.config_file == str(tmp_path / "server.conf")

    def test_errors(self) -> None:
        """Errors in the text are raised together."""
        with pytest.raises(ConfigErrors, match="prot"):
            Broker.fromText("prot: 1\nport: x")

    def test_warnings(self) -> None:
        """Warnings about the text are logged."""
        with logLines() as lines:
            Broker.fromText("ping_interval: 60", endpoints=[])
        assert [line for line in lines if line.startswith("[WRN]")] != []


class TestChoices:
    """The replaceable parts of a broker."""

    def test_authorizerObject(self) -> None:
        """A given authorizer decides, whatever the settings say."""
        authorizer = Denying()
        host = Host("authorization { plugin: none }", authorizer=authorizer).start()
        assert host.client().receive() == b""
        assert authorizer.asked == 1

    def test_authorizerPlugin(self) -> None:
        """Without a given authorizer, the plugin that the settings name decides."""

        @implementer(IAuthorizerPlugin)
        class Plugin:
            name = "mine"

            def makeAuthorizer(self, host: IBrokerHost, section: Mapping[str, Any]) -> Any:
                return made

        made = Denying()
        plugins = Plugins(lambda interface: [Plugin()])
        host = Host("authorization { plugin: mine }", plugins=plugins)
        assert host.broker.clientContext.authorizer is made

    def test_authorizerMissing(self) -> None:
        """An authorizer that no plugin provides is an error."""
        with pytest.raises(PluginError, match="IAuthorizerPlugin"):
            Host("authorization { plugin: mine }", plugins=Plugins(lambda interface: []))

    def test_noSettings(self) -> None:
        """
        An object other than settings is refused with the names of the methods that read settings.
        """
        settings: Any
        for settings in ("port: 1", {"port": 1}):
            text = r"of type (str|dict), not .*Broker\.fromFile\(path\) or Broker\.fromText\(text\)"
            with pytest.raises(TypeError, match=text):
                Broker(settings)

    def test_noAuthorizer(self) -> None:
        """An object that is not an authorizer is refused."""
        with pytest.raises(TypeError, match=r"object of object provides no I"):
            Host(authorizer=object())

    def test_settings(self) -> None:
        """Without an authorizer or a plugin, the users of the settings are accepted."""
        host = Host("authorization { token: t }").start()
        client = host.client(b'CONNECT {"auth_token":"t","verbose":true}\r\n')
        assert client.ask(b"PING\r\n") == b"PONG\r\n"

    def test_routerFactory(self) -> None:
        """A given router factory makes a router for each account."""
        made: dict[str, ISubjectRouter] = {}

        def make(account: str) -> ISubjectRouter:
            made[account] = BuiltInRouter(8)
            return made[account]

        host = Host("accounts { A {} }", routerFactory=make).start()
        assert list(made) == ["$G", "$SYS", "A"]
        before = [len(router) for router in made.values()]
        host.client().ask(b"SUB foo 1\r\n")
        after = [len(router) for router in made.values()]
        assert [now - then for now, then in zip(after, before, strict=True)] == [1, 0, 0]

    def test_shapes(self) -> None:
        """The default router accepts no more wildcard shapes than the settings permit."""
        host = Host("max_subject_shapes: 1").start()
        client = host.client()
        answer = client.ask(b"SUB *.a 1\r\nSUB a.* 2\r\n")
        assert answer == b"-ERR 'maximum subscription shapes exceeded'\r\n"

    def test_services(self) -> None:
        """A service is started before the first client, and stopped after the last one."""
        maker = Maker()
        host = Host("services { mine { x: 1 } }", services=[maker]).start()
        assert maker.given == [(host.broker, {"x": 1})]
        assert maker.log == ["start listening=False"]
        host.client()
        done = outcome(host.broker.stopService())
        host.settle()
        assert done == [None]
        assert maker.log[1:] == ["stop clients=0"]

    def test_loggedFeatures(self) -> None:
        """Each active feature is logged in one line."""
        host = Host(authorizer=Denying(), services=[Maker()])
        with logLines() as lines:
            host.start()
        [line] = [line for line in lines if "On:" in line]
        assert "authorizer=Denying router=built-in services=mine" in line

    @pytest.mark.skipif(not hot.COMPILED, reason="there is no compiled lane")
    @pytest.mark.parametrize(("text", "isUsed"), [("", True), ("fast_lane: false", False)])
    def test_fastLane(self, monkeypatch: pytest.MonkeyPatch, text: str, isUsed: bool) -> None:
        """A client uses the lane, unless the settings disable it."""
        made: list[Any] = []
        make = hot.Lane

        def counted(*arguments: Any) -> Any:
            made.append(arguments)
            return make(*arguments)

        monkeypatch.setattr(hot, "Lane", counted)
        Host(text).start().client()
        assert bool(made) is isUsed

    def test_random(self) -> None:
        """Queue members are chosen in the same order with the same seed."""

        def chosen() -> bytes:
            host = Host("fast_lane: false").start()
            client = host.client()
            client.ask(b"SUB foo q 1\r\nSUB foo q 2\r\nSUB foo q 3\r\n")
            return client.ask(b"PUB foo 0\r\n\r\n" * 50)

        first = chosen()
        assert first == chosen()
        assert len(set(first.split(b"\r\n"))) > 2


class TestStarting:
    """The start of a broker."""

    def test_info(self) -> None:
        """INFO has the name and the address of the broker."""
        host = Host("server_name: n\nport: 4222").start()
        info = json.loads(host.dial().receive()[5:])
        assert info["server_id"] == host.broker.serverId
        assert (info["server_name"], info["port"], info["client_ip"]) == ("n", 4222, "127.0.0.1")

    def test_address(self) -> None:
        """The broker has its address while it listens."""
        host = Host("port: 4222")
        with pytest.raises(ValueError, match="does not listen"):
            host.broker.clientAddress()
        host.start()
        assert host.broker.clientAddress() == ("0.0.0.0", 4222)
        assert host.broker.addresses() == {
            "nats": ["nats://127.0.0.1:4222"],
            "monitoring": [],
            "cluster": [],
            "leafnodes": [],
            "gateway": [],
            "websocket": [],
            "mqtt": [],
        }

    def test_lines(self) -> None:
        """The last two lines of the start are those that programs wait for."""
        with logLines() as lines:
            Host("port: 4222").start()
        assert lines[-2:] == [
            "[INF] Listening for client connections on 0.0.0.0:4222",
            "[INF] Server is ready",
        ]

    def test_endpoints(self) -> None:
        """The broker can listen on given endpoints instead of the configured address."""
        host = Host("port: 4222", endpoints=["tcp:1:interface=h", "unix:/run/n.sock"]).start()
        assert [server[0] for server in host.reactor.tcpServers] == [1]
        assert [server[0] for server in host.reactor.unixServers] == ["/run/n.sock"]
        assert host.dial(listener=1).receive().startswith(b"INFO ")

    def test_noListener(self) -> None:
        """The broker can run without a listener, and becomes ready."""
        host = Host(endpoints=[]).start()
        assert host.reactor.tcpServers == []
        assert outcome(host.broker.whenReady()) == [None]

    def test_passedSockets(self) -> None:
        """Each listener uses the passed socket of its name, and opens none."""
        names = ("client", "monitoring", "cluster", "gateway", "leafnodes", "websocket")
        sockets = {name: socket.create_server(("127.0.0.1", 0)) for name in names}
        numbers = {listener.fileno() for listener in sockets.values()}
        text = (
            "host: 127.0.0.1\nhttp: 1\nleafnodes { port: 1 }\n"
            'cluster { name: c, listen: "127.0.0.1:1" }\n'
            'gateway { name: c, listen: "127.0.0.1:1" }\n'
            "websocket { port: 1, no_tls: true }"
        )
        host = Host(text, sockets=sockets).start()
        assert {port[0] for port in host.reactor.adoptedPorts} == numbers
        assert not host.reactor.tcpServers
        host.broker.stopService()

    def test_surplusSocket(self) -> None:
        """A passed socket for a listener that is not configured is refused."""
        with socket.create_server(("127.0.0.1", 0)) as passed:
            with pytest.raises(ValueError, match="the broker does not have: monitoring"):
                Host(sockets={"monitoring": passed})

    def test_ready(self) -> None:
        """A Deferred fires when the broker is ready."""
        host = Host()
        waiting = outcome(host.broker.whenReady())
        assert waiting == []
        host.start()
        assert waiting == [None]
        assert outcome(host.broker.whenReady()) == [None]

    def test_portInUse(self) -> None:
        """If the port is in use, the start raises an exception, and waiting for readiness fails."""

        class Taken:
            def listen(self, factory: Any) -> Any:
                raise CannotListenError("h", 1, OSError(98, "Address already in use"))

        host = Host(endpoints=[Taken()])
        waiting = outcome(host.broker.whenReady())
        with pytest.raises(StartError, match="Error listening on port: h:1"):
            host.start()
        assert waiting[0].check(StartError)
        assert outcome(host.broker.whenReady())[0].check(StartError)

    def test_portInUseIsLogged(self) -> None:
        """A port that turns out later to be in use is logged if no caller waits for readiness."""
        gate: Deferred[Any] = Deferred()

        class Slow:
            def listen(self, factory: Any) -> Any:
                return gate

        Host(endpoints=[Slow()]).start()
        error = CannotListenError("h", 1, OSError(98, "In use"))
        with logLines() as lines:
            gate.errback(error)
        assert lines == ['[FTL] Error listening on port: h:1, "listen tcp h:1: bind: in use"']

    def test_globalReactor(self) -> None:
        """The default reactor is the global one."""
        from twisted.internet import reactor

        assert Broker(endpoints=[]).reactor is reactor


LOADING = """
import sys
from twisted.internet.testing import MemoryReactorClock
from natsbroker.broker import Broker
from natsbroker.config.errors import ConfigErrors
from natsbroker.server.configuration.build import buildText
broker = Broker(buildText(sys.argv[1], {}).settings, reactor=MemoryReactorClock())
broker.startService()
print(*sorted(sys.modules))
"""


@pytest.mark.slow
class TestLoading:
    """
    The modules that a broker imports: those that its settings need, so that it starts quickly.
    """

    PARTS: ClassVar[dict[str, str]] = {
        "natsbroker.auth.callout.callouts": "",
        "natsbroker.auth.operator.operators": "",
        "natsbroker.gateways.service": "gateway { name: A, listen: '127.0.0.1:7222' }",
        "natsbroker.auth.plugins": "authorization { plugin: cred, checkers: anonymous }",
        "natsbroker.routes.service": "cluster { listen: '127.0.0.1:6222' }",
        "natsbroker.connections.tlscontext": "",
        "natsbroker.leafnodes.service": "leafnodes { listen: '127.0.0.1:7422' }",
        "natsbroker.monitoring.service": "http: '127.0.0.1:8222'",
        "natsbroker.links.link": "leafnodes { listen: '127.0.0.1:7422' }",
        "natsbroker.monitoring.resource": "http: '127.0.0.1:8222'",
        "natsbroker.export": "streaming { store: memory }",
        "natsbroker.streaming": "streaming { store: memory }",
        "natsbroker.monitoring.model": "http: '127.0.0.1:8222'",
        "natsbroker.services.trafficservice": "services { traffic { } }",
        "natsbroker.storage": "streaming { store: memory }",
        "google.protobuf": "streaming { store: memory }",
        "twisted.cred": "authorization { plugin: cred, checkers: anonymous }",
        "twisted.web": "http: '127.0.0.1:8222'",
    }
    """Modules that a plain broker does without -> settings with which it needs them, if any."""

    def loaded(self, text: str) -> set[str]:
        """The imported modules of an interpreter whose broker has these settings."""
        done = subprocess.run(
            [sys.executable, "-c", LOADING, text], capture_output=True, text=True, check=True
        )
        return set(done.stdout.split())

    def test_noSettings(self) -> None:
        """Without settings none of these modules is imported."""
        assert self.loaded("") & set(self.PARTS) == set()

    @pytest.mark.parametrize("text", sorted({*PARTS.values()} - {""}))
    def test_asked(self, text: str) -> None:
        """
        A module that the settings need is imported with the broker, and not when a client connects.
        """
        assert self.loaded(text) >= {
            part for part, example in self.PARTS.items() if example == text
        }


class TestClosedConnections:
    """The number of closed connections that are remembered."""

    @pytest.mark.parametrize(
        ("text", "remembered"),
        [("max_closed_clients: 2", 2), ("max_closed_clients: 0", 3), ("", 3)],
    )
    def test_remembered(self, text: str, remembered: int) -> None:
        """
        C{max_closed_clients} sets the number of remembered connections. Without a value, or with 0,
        it is very large, as in nats-server.
        """
        host = Host(text).start()
        for _ in range(3):
            host.client(b"bad\r\n")
        assert len(host.broker.clientContext.connections.closed) == remembered


class TestStopping:
    """The stop of a broker."""

    def test_order(self) -> None:
        """Clients are disconnected without an error, and the stop is logged."""
        host = Host().start()
        client = host.client()
        with logLines() as lines:
            done = outcome(host.broker.stopService())
            host.settle()
        assert done == [None]
        assert (client.closed, client.receive()) == ("lost", b"")
        assert lines[0] == "[INF] Initiating Shutdown..."
        assert "[INF] Server Exiting.." in lines
        assert not host.broker.listeners.isOpen
        assert not host.broker.running

    def test_waits(self) -> None:
        """The stop waits a limited time for clients to read their output."""
        host = Host().start()
        client = host.client()
        client.transport.taking = False
        client.transport.send(b"PING\r\n")
        done = outcome(host.broker.stopService())
        host.settle()
        assert done == []
        host.advance(1.1)
        assert done == [None]

    def test_startedTwice(self) -> None:
        """The broker can be started again after a stop."""
        host = Host("port: 4222").start()
        outcome(host.broker.stopService())
        host.start()
        assert host.client().ask(b"PING\r\n") == b"PONG\r\n"

    def test_nothingLeft(self) -> None:
        """No timer is left after a stop."""
        host = Host().start()
        host.client()
        outcome(host.broker.stopService())
        host.settle()
        assert [call for call in host.reactor.getDelayedCalls() if call.active()] == []


class TestLameDuck:
    """Lame duck mode."""

    TIMES = 'lame_duck_grace_period: "1s"\nlame_duck_duration: "30s"'

    def test_lameDuckMode(self) -> None:
        """
        In lame duck mode new clients are refused, clients are notified and disconnected, and
        observers are notified.
        """

        @implementer(IObserver)
        class Observer(Advisories):
            pass

        observer = Observer()
        host = Host(self.TIMES, observers=[observer]).start()
        client = host.client(b'CONNECT {"verbose":false,"protocol":1}\r\n')
        with logLines() as lines:
            done = outcome(host.broker.lameDuck())
            assert not host.broker.listeners.isOpen
            assert host.broker.isLameDuck
            assert json.loads(client.receive()[5:])["ldm"] is True
            host.advance(0.9)
            assert done == []
            host.advance(0.3)
        assert done == [None]
        assert client.closed
        assert LameDuckStarted() in observer.seen
        assert [line for line in lines if "[INF]" in line] == [
            "[INF] Entering lame duck mode, stop accepting new clients",
            "[INF] Closing existing clients",
        ]

    def test_health(self) -> None:
        """In lame duck mode the health page reports that no client can connect."""
        host = Host(self.TIMES).start()
        healthz = host.broker.monitoring.healthz
        assert healthz.problems(HealthQuery()) == []
        host.broker.lameDuck()
        assert [problem.status for problem in healthz.problems(HealthQuery())] == [500]

    def test_lameDuckModeBeginsOnce(self) -> None:
        """Lame duck mode can be started once only."""
        host = Host().start()
        host.broker.lameDuck()
        with pytest.raises(errors.BrokerError):
            host.broker.lameDuck()

    def test_stopMeanwhile(self) -> None:
        """A stop ends lame duck mode."""
        host = Host(self.TIMES).start()
        client = host.client()
        done = outcome(host.broker.lameDuck())
        stopped = outcome(host.broker.stopService())
        host.settle()
        assert (done, stopped) == ([None], [None])
        assert client.closed


class TestMonitoring:
    """The monitoring pages, which are made on demand."""

    def test_madeLate(self) -> None:
        """The pages show the same times, whenever their model is made."""
        early, late = Host("max_payload: 10").start(), Host("max_payload: 10").start()
        first = early.broker.monitoring
        for host in (early, late):
            host.reactor.advance(100)
            host.broker.reload(settingsOf("max_payload: 20"))
            host.reactor.advance(100)
        assert early.broker.monitoring is first
        told, toldLate = self.varz(early), self.varz(late)
        assert told == toldLate
        assert told["max_payload"] == 20 and told["start"] != told["config_load_time"]

    def varz(self, host: Host) -> dict[str, Any]:
        """The times in /varz, and one setting."""
        answer = host.broker.monitoring.answer("/varz", {})
        assert answer is not None
        page = json.loads(b"".join(answer.body))
        keys = ("start", "config_load_time", "uptime", "max_payload")
        return {key: page[key] for key in keys}


class TestReload:
    """Reloads. The effect of each setting is tested beside its planner."""

    def test_newSettings(self) -> None:
        """A reload applies the new settings, updates INFO, and notifies observers."""

        @implementer(IObserver)
        class Observer(Advisories):
            pass

        observer = Observer()
        host = Host("max_payload: 100", observers=[observer]).start()
        host.broker.reload(settingsOf("max_payload: 50"))
        assert host.broker.settings.max_payload == 50
        assert json.loads(host.dial().receive()[5:])["max_payload"] == 50
        assert observer.seen == [Reloaded(("max_payload",))]

    def test_planned(self) -> None:
        """A planned reload changes nothing until it is applied."""
        host = Host()
        host.start()
        before = host.broker.settings
        with logLines() as lines:
            putIntoForce = host.broker.planReload(settingsOf("max_payload: 50"))
            assert (host.broker.settings, lines) == (before, [])
            putIntoForce()
        assert host.broker.settings.max_payload == 50
        assert lines[0] == "[INF] Reloaded: max_payload = 50"

    def test_refusedWhole(self) -> None:
        """A reload with one refused change changes nothing."""
        host = Host("port: 4001\nmax_payload: 100").start()
        before = host.broker.settings
        with pytest.raises(ReloadError):
            host.broker.reload(settingsOf("port: 4002\nmax_payload: 50"))
        assert host.broker.settings is before
        assert json.loads(host.dial().receive()[5:])["max_payload"] == 100

    def test_anyPort(self) -> None:
        """
        A reload keeps the port that the kernel chose if the settings leave the choice to the
        kernel.
        """
        host = Host("port: -1").start()
        host.broker.reload(settingsOf("port: -1\nmax_payload: 5"))
        assert host.broker.settings.max_payload == 5

    def test_noAsynchronousInfo(self) -> None:
        """Clients get no INFO at a reload (PROTOCOL part 1.1)."""
        host = Host("max_payload: 100").start()
        client = host.client(b'CONNECT {"verbose":false,"protocol":1}\r\n')
        host.broker.reload(settingsOf("max_payload: 50"))
        assert client.receive() == b""

    def test_planner(self) -> None:
        """A program that embeds the broker may add planners for its own settings."""
        host = Host().start()
        seen: list[int] = []

        def plan(new: Any, changes: Any) -> Any:
            return lambda: seen.append(new.max_payload)

        host.broker.addPlanner(plan)
        host.broker.reload(settingsOf("max_payload: 50"))
        assert seen == [50]


class TestRevocation:
    """Revocations by an authorizer."""

    def test_allConnectionsAreChecked(self) -> None:
        """
        When an authorizer announces a revocation, every connection is checked again, and denied
        clients are disconnected.
        """
        authorizer = Denying()
        authorizer.open = True
        host = Host(authorizer=authorizer).start()
        client = host.client()
        assert not client.closed
        authorizer.revoke()
        assert not client.closed
        authorizer.open = False
        authorizer.revoke()
        assert client.receive() == b"-ERR 'Authorization Violation'\r\n"
        assert authorizer.asked == 3


def test_jetStreamStopsFirst() -> None:
    """A pull request that waits gets its status before the broker closes the connection."""
    memory = MemoryBroker(configText="jetstream { backend: memory }")
    memory.advance(0)
    client = memory.connect({"verbose": False, "headers": True, "no_responders": True})
    client.request(b"SUB _INBOX.> 1\r\n")
    for subject, request in (
        ("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]}),
        ("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C", "durable_name": "C"}}),
        ("CONSUMER.MSG.NEXT.S.C", {"batch": 1, "expires": 10**10}),
    ):
        text = json.dumps(request)
        client.request(f"PUB $JS.API.{subject} _INBOX.1 {len(text)}\r\n{text}\r\n".encode())
        memory.advance(0.1)
    client.receive()
    memory.stop()
    assert b"\r\nNATS/1.0 409 Server Shutdown\r\n" in client.receive()
    assert client.closed == "lost"


@needsCompiled
@pytest.mark.skipif(sys.platform != "linux", reason="epoll is Linux's")
def test_linksOverHub() -> None:
    """Routes use the poller like clients, if the reactor supports it."""
    from twisted.internet.epollreactor import EPollReactor

    makeReactor: Any = EPollReactor
    reactor = makeReactor()
    place = 'listen: "127.0.0.1:-1", cluster { name: C, listen: "127.0.0.1:-1" }'
    broker = Broker(settingsOf(place), reactor=reactor)
    ready = outcome(broker.whenReady())
    broker.startService()
    assert broker.membership is not None
    assert broker.membership.cluster.context.poller is not None
    while not ready:
        reactor.iterate(0.01)
    stopped = outcome(broker.stopService())
    while not stopped:
        reactor.iterate(0.01)
    reactor.fireSystemEvent("shutdown")
    reactor.removeAll()
    reactor._poller.close()
