"""Mapped reply subjects: their names, hashed as in nats-server, and delivery to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from twisted.logger import Logger

from natsbroker.accounts.registry import LinkBuses
from natsbroker.advisories import Advisory
from natsbroker.connections.labels import inQuotes
from natsbroker.interfaces import IGatewayInterestPolicy, ILinkSubscriber
from natsbroker.wire.mapped import NEW, OLD, prefixOf, splitMapped
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker")

_DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def newHash(name: str) -> bytes:
    """The six letters for the name of a cluster, or for the id of a server."""
    digest = sha256(name.encode("utf-8", "surrogateescape")).digest()
    return bytes(_DIGITS[byte % len(_DIGITS)] for byte in digest[:6])


def oldHash(name: str) -> bytes:
    """The four letters for a cluster before NATS 2.1."""
    return sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:4].encode("ascii")


class ReplyNames:
    """Names of mapped replies; C{oldPrefix} is for clusters before NATS 2.1."""

    def __init__(self, cluster: str, server: str) -> None:
        self.prefix = b"%b%b.%b." % (NEW, newHash(cluster), newHash(server))
        self.oldPrefix = b"%b%b." % (OLD, oldHash(cluster))

    @property
    def answers(self) -> tuple[bytes, ...]:
        """The beginnings of mapped subjects that belong to our cluster."""
        return self.prefix[: len(NEW) + 7], self.oldPrefix

    @staticmethod
    def answersOf(cluster: str) -> tuple[bytes, ...]:
        """The beginnings of mapped subjects that belong to another cluster."""
        return b"%b%b." % (NEW, newHash(cluster)), b"%b%b." % (OLD, oldHash(cluster))

    def destination(self, subject: bytes) -> tuple[bytes, bytes] | None:
        """
        The mapping server's hash and the original subject of a mapped subject. The hash is empty if
        that server is us or not known. C{None} if the subject is not of our cluster.
        """
        prefix, rest = splitMapped(subject)
        if not prefix.startswith(self.answers):
            return None
        if prefix in (self.prefix, self.oldPrefix):
            return b"", rest
        return prefix[len(NEW) + 7 : -1], rest


@dataclass(frozen=True, slots=True)
class GatewayDependencies:
    """
    @ivar buses: to the accounts, which are L{natsbroker.accounts.account.GatewayBus}es.
    @ivar member: gives the route for an account to the member of our cluster with a hash; C{None}
        if there is none.
    @ivar now: the time in seconds since the epoch.
    @ivar notify: gets an advisory for each unwanted message.
    """

    ourName: str
    buses: LinkBuses
    policy: IGatewayInterestPolicy
    replies: ReplyNames
    member: Callable[[bytes, str], ILinkSubscriber | None]
    now: Callable[[], float]
    headers: bool = True
    notify: Callable[[Advisory], None] = lambda advisory: None


class GatewayReplyRouter:
    """Delivers answers under the requested subject, if possible by the member that asked."""

    def __init__(self, dependencies: GatewayDependencies) -> None:
        self._dependencies = dependencies

    def take(self, account: str, message: Message, isFromMember: bool) -> bool:
        """
        Take a message if its subject is mapped, and return whether it is. A message that came from
        a member is not forwarded to another member.
        """
        if not prefixOf(message.subject):
            return False
        destination = self._dependencies.replies.destination(message.subject)
        if destination is None:
            _log.debug(
                "Dropping an answer to somebody else: {subject}", subject=inQuotes(message.subject)
            )
            return True
        server, subject = destination
        if server and not isFromMember:
            link = self._dependencies.member(server, account)
            if link is not None:
                link.forward(message, ())
                return True
        bus: Any = self._dependencies.buses.busOf(account)
        if bus is not None:
            answer = message.readdressed(subject, message.reply)
            bus.answer(answer.withReplyPrefix(message.via) if message.via else answer)
        return True
