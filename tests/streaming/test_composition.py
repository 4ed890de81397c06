"""
NATS Streaming, as the settings want it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError
from zope.interface import implementer

from natsbroker.config.model import Settings
from natsbroker.config.settings.streaming import Streaming
from natsbroker.errors import BrokerError
from natsbroker.interfaces import IBrokerService, IReadiness
from natsbroker.runtime.failures import StartError
from natsbroker.runtime.plugins import PluginError
from natsbroker.runtime.reload import ReloadError
from natsbroker.streaming import protocol
from natsbroker.testing.memory import MemoryBroker
from natsbroker.wire.columnar import readFrame
from tests.streaming.calls import asked, joined, publish, request


class TestBroker:
    """A broker with NATS Streaming."""

    def test_serves(self) -> None:
        """Clients of the broker are served, and the service has figures."""
        with MemoryBroker(configText="streaming {}") as broker:
            client = joined(broker)
            assert publish(client, "foo") == ""
            model = broker.broker.streaming
            assert model is not None
            assert (model.clientNames(), model.channel("foo").msgs) == (["me"], 1)

    def test_withoutBlock(self) -> None:
        """Without the block C{streaming}, requests are not answered and there are no figures."""
        with MemoryBroker() as broker:
            assert broker.broker.streaming is None
            assert not broker.bus().hasInterest(b"_STAN.discover.test-cluster")

    def test_permissions(self) -> None:
        """The grant of a connection decides about channels."""
        text = """
            streaming {}
            authorization { users: [ { user: u, password: p, permissions: {
                publish: ["_STAN.discover.>", "_STAN.pub.test-cluster.mine.>"] } } ] }
        """
        with MemoryBroker(configText=text) as broker:
            client = joined(broker, {"user": "u", "pass": "p"})
            assert publish(client, "mine.x") == ""
            message = protocol.PubMsg(clientID="me", guid="g", subject="yours", connID=b"c")
            ack = request(client, "_STAN.pub.test-cluster.mine.x", message, protocol.PubAck)
            assert ack.error == "stan: not authorized"

    def test_account(self) -> None:
        """The clients of another account are not served."""
        text = """
            streaming { account: A }
            accounts {
                A { users: [ {user: a, password: p} ] }
                B { users: [ {user: b, password: p} ] }
            }
        """
        with MemoryBroker(configText=text) as broker:
            assert publish(joined(broker, {"user": "a", "pass": "p"}), "foo") == ""
            assert not broker.bus("B").hasInterest(b"_STAN.discover.test-cluster")

    def test_unknownStore(self) -> None:
        """An unknown store is the reason why the broker cannot be made."""
        with pytest.raises(PluginError, match='no IStoreOpener named "moon"'):
            MemoryBroker(configText="streaming { store: moon }")

    def test_unknownAccount(self) -> None:
        """An account that does not exist is an error."""
        with pytest.raises(BrokerError, match="unknown account: A"):
            MemoryBroker(Settings(streaming=Streaming(account="A")))

    def test_storeCannotBeOpened(self) -> None:
        """If the store cannot be opened, the broker does not start, for that reason."""
        with pytest.raises(StartError, match='store "memory": unknown option "nonsense"'):
            MemoryBroker(configText="streaming { store_options { nonsense: 1 } }")

    def test_reload(self) -> None:
        """The block C{streaming} cannot be changed by a reload."""
        with MemoryBroker(configText="streaming {}") as broker:
            new = replace(broker.broker.settings, streaming=Streaming(cluster_id="other"))
            with pytest.raises(ReloadError, match="Streaming"):
                broker.broker.reload(new)


@implementer(IBrokerService, IReadiness)
class Slow(Service):
    """A service that takes its time."""

    name = "slow"

    def __init__(self) -> None:
        self.ready: Deferred[None] = Deferred()

    def makeService(self, host: Any, section: Any) -> Any:
        return self

    def whenPrepared(self) -> Deferred[None]:
        return self.ready


class TestPrepared:
    """Services that are not ready at once."""

    def test_clientsWait(self) -> None:
        """No client connects before every service is ready."""
        slow = Slow()
        with MemoryBroker(services=[slow]) as broker:
            with pytest.raises(ConnectionRefusedError):
                broker.connect()
            slow.ready.callback(None)
            broker.advance(0)
            assert broker.connect().receive().startswith(b"INFO")

    def test_serviceFails(self) -> None:
        """If a service cannot become ready, the broker does not start, for that reason."""
        slow = Slow()
        broker = MemoryBroker(services=[slow])
        outcome: list[Any] = []
        broker.broker.whenReady().addBoth(outcome.append)
        slow.ready.errback(ZeroDivisionError("no"))
        broker.advance(0)
        assert outcome[0].type is ZeroDivisionError
        broker.stop()


class TestPipeline:
    """Jobs that read stored messages."""

    def test_export(self) -> None:
        """A client finds a channel, and exports its messages."""
        with MemoryBroker(configText="streaming {}") as broker:
            client = joined(broker)
            assert publish(client, "foo") == ""
            assert json.loads(asked(client, "NAMES.test-cluster"))["names"] == ["foo"]
            frame = readFrame(asked(client, "EXPORT.test-cluster.foo", b'{"start": 1}'))
            assert (frame.rows, bytes(frame.payloads), frame.isLast) == (1, b"x", True)
            broker.advance(0)

    def test_info(self) -> None:
        """INFO shows whether frames are supported."""
        with MemoryBroker(configText="streaming {}") as broker:
            assert broker.connect({}).info["nb_export"] == 1
        with MemoryBroker() as broker:
            assert "nb_export" not in broker.connect({}).info

    def test_permissions(self) -> None:
        """
        The grant of a connection decides which requests a client may send, and about which
        channels.
        """
        text = """
            streaming {}
            authorization { users: [ { user: u, password: p, permissions: {
                publish: ["_STAN.>", "$NB.API.CHANNEL.EXPORT.test-cluster.mine.>"] } } ] }
        """
        with MemoryBroker(configText=text) as broker:
            client = joined(broker, {"user": "u", "pass": "p"})
            assert publish(client, "mine.x") == ""
            assert publish(client, "yours") == ""
            assert readFrame(asked(client, "EXPORT.test-cluster.mine.x", b'{"start": 1}')).rows == 1
            for call in ("EXPORT.test-cluster.yours", "HOLD.test-cluster.mine.x"):
                client.send(b"PUB $NB.API.CHANNEL.%b _INBOX.reply 0\r\n\r\n" % call.encode())
                assert b"Permissions Violation for Publish" in client.receive()

    def test_account(self) -> None:
        """Clients of another account cannot use the channels of the service."""
        text = """
            streaming { account: A }
            accounts {
                A { users: [ {user: a, password: p} ] }
                B { users: [ {user: b, password: p} ] }
            }
        """
        with MemoryBroker(configText=text) as broker:
            assert broker.bus("A").hasInterest(b"$NB.API.CHANNEL.NAMES.test-cluster")
            assert not broker.bus("B").hasInterest(b"$NB.API.CHANNEL.NAMES.test-cluster")
