"""
A stage on which NATS Streaming and JetStream share channels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import succeed

from natsbroker.config.model import JetStream
from natsbroker.config.settings.streaming import Streaming
from natsbroker.jetstream.channels.channelstreams import ChannelStreams
from natsbroker.jetstream.model.limits import AccountAllowance, JetStreamLimits
from natsbroker.jetstream.service import JetStreamService
from natsbroker.storage.memory import MemoryStore
from natsbroker.streaming.service import StreamingService
from natsbroker.wire.values import Kind, Message
from tests.jetstream.support import Inbox, hostOf
from tests.streaming.support import Stage


class SharedStage(Stage):
    """
    Account A has the channels that are given to it.

    @ivar jetstream: its JetStream, which runs while NATS Streaming may not.
    """

    def __init__(
        self,
        accounts: Mapping[str, str] = {">": "A"},
        limits: JetStreamLimits | None = None,
        **settings: Any,
    ) -> None:
        self.links = ChannelStreams(Streaming(jetstream_accounts=accounts).accountOf, True)
        self._limits = limits or JetStreamLimits()
        self.files: Any = None
        super().__init__(Streaming(jetstream_accounts=accounts, **settings))
        self.files = MemoryStore(self.clock, now=self.now)
        self.jetstream = self._makeJetStream()
        self.startJetStream()

    def _makeService(self) -> StreamingService:
        return StreamingService(
            self.account.busFor(Kind.INTERNAL),
            self.clock,
            lambda: self.opening(),
            self.settings,
            self.clock.seconds,
            self.now,
            self.newInbox,
            [self.links],
        )

    def _makeJetStream(self) -> JetStreamService:
        files: Any = _Kept(self.files)
        host = hostOf(self.account, self.clock)
        made = JetStreamService(host, JetStream(), lambda: succeed(files), channels=self.links)
        made.change("A", AccountAllowance(self._limits))
        return made

    def startJetStream(self) -> None:
        """Start JetStream; it is ready afterwards."""
        self.jetstream.startService()
        self.settle()
        assert self.jetstream.isRunning

    def stopJetStream(self) -> None:
        """Stop JetStream."""
        self.jetstream.stopService()
        self.settle()

    def restartJetStream(self) -> None:
        """Start a new JetStream on what its store has."""
        self.jetstream = self._makeJetStream()
        self.startJetStream()

    def inbox(self, subject: bytes) -> Inbox:
        """A subscription of a client."""
        inbox = Inbox()
        self.bus.subscribe(subject, inbox)
        return inbox

    def tell(self, subject: str, body: Any = b"", reply: bytes = b"") -> None:
        """Send something as a client."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.bus.publish(Message(subject.encode(), data, reply, origin=self))

    def answers(self, subject: str, body: Any = b"") -> list[Message]:
        """All that a request is answered with at once."""
        inbox = Inbox()
        subscription = self.bus.subscribe(b"_INBOX.js", inbox)
        self.tell(subject, body, b"_INBOX.js")
        self.settle()
        subscription.cancel()
        return inbox.got

    def js(self, subject: str, body: Any = b"") -> Any:
        """The answer to a request behind C{$JS.API.}."""
        (answer,) = self.answers(f"$JS.API.{subject}", body)
        return json.loads(answer.payload)

    def failure(self, subject: str, body: Any = b"") -> tuple[int, str]:
        """The number and the text of the error that a request is answered with."""
        error = self.js(subject, body)["error"]
        return error["err_code"], error["description"]

    def durable(self, stream: str, name: str = "d", **config: Any) -> Any:
        """Create a durable consumer."""
        config = {"durable_name": name, "ack_policy": "explicit", **config}
        body = {"stream_name": stream, "config": config}
        return self.js(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", body)

    def fetch(self, stream: str, name: str = "d", batch: int = 10) -> list[Message]:
        """The messages that a consumer has now."""
        body = {"batch": batch, "no_wait": True}
        messages = self.answers(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", body)
        return [message for message in messages if message.reply]


class _Kept:
    """
    A store that is not closed with the service that uses it.
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def close(self) -> Any:
        """Leave the store as it is."""
        return succeed(None)
