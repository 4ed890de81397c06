"""
A broker with every service that one broker can have, and the messages that its services have
received.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from zope.interface import implementer

from natsbroker import hot
from natsbroker.interfaces import ILinkSubscriber
from natsbroker.subjects.grammar import matches
from natsbroker.testing.memory import MemoryBroker
from natsbroker.wire.reserved import isReservedReply
from natsbroker.wire.values import Kind, Message

CONFIG = """
    jetstream { backend: memory }
    streaming { account: A, hb_interval: 10s, hb_fail_count: 1000000 }
    system_account: S
    accounts {
        S { users: [ {user: S, password: p} ] }
        A {
            jetstream: enabled
            users: [
                {user: A, password: p}
                {user: limited, password: p, permissions: {publish: "m.>"}}
            ]
            exports: [ {service: "svc"}, {stream: ">"} ]
        }
        I {
            jetstream: enabled
            users: [ {user: I, password: p} ]
            imports: [
                {service: {account: A, subject: "svc"}}
                {stream: {account: A, subject: ">"}}
            ]
        }
    }
"""

#: The accounts that have users.
ACCOUNTS = ("A", "I", "S")


@implementer(ILinkSubscriber)
class Peer:
    """Another broker, which is interested in every subject."""

    cluster = b""

    def __init__(self) -> None:
        self.forwarded: Counter[bytes] = Counter()

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        self.forwarded[message.subject] += 1


class AttackedBroker:
    """
    A broker, a client of each account, and peers.

    @ivar published: what the clients have published, by account.
    """

    def __init__(self) -> None:
        self.memory = MemoryBroker(configText=CONFIG)
        self.memory.advance(0.1)
        self.published: dict[str, Counter[bytes]] = {name: Counter() for name in ACCOUNTS}
        self.peers: dict[str, Peer] = {}
        self._clients = {name: self._client(name) for name in (*ACCOUNTS, "limited")}
        self._number = 0
        for name in ACCOUNTS:
            self._clients[name].send(b"SUB _INBOX.> 1\r\nSUB heard.> 2\r\n")
        self._clients["A"].send(b"SUB svc 3\r\n")
        for name in ACCOUNTS:
            peer = self.peers[name] = Peer()
            for kind in (Kind.ROUTE, Kind.SPOKE):
                self.account(name).busFor(kind).subscribe(b">", peer)
        self.settle()

    def _client(self, user: str) -> Any:
        options = {"user": user, "pass": "p", "verbose": False, "headers": True, "echo": True}
        return self.memory.connect(options)

    def account(self, name: str) -> Any:
        """An account object of the broker."""
        return self.memory.broker.accounts[name]

    def settle(self, seconds: float = 0.0) -> None:
        """Let all calls that are due happen."""
        self.memory.advance(seconds)
        for _ in range(4):
            self.memory.advance(0)

    # Clients.

    def publish(
        self,
        subject: str,
        body: bytes | Mapping[str, Any] = b"",
        reply: str = "",
        account: str = "A",
        headers: Mapping[str, str] | None = None,
        user: str = "",
    ) -> None:
        """
        Publish as a client, and let the reactor finish.

        @param user: a user without the permission, instead of the account's client.
        """
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        block = b""
        if headers:
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            block = f"NATS/1.0\r\n{lines}\r\n".encode()
        sizes = f"{len(block)} {len(block + payload)}" if block else f"{len(payload)}"
        verb = "HPUB" if block else "PUB"
        line = f"{verb} {subject} {reply} {sizes}\r\n".encode()
        self._clients[user or account].send(line + block + payload + b"\r\n")
        if not user and not isReservedReply(reply.encode()):
            self.published[account][subject.encode()] += 1
        self.settle()

    def ask(self, subject: str, body: bytes | Mapping[str, Any] = b"", account: str = "A") -> bytes:
        """Send a request as a client, and return the payload of the answer."""
        self._number += 1
        inbox = f"_INBOX.{self._number}"
        self.heard(account)
        self.publish(subject, body, inbox, account)
        received = self.heard(account)
        if f" {inbox} ".encode() not in received:
            self.settle(0.5)
            received += self.heard(account)
        delivery = received[received.index(f" {inbox} ".encode()) :]
        head, _, rest = delivery.partition(b"\r\n")
        return rest[: int(head.split()[-1])]

    def heard(self, account: str = "A") -> bytes:
        """The messages that the client of an account has received since the last call."""
        received: bytes = self._clients[account].receive()
        return received

    # Services.

    def services(self, account: str) -> list[hot.Subscription]:
        """The services of an account."""
        subscriptions = self.account(account).subscriptions()
        return [
            subscription
            for subscription in subscriptions
            if isinstance(subscription, hot.ServiceSubscription)
        ]

    def subjects(self, account: str) -> list[str]:
        """A subject for each service of an account."""
        patterns = {service.pattern.decode() for service in self.services(account)}
        return sorted({".".join(_tokens(pattern)) for pattern in patterns})

    def received(self, subject: str) -> dict[str, int]:
        """The messages that the services for a subject have received, by account."""
        return {
            name: sum(subscription.delivered for subscription in self._serving(name, subject))
            for name in ACCOUNTS
        }

    def expected(self, subject: str) -> dict[str, int]:
        """The requests that the clients of each account have published to these services."""
        return {
            name: sum(
                count
                for subscription in self._serving(name, subject)
                for published, count in self.published[name].items()
                if matches(subscription.pattern, published)
            )
            for name in ACCOUNTS
        }

    def isServed(self, account: str, subject: str) -> bool:
        """Whether an account has a service for a subject."""
        return any(self._serving(account, subject))

    def _serving(self, account: str, subject: str) -> Iterator[hot.Subscription]:
        name = subject.encode()
        return (service for service in self.services(account) if matches(service.pattern, name))

    def stop(self) -> None:
        """Stop the broker."""
        self.memory.stop()


def _tokens(pattern: str) -> list[str]:
    return ["S" if part in ("*", ">") else part for part in pattern.split(".")]
