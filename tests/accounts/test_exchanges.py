"""The exports and imports of accounts, from their settings to their messages."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest
from twisted.internet.task import Clock

from natsbroker import hot
from natsbroker.accounts.core import AccountDependencies
from natsbroker.accounts.exchanges import checkImports, describedIn, fromDomain, toDomain
from natsbroker.accounts.registry import AccountRegistry, BuiltInRouter
from natsbroker.config.model import AccountSettings, Settings
from natsbroker.config.settings.accounts import StreamImport
from natsbroker.runtime.reload import ReloadError
from natsbroker.testing.memory import MemoryBroker
from natsbroker.wire.values import Kind, Message
from tests.server.support import settingsOf
from tests.support import Recorder

ACCOUNTS = """
mappings { "g.in": "g.out" }
accounts {
    A {
        users: [ {user: a, password: x} ]
        exports: [
            {stream: "s.>"}, {stream: "t.>"}
            {service: "q.*", response_type: stream, threshold: "7s"}
            {service: lat, latency: {subject: results, sampling: 50}}
        ]
    }
    B {
        users: [ {user: b, password: x} ]
        mappings { in: out }
        imports: [
            {stream: {account: A, subject: "s.>"}, prefix: x}
            {service: {account: A, subject: "q.*"}, to: "p.*", share: true}
        ]
    }
}
"""


class Town:
    """
    A registry whose settings may change.
    """

    def __init__(self, text: str) -> None:
        self.clock = Clock()
        clock: Any = cast(Any, self.clock)
        batch = hot.FlushBatch(lambda call: None)
        self.registry = AccountRegistry(
            AccountDependencies(batch, Random(1), clock), lambda name: BuiltInRouter(64)
        )
        self.configure(text)

    def configure(self, text: str) -> None:
        """Use other settings."""
        self.registry.configure(settingsOf(text))

    def subscribe(self, account: str, pattern: bytes) -> Recorder:
        """Subscribe as a client."""
        recorder = Recorder()
        self.registry[account].busFor(Kind.CLIENT).subscribe(pattern, recorder, b"1")
        return recorder

    def publish(self, account: str, subject: bytes, reply: bytes = b"") -> int:
        """Publish a message as a client."""
        count: int = (
            self.registry[account].busFor(Kind.CLIENT).publish(Message(subject, b"hi", reply))
        )
        return count

    def mapped(self, account: str, subject: bytes) -> bytes:
        """The destination that a subject is mapped to."""
        return self.registry[account].busFor(Kind.CLIENT).mapped(subject)


class TestApplied:
    """The settings of exports and imports take effect."""

    def test_streams(self) -> None:
        """Subscribers get the messages of an imported stream under its new subjects."""
        town = Town(ACCOUNTS)
        recorder = town.subscribe("B", b"x.s.>")
        assert town.publish("A", b"s.1") == 1
        assert recorder.got[0][0].subject == b"x.s.1"

    def test_services(self) -> None:
        """Requests reach services, which answer as their export says."""
        town = Town(ACCOUNTS)
        service = town.subscribe("A", b"q.*")
        inbox = town.subscribe("B", b"inbox")
        town.publish("B", b"p.1", b"inbox")
        message = service.got[0][0]
        assert message.subject == b"q.1"
        for _ in range(3):
            town.publish("A", message.reply)
        assert len(inbox.got) == 3
        town.clock.advance(7.0)
        town.publish("A", message.reply)
        assert len(inbox.got) == 3

    def test_exports(self) -> None:
        """Exports have the terms of the settings."""
        town = Town(
            ACCOUNTS.replace("share: true}", "share: true}, {service: {account: A, subject: lat}}")
        )
        first, second = [
            subscription.subscriber.export
            for subscription in town.registry["B"].subscriptions()
            if hasattr(subscription.subscriber, "export")
        ]
        terms = {export.subject: export for export in (first, second)}
        assert terms["q.*"].response_type == "stream"
        assert (terms["q.*"].response_threshold, terms["q.*"].latency) == (7.0, None)
        latency = terms["lat"].latency
        assert (latency.subject, latency.sampling) == ("results", 50)

    def test_mappings(self) -> None:
        """Each account maps its own subjects."""
        town = Town(ACCOUNTS)
        assert town.mapped("$G", b"g.in") == b"g.out"
        assert (town.mapped("B", b"in"), town.mapped("A", b"in")) == (b"out", b"in")

    def test_clusterMappings(self) -> None:
        """Destinations that are configured for a cluster apply in that cluster only."""
        text = "mappings { a: [ {dest: b, weight: 100}, {dest: c, weight: 100, cluster: X} ] }\n"
        assert Town(text).mapped("$G", b"a") == b"b"
        for block in ("cluster", "gateway"):
            for name, mapped in (("X", b"c"), ("Y", b"b")):
                town = Town(text + f"{block} {{ name: {name}, listen: '127.0.0.1:1' }}")
                assert town.mapped("$G", b"a") == mapped

    def test_systemAccount(self) -> None:
        """The configured system account is marked as such, and no other account is."""
        town = Town(ACCOUNTS)
        assert town.registry["$SYS"].isSystem
        assert not town.registry["A"].isSystem


def apiImports(town: Town, account: str) -> list[bytes]:
    """The patterns that an account imports of JetStream's API."""
    return [
        subscription.pattern
        for subscription in town.registry[account].subscriptions()
        if subscription.pattern.startswith(b"$JS.")
    ]


