"""
Clients that connect, and clients that have vanished.
"""

from __future__ import annotations

import pytest

from natsbroker.config.settings.streaming import Streaming
from natsbroker.interfaces.records import StoreClosed, StoreError, StoreFailed, StoreFull
from natsbroker.streaming import errors, protocol
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.grants import Grant
from tests.links.test_origins import Moon
from tests.streaming.stores import HeldStore
from tests.streaming.support import Client, Stage

DISCOVER = b"_STAN.discover.test-cluster"


def held(stage: Stage) -> HeldStore:
    """A store whose commits can wait."""
    return HeldStore(Stage.makeStore(stage))


class TestConnect:
    """The answers to connect requests."""

    def test_welcome(self) -> None:
        """The response names all subjects and repeats the ping settings."""
        response = Client(Stage(), "me").connect()
        assert response == protocol.ConnectResponse(
            pubPrefix="_STAN.pub.test-cluster",
            subRequests="_STAN.sub.test-cluster",
            unsubRequests="_STAN.unsub.test-cluster",
            closeRequests="_STAN.close.test-cluster",
            subCloseRequests="_STAN.subclose.test-cluster",
            pingRequests="_STAN.discover.test-cluster.pings",
            pingInterval=5,
            pingMaxOut=3,
            protocol=1,
        )

    def test_peer(self) -> None:
        """The heartbeat inbox of a client of another server must be below C{_INBOX}."""
        stage = Stage()
        for inbox, error in (("orders", errors.INVALID_CONNECTION_REQUEST), ("_INBOX.x", "")):
            asked = protocol.ConnectRequest(clientID="me", heartbeatInbox=inbox, protocol=1)
            answer = stage.ask(DISCOVER, asked, protocol.ConnectResponse, Moon("$G", "m-1"))
            assert answer.error == error

    def test_protocolZero(self) -> None:
        """An old client gets no ping settings in the response."""
        response = Client(Stage(), "me", connID=b"", protocolNumber=0).connect()
        assert (response.pingRequests, response.pingInterval, response.pingMaxOut) == ("", 0, 0)
        assert response.protocol == 1

    def test_cluster(self) -> None:
        """A client of another cluster gets no answer."""
        stage = Stage()
        client = Client(stage, "me")
        client.cluster = b"other"
        assert client.connect() is None

    @pytest.mark.parametrize("clientID", ["", "a.b", "a b", "a/../b", "a*", "\xe9"])
    def test_clientID(self, clientID: str) -> None:
        """An invalid client id is refused."""
        assert Client(Stage(), clientID, connID=b"c").connect().error == errors.INVALID_CLIENT_ID

    @pytest.mark.parametrize("payload", [b"", b"garbage", b"\xff\xff"])
    def test_garbage(self, payload: bytes) -> None:
        """Bytes that are no connect request are refused."""
        response = Stage().ask(DISCOVER, payload, protocol.ConnectResponse)
        assert response.error == errors.INVALID_CONNECTION_REQUEST

    @pytest.mark.parametrize("inbox", ["", "a..b", "a.*", "a b", "a\r\nb"])
    def test_inbox(self, inbox: str) -> None:
        """A heartbeat inbox must be a subject that messages can be sent to."""
        response = Client(Stage(), "me").connect(heartbeatInbox=inbox)
        assert response.error == errors.INVALID_CONNECTION_REQUEST

    def test_inboxOfOthers(self) -> None:
        """A heartbeat inbox to which the client may not subscribe is refused."""
        grant = Grant(user="u", subscribe=SubscribePermissions([b"_INBOX.client.>"]))
        client = Client(Stage(), "me", grant)
        refused = client.connect(heartbeatInbox="_INBOX.other")
        assert refused.error == errors.INVALID_CONNECTION_REQUEST
        assert client.connect().error == ""

    def test_durable(self) -> None:
        """A connect request is answered when the client is stored durably."""
        stage = Stage(makeStore=held)
        client = Client(stage, "me")
        stage.store.isHeld = True
        assert client.connect() is None
        stage.store.commit()
        assert stage.model.clientNames() == ["me"]

    def test_notStored(self) -> None:
        """A client that cannot be stored because the store is closed receives an error and is not
        connected."""
        stage = Stage(makeStore=held)
        stage.store.failing = StoreClosed("the store is closed")
        client = Client(stage, "me")
        assert client.connect().error == "the store is closed"
        assert stage.model.clientNames() == []
        stage.store.failing = None
        assert client.connect().error == ""

    @pytest.mark.parametrize("error", [StoreFull("no space"), StoreFailed("broken")])
    def test_storeTakesNoWrites(self, error: StoreError) -> None:
        """A client may connect while the store accepts no writes. It is stored later."""
        stage = Stage(makeStore=held)
        stage.store.failing = error
        client = Client(stage, "me")
        assert client.connect().error == ""
        assert client.ping() == ""
        stage.advance(3)
        stage.store.failing = None
        stage.advance(2)
        stage.crash()
        stage.restart()
        assert stage.model.clientNames() == ["me"]

    def test_leavesBeforeItIsWritten(self) -> None:
        """A client that left before it could be stored is not stored later."""
        stage = Stage(makeStore=held)
        stage.store.failing = StoreFull("no space")
        client = Client(stage, "me")
        client.connect()
        client.close()
        stage.store.failing = None
        stage.advance(3)
        stage.crash()
        stage.restart()
        assert stage.model.clientNames() == []


