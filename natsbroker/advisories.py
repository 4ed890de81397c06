"""
Everything that the broker tells its observers, listed once. Document it here or do not emit it.

Plain values; the text is safe to log: what came from a peer is sanitised before.
"""

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
    "SlowConsumer",
]


@dataclass(frozen=True, slots=True)
class Advisory:
    """
    Something that happened in the broker.
    """


@dataclass(frozen=True, slots=True)
class ClientConnected(Advisory):
    """
    A client was let in.

    @ivar cid: its number.
    @ivar account: the account's name.
    @ivar user: how it is named; empty for nobody.
    """

    cid: int
    account: str
    user: str


@dataclass(frozen=True, slots=True)
class ClientDisconnected(Advisory):
    """
    A client that had been let in is gone.

    @ivar reason: the closed reason as monitoring shows it.
    """

    cid: int
    account: str
    user: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClientRefused(Advisory):
    """
    A connection was not let in.

    @ivar host: where it came from.
    @ivar reason: the closed reason as monitoring shows it.
    """

    cid: int
    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class GatewayUnwanted(Advisory):
    """
    Another cluster sent a message that nobody here wants.

    @ivar gateway: the other cluster.
    @ivar account: the account's name.
    @ivar subject: the subject; as the peer has it, so it is not for logs.
    @ivar size: headers and payload, in bytes.
    @ivar isTold: whether the other cluster was told so for it.
    """

    gateway: str
    account: str
    subject: bytes
    size: int
    isTold: bool


@dataclass(frozen=True, slots=True)
class LeafConnected(Advisory):
    """
    A leafnode connection was agreed on.

    @ivar number: its number, among leafnode connections.
    @ivar account: the account's name here.
    @ivar user: how it is named; empty for nobody, and where it was we who dialled.
    """

    number: int
    account: str
    user: str


@dataclass(frozen=True, slots=True)
class LeafDisconnected(Advisory):
    """
    A leafnode connection that had been agreed on is gone.

    @ivar reason: the closed reason as monitoring shows it.
    """

    number: int
    account: str
    user: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeafRefused(Advisory):
    """
    Somebody who dialled as a leafnode was not let in.

    @ivar host: where it came from.
    @ivar reason: the closed reason as monitoring shows it.
    """

    number: int
    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class SlowConsumer(Advisory):
    """
    A client did not take its messages fast enough and was cut.

    @ivar pending: how many bytes waited.
    @ivar reason: which limit it was.
    """

    cid: int
    pending: int
    reason: str


@dataclass(frozen=True, slots=True)
class LameDuckStarted(Advisory):
    """
    The broker takes no more connections and will close those it has.
    """


@dataclass(frozen=True, slots=True)
class Reloaded(Advisory):
    """
    New settings are in force.

    @ivar changed: the dotted paths of what changed.
    """

    changed: tuple[str, ...]