class TestJetStream:
    """The JetStream of other servers is reached through imports."""

    IN_CLUSTER = 'cluster { name: C1, listen: "127.0.0.1:6222" }\n'

    def test_import(self) -> None:
        """
        A request of an account with the import reaches the system account, with the name of the
        requesting account.
        """
        town = Town("accounts { SYS {}, A { jetstream: enabled }, B {} }\nsystem_account: SYS")
        api = town.subscribe("SYS", b"$JS.API.>")
        assert town.publish("A", b"$JS.API.INFO", b"inbox") == 1
        assert town.publish("B", b"$JS.API.INFO", b"inbox") == 0
        message = api.got[0][0]
        assert (message.subject, message.reply[:4]) == (b"$JS.API.INFO", b"_R_.")
        assert b'Nats-Request-Info: {"acc":"A"}' in message.headers

    def test_reload(self) -> None:
        """The import of a JetStream comes and goes with a reload."""
        text = "accounts { A { jetstream: %s } }"
        town = Town(text % "disabled")
        assert apiImports(town, "A") == []
        town.configure(text % "enabled")
        assert apiImports(town, "A") == [b"$JS.API.>"]
        town.configure(text % "disabled")
        assert apiImports(town, "A") == []

    @pytest.mark.parametrize(
        ("text", "isThere"),
        [
            (IN_CLUSTER, True),
            ('gateway { name: C1, listen: "127.0.0.1:7222" }', True),
            ("", False),
            (IN_CLUSTER + "no_system_account: true", False),
            (IN_CLUSTER + "accounts { A {} }", False),
        ],
    )
    def test_withoutAccounts(self, text: str, isThere: bool) -> None:
        """The global account imports the cluster's JetStream if the settings name no accounts."""
        assert apiImports(Town(text + "\nport: 4222"), "$G") == [b"$JS.API.>"] * isThere

    def test_ownImport(self) -> None:
        """An account that imports the API by itself does not import it a second time."""
        town = Town(
            """
            system_account: SYS
            accounts {
                SYS { exports: [ {service: "$JS.API.>"} ] }
                A {
                    jetstream: enabled
                    imports: [ {service: {account: SYS, subject: "$JS.API.>"}} ]
                }
            }
            """
        )
        assert apiImports(town, "A") == [b"$JS.API.>"]

    def test_domain(self) -> None:
        """Requests may name the domain, and the account's own mappings still apply."""
        town = Town(
            """
            jetstream { enabled: false, domain: hub }
            accounts {
                A { jetstream: enabled, mappings { "$JS.hub.API.INFO": mine } }
                B {}
            }
            """
        )
        assert town.mapped("A", b"$JS.hub.API.STREAM.INFO.S") == b"$JS.API.STREAM.INFO.S"
        assert town.mapped("A", b"$JS.hub.API.INFO") == b"mine"
        assert town.mapped("B", b"$JS.hub.API.INFO") == b"$JS.hub.API.INFO"

    def test_defaultDomain(self) -> None:
        """Requests of other accounts without a domain get the account's own domain."""
        town = Town('accounts { A {}, B {} }\ndefault_js_domain { A: hub, "$G": far }')
        assert town.mapped("A", b"$JS.API.STREAM.INFO.S") == b"$JS.hub.API.STREAM.INFO.S"
        assert town.mapped("$G", b"$JS.API.INFO") == b"$JS.far.API.INFO"
        assert town.mapped("B", b"$JS.API.INFO") == b"$JS.API.INFO"