class TestDuplicates:
    """Two clients with one id."""

    def test_alive(self) -> None:
        """While the first client answers heartbeats, the second is refused at once."""
        stage = Stage()
        first = stage.client()
        assert Client(stage, "me", connID=b"2").connect().error == errors.ALREADY_REGISTERED
        assert (first.ping(), first.beats) == ("", 1)

    def test_dead(self) -> None:
        """If the first client does not answer for half a second, the second replaces it."""
        stage = Stage()
        first = stage.client()
        listener = first.subscribe("foo")
        first.isAlive = False
        second = Client(stage, "me", connID=b"2")
        assert second.connect() is None
        stage.advance(0.49)
        assert second.ping() == errors.REPLACED
        stage.advance(0.02)
        assert second.ping() == ""
        assert first.ping() == errors.REPLACED
        assert first.publish("foo", b"x") == errors.INVALID_PUBLISH_REQUEST
        assert second.publish("foo", b"y") == ""
        assert listener.data == []

    def test_oldClientIsGone(self) -> None:
        """If the old client has no subscriber, the second replaces it at once."""
        stage = Stage()
        stage.client().heartbeats.close()
        assert Client(stage, "me", connID=b"2").connect().error == ""

    def test_atTheSameTime(self) -> None:
        """While the first client is being checked, a third is refused."""
        stage = Stage()
        stage.client().isAlive = False
        second, third = Client(stage, "me", connID=b"2"), Client(stage, "me", connID=b"3")
        assert second.connect() is None
        assert third.connect().error == errors.ALREADY_REGISTERED
        stage.advance(0.5)
        assert (second.ping(), third.ping()) == ("", errors.REPLACED)

    def test_closesWhileAsked(self) -> None:
        """If the first client leaves while it is being checked, the second is accepted."""
        stage = Stage()
        first = stage.client()
        first.isAlive = False
        second = Client(stage, "me", connID=b"2")
        assert second.connect() is None
        assert first.close() == ""
        stage.advance(0.5)
        assert second.ping() == ""

    def test_durableGoesToTheNewOne(self) -> None:
        """A client that replaces another one can resume its durable subscription."""
        stage = Stage()
        first = stage.client()
        first.subscribe("foo", durableName="d", isAcking=False)
        first.publish("foo", b"1")
        first.heartbeats.close()
        second = stage.client(connID=b"2")
        assert second.subscribe("foo", durableName="d").again == [(1, 1)]

    def test_user(self) -> None:
        """A second client of another user is refused, whether the first answers or not."""
        stage = Stage()
        stage.client(grant=Grant(user="alice")).heartbeats.close()
        bob = Client(stage, "me", Grant(user="bob"), connID=b"2")
        assert bob.connect().error == errors.ALREADY_REGISTERED
        assert Client(stage, "me", Grant(user="alice"), connID=b"3").connect().error == ""


