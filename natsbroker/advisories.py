"""The advisories that observers receive. Texts are safe to log: a peer's text is escaped before."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Advisory",
    "ClientConnected",
    "ClientDisconnected",
    "ClientRefused",
    "GatewayUnwanted",
    "LameDuckStarted",
    "LeafConnected",
    "LeafDisconnected",
    "LeafRefused",
    "Reloaded",
    "ShutdownStarted",
    "SlowConsumer",
]


@dataclass(frozen=True, slots=True)
class Advisory:
    """Something that happened in the broker."""


@dataclass(frozen=True, slots=True)
class ClientConnected(Advisory):
    """
    A client was admitted.

    @ivar user: its name; empty for none.
    """

    cid: int
    account: str
    user: str


@dataclass(frozen=True, slots=True)
class ClientDisconnected(Advisory):
    """
    An admitted client is gone.

    @ivar reason: the closed reason as monitoring shows it.
    """

    cid: int
    account: str
    user: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClientRefused(Advisory):
    """
    A connection was refused.

    @ivar account: the one that had no room for it; empty for one that has no grant.
    @ivar user: its name in this account, or the name that it claims. It is the peer's text, so it
        is not for logs.
    @ivar asked: the account whose auth callout service did not let it in; empty for none.
    @ivar why: the result of the question to that service, perhaps in the service's words.
    """

    cid: int
    host: str
    reason: str
    account: str = ""
    user: str = ""
    asked: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class GatewayUnwanted(Advisory):
    """
    Another cluster sent a message without interest here.

    @ivar subject: the subject. It is the peer's text, so it is not for logs.
    @ivar size: headers and payload, in bytes.
    @ivar isTold: whether the other cluster received a no-interest notice for it.
    """

    gateway: str
    account: str
    subject: bytes
    size: int
    isTold: bool


@dataclass(frozen=True, slots=True)
class LeafConnected(Advisory):
    """
    A leafnode connection was established.

    @ivar number: its number, among leafnode connections.
    @ivar user: its name; empty for none, and for a connection that this broker dialled.
    """

    number: int
    account: str
    user: str


@dataclass(frozen=True, slots=True)
class LeafDisconnected(Advisory):
    """An established leafnode connection is gone."""

    number: int
    account: str
    user: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeafRefused(Advisory):
    """A leafnode connection was refused."""

    number: int
    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class SlowConsumer(Advisory):
    """
    A client did not take its messages fast enough and was closed.

    @ivar reason: the limit that was exceeded.
    """

    cid: int
    pending: int
    reason: str


@dataclass(frozen=True, slots=True)
class LameDuckStarted(Advisory):
    """The broker takes no more connections and will close those it has."""


@dataclass(frozen=True, slots=True)
class ShutdownStarted(Advisory):
    """The broker stops; connections are still open."""


@dataclass(frozen=True, slots=True)
class Reloaded(Advisory):
    """
    @ivar changed: the dotted paths of the changes.
    """

    changed: tuple[str, ...]