class TestReload:
    """A reload applies the changed settings, and touches nothing else."""

    def test_streams(self) -> None:
        """Streams are imported and removed while subscriptions exist."""
        town = Town(ACCOUNTS)
        recorder = town.subscribe("B", b">")
        town.publish("A", b"s.1")
        town.configure(ACCOUNTS.replace('subject: "s.>"}, prefix: x', 'subject: "t.>"}, to: "y.>"'))
        town.publish("A", b"s.2")
        town.publish("A", b"t.3")
        assert [message.subject for message, _ in recorder.got] == [b"x.s.1", b"y.3"]

    def test_mappings(self) -> None:
        """A reload replaces mappings."""
        town = Town(ACCOUNTS)
        town.configure(ACCOUNTS.replace("in: out", "in: elsewhere").replace("g.in", "g.other"))
        assert (town.mapped("B", b"in"), town.mapped("$G", b"g.in")) == (b"elsewhere", b"g.in")
        town.configure("port: 4222")
        assert town.mapped("$G", b"g.other") == b"g.other"

    def test_sameServicesStay(self) -> None:
        """A service whose configuration is unchanged keeps its pending requests."""
        town = Town(ACCOUNTS)
        service, inbox = town.subscribe("A", b"q.*"), town.subscribe("B", b"inbox")
        town.publish("B", b"p.1", b"inbox")
        before = list(town.registry["B"].subscriptions())
        town.configure(ACCOUNTS + "max_payload: 99\n")
        assert list(town.registry["B"].subscriptions()) == before
        town.publish("A", service.got[0][0].reply)
        assert len(inbox.got) == 1

    def test_otherTerms(self) -> None:
        """New terms of a service apply to later requests. Earlier requests are still answered."""
        town = Town(ACCOUNTS)
        service, inbox = town.subscribe("A", b"q.*"), town.subscribe("B", b"inbox")
        town.publish("B", b"p.1", b"inbox")
        town.configure(ACCOUNTS.replace("response_type: stream", "response_type: single"))
        town.publish("B", b"p.2", b"inbox")
        for message, _ in list(service.got):
            for _ in range(2):
                town.publish("A", message.reply)
        assert len(inbox.got) == 3

    def test_removedAccount(self) -> None:
        """An account that the settings name no longer has no imports and exports."""
        town = Town(ACCOUNTS)
        exporter = town.registry["A"]
        town.subscribe("A", b"q.*")
        town.subscribe("B", b"x.>")
        town.publish("B", b"p.1", b"inbox")
        assert len(exporter) == 3
        town.configure("port: 4222")
        assert len(exporter) == 0
        assert town.clock.getDelayedCalls() == []

    def test_close(self) -> None:
        """A closed registry has no timers."""
        town = Town(ACCOUNTS)
        town.subscribe("A", b"q.*")
        town.publish("B", b"p.1", b"inbox")
        assert town.clock.getDelayedCalls()
        town.registry.close()
        assert town.clock.getDelayedCalls() == []