class TestPings:
    """L{ConnectHandler.ping}."""

    def test_knownClient(self) -> None:
        """The answer to a connected client is empty."""
        assert Stage().client().ping() == ""

    def test_unknown(self) -> None:
        """The answer to an unknown connection is an error."""
        stage = Stage()
        client = stage.client()
        assert client.ping(b"other") == errors.REPLACED
        client.close()
        assert client.ping() == errors.REPLACED

    @pytest.mark.parametrize("payload", [b"", b"\xff\xff"])
    def test_garbage(self, payload: bytes) -> None:
        """A message that is no ping gets no answer."""
        assert Stage().ask(DISCOVER + b".pings", payload, protocol.PingResponse) is None


class TestHeartbeats:
    """Finding out that a client is dead."""

    QUICK = Streaming(hb_interval=1.0, hb_timeout=1.0, hb_fail_count=2)

    def test_interval(self) -> None:
        """A client gets a heartbeat every 30 seconds. Any answer counts."""
        stage = Stage()
        client = stage.client()
        stage.advance(29.9)
        assert client.beats == 0
        stage.advance(0.2)
        assert client.beats == 1
        stage.advance(300)
        assert client.beats == 11
        assert client.ping() == ""

    def test_dead(self) -> None:
        """
        A client that leaves more heartbeats unanswered than allowed is removed with its
        subscriptions; its durable ones can be resumed.
        """
        stage = Stage(self.QUICK)
        client = stage.client()
        client.subscribe("foo")
        client.subscribe("foo", durableName="d")
        client.isAlive = False
        # One second to the first, and two for each that follows.
        stage.advance(5.9)
        assert stage.model.clientNames() == ["me"]
        stage.advance(0.2)
        assert stage.model.clientNames() == []
        assert [
            subscription.is_offline for subscription in stage.model.channelSubscriptions("foo")
        ] == [True]

    def test_recovers(self) -> None:
        """A single answer resets the count of unanswered heartbeats."""
        stage = Stage(self.QUICK)
        client = stage.client()
        client.isAlive = False
        stage.advance(4.1)
        client.isAlive = True
        stage.advance(1)
        client.isAlive = False
        stage.advance(5)
        assert stage.model.clientNames() == ["me"]
        stage.advance(2)
        assert stage.model.clientNames() == []

    def test_nobodyThere(self) -> None:
        """If the inbox has no subscriber, a heartbeat fails at once."""
        stage = Stage(self.QUICK)
        stage.client().heartbeats.close()
        stage.advance(2.9)
        assert stage.model.clientNames() == ["me"]
        stage.advance(0.2)
        assert stage.model.clientNames() == []

    def test_pingHastens(self) -> None:
        """A ping from a client that failed a heartbeat makes the next heartbeat come at once."""
        stage = Stage(self.QUICK)
        client = stage.client()
        client.isAlive = False
        stage.advance(2.05)
        assert client.beats == 1
        assert client.ping() == ""
        stage.advance(0.01)
        assert client.beats == 2
        stage.advance(1)
        client.ping()
        stage.advance(1.01)
        assert stage.model.clientNames() == []

    def test_pingOfHealthyClient(self) -> None:
        """A ping from a client that answers its heartbeats changes nothing."""
        stage = Stage(self.QUICK)
        client = stage.client()
        client.ping()
        stage.advance(0.5)
        assert client.beats == 0

    def test_closed(self) -> None:
        """A client that has left gets no more heartbeats."""
        stage = Stage(self.QUICK)
        client = stage.client()
        client.close()
        stage.advance(10)
        assert client.beats == 0

    def test_closedWhileAsked(self) -> None:
        """A client that leaves while a heartbeat is unanswered gets no more heartbeats."""
        stage = Stage(self.QUICK)
        client = stage.client()
        client.isAlive = False
        stage.advance(1.5)
        client.close()
        stage.advance(10)
        assert (client.beats, stage.model.clientNames()) == (1, [])

    def test_storeFails(self) -> None:
        """A dead client is removed although its end cannot be stored now. It is stored later."""
        stage = Stage(self.QUICK, makeStore=held)
        client = stage.client()
        client.isAlive = False
        stage.store.failing = StoreFull("no space")
        stage.advance(10)
        assert stage.model.clientNames() == []
        stage.store.failing = None
        stage.advance(2)
        stage.crash()
        stage.restart()
        assert stage.model.clientNames() == []