class TestChecked:
    """Invalid exports and imports."""

    def settings(self) -> Settings:
        """Settings that no configuration file can express."""
        settings = settingsOf(ACCOUNTS)
        wrong = replace(settings.accounts["B"], imports=(StreamImport("A", "u", "u"),))
        return replace(settings, accounts={**settings.accounts, "B": wrong})

    def test_valid(self) -> None:
        """Exports and imports that fit together are accepted."""
        checkImports(settingsOf(ACCOUNTS))

    def test_importWithoutExport(self) -> None:
        """An import without its export is refused before anything changes."""
        with pytest.raises(ValueError, match=r"accounts\.B: .* stream import not authorized"):
            checkImports(self.settings())
        town = Town(ACCOUNTS)
        with pytest.raises(ValueError, match="not authorized"):
            town.registry.configure(self.settings())
        assert town.mapped("B", b"in") == b"out"

    def test_reload(self) -> None:
        """A reload with an invalid export or import is refused before anything changes."""
        with MemoryBroker(configText=ACCOUNTS) as broker:
            with pytest.raises(ReloadError, match="not authorized"):
                broker.broker.reload(self.settings())

    def test_described(self) -> None:
        """Mappings at the top level of the file belong to the global account."""
        described = describedIn(settingsOf(ACCOUNTS))
        assert set(described) == {"$G", "A", "B"}
        assert isinstance(described["$G"], AccountSettings)
        assert describedIn(Settings()) == {}


class TestBroker:
    """The whole broker."""

    def test_live(self) -> None:
        """Clients see a reload of imports and mappings at once."""
        hello = {"verbose": False, "pass": "x", "headers": True}
        with MemoryBroker(configText=ACCOUNTS) as broker:
            a = broker.connect({**hello, "user": "a"})
            b = broker.connect({**hello, "user": "b"})
            b.request(b"SUB > 1\r\n")
            a.request(b"PUB s.1 2\r\nhi\r\nPUB t.1 2\r\nhi\r\n")
            assert b.request(b"PUB in 1\r\nx\r\n") == (
                b"MSG x.s.1 1 2\r\nhi\r\nMSG out 1 1\r\nx\r\n"
            )
            text = ACCOUNTS.replace("s.>", "u.>").replace("in: out", "in: there")
            broker.broker.reload(settingsOf(text + "host: 127.0.0.1\n"))
            a.request(b"PUB s.1 2\r\nhi\r\nPUB u.1 2\r\nhi\r\n")
            assert b.request(b"PUB in 1\r\nx\r\n") == (
                b"MSG x.u.1 1 2\r\nhi\r\nMSG there 1 1\r\nx\r\n"
            )

    def test_stops(self) -> None:
        """A broker that stops leaves no timers."""
        with MemoryBroker(configText=ACCOUNTS) as broker:
            b = broker.connect({"user": "b", "pass": "x", "verbose": False})
            a = broker.connect({"user": "a", "pass": "x", "verbose": False, "headers": True})
            a.request(b"SUB q.* 1\r\n")
            b.request(b"SUB inbox 1\r\nPUB p.1 inbox 1\r\nx\r\n")
        assert broker.reactor.getDelayedCalls() == []


def test_mappings() -> None:
    """The mappings from a domain and to a domain reverse each other."""
    back = {mapping.source: mapping.destinations[0].dest for mapping in fromDomain("hub")}
    assert back["$JS.hub.API.STREAM.>"] == "$JS.API.STREAM.>"
    assert back["$JS.hub.API.INFO"] == "$JS.API.INFO"
    assert back["$JS.hub.API.$KV.>"] == "$KV.>"
    assert len(back) == 9
    there = {mapping.source: mapping.destinations[0].dest for mapping in toDomain("hub")}
    assert there == {plain: prefixed for prefixed, plain in back.items()}
