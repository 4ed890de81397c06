"""
The messages between the parent and its workers. Over the channel they go by the names of their
fields (L{natsbroker.workers.channel}).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from natsbroker.clients.info import ServerInfo
    from natsbroker.config.model import Settings

CLIENTS = "client"
"""The listener for clients, beside which others have their configuration keys as names."""


@dataclass(frozen=True, slots=True)
class Start:
    """
    The first message to a worker.

    @ivar number: of the worker, from 1.
    @ivar count: of all workers.
    @ivar secrets: of L{natsbroker.server.identity.ServerKeys}, by which all workers are one server.
    @ivar directory: private, for the sockets between workers of this run.
    @ivar addresses: hosts and ports at which the parent listens, by listener.
    @ivar announces: whether the worker logs for all of them where links listen.
    """

    number: int
    count: int
    settings: Settings
    secrets: tuple[bytes, bytes]
    directory: str
    addresses: dict[str, tuple[str, int]]
    announces: bool = False


@dataclass(frozen=True, slots=True)
class Adopt:
    """
    A connection for a worker; the frame carries its descriptor.

    @ivar cid: its number, unique over all workers.
    @ivar peer: host and port of the client.
    @ivar read: what was read from it already.
    @ivar nonce: of the INFO that it was sent.
    @ivar isGreeted: whether it was sent INFO.
    @ivar waited: the seconds since then.
    @ivar isExcess: whether it is over C{max_connections}, so the worker refuses it.
    @ivar listener: at which it was accepted, see L{CLIENTS}.
    """

    cid: int
    peer: tuple[str, int]
    read: bytes = b""
    nonce: str = ""
    isGreeted: bool = False
    isExcess: bool = False
    listener: str = CLIENTS
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class PlanReload:
    """New settings, which a worker checks and answers with L{ReloadPlanned} or L{ReloadRefused}."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class ApplyReload:
    """Put the planned settings into force."""


@dataclass(frozen=True, slots=True)
class DiscardReload:
    """Forget the planned settings, because another worker refuses them."""


@dataclass(frozen=True, slots=True)
class UseRemotes:
    """
    Dial the remotes of leafnodes, which one worker does for all, or leave them to another: then
    hang up, and answer with L{RemotesLeft}.
    """

    isDialling: bool


@dataclass(frozen=True, slots=True)
class RemotesLeft:
    """The connections to remotes of leafnodes are closed."""


@dataclass(frozen=True, slots=True)
class StartLameDuck:
    """Close connections a few at a time, and answer with L{Gone} after the last one."""


@dataclass(frozen=True, slots=True)
class StopWorker:
    """End in order."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A question whether the worker goes on, which it answers in the same words."""


@dataclass(frozen=True, slots=True)
class ShowPage:
    """
    A monitoring page, which a worker answers with L{PageShown}.

    @ivar number: of the question.
    """

    number: int
    path: str
    query: dict[str, str]


@dataclass(frozen=True, slots=True)
class ShowPart:
    """
    A part of an answer about the server, which a worker answers with L{PartShown}.

    @ivar number: of the question.
    @ivar name: of one of L{natsbroker.workers.parts.partsOf}.
    @ivar arguments: for it.
    """

    number: int
    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PartShown:
    """
    A part of one worker.

    @ivar number: of the question.
    """

    number: int
    part: Any


@dataclass(frozen=True, slots=True)
class AskServer:
    """
    A question of a worker about the whole server, which the parent answers with L{ServerAnswered}.

    @ivar number: of the question, at this worker.
    @ivar method: of L{natsbroker.system.answers.SystemAnswers}.
    """

    number: int
    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ServerAnswered:
    """
    The answer about the whole server.

    @ivar number: of the question.
    """

    number: int
    answer: Any


@dataclass(frozen=True, slots=True)
class Speak:
    """Speak for the server from now on, or, if C{isSpeaking} is false, no more."""

    isSpeaking: bool


@dataclass(frozen=True, slots=True)
class PageShown:
    """
    A page as one worker shows it.

    @ivar number: of the question.
    """

    number: int
    status: int
    contentType: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Ready:
    """
    A worker takes connections; sent again when its INFO changes.

    @ivar info: which clients see.
    @ivar addresses: URLs of its own listeners, by kind.
    @ivar isStreaming: whether it serves NATS Streaming now; C{None} for a worker without it.
    """

    info: ServerInfo
    addresses: dict[str, list[str]]
    isStreaming: bool | None = None


@dataclass(frozen=True, slots=True)
class Entered:
    """
    A client was let into an account.

    @ivar maximum: the most connections that the account may have; negative for any number.
    """

    cid: int
    account: str
    maximum: int = -1


@dataclass(frozen=True, slots=True)
class CloseExcess:
    """Close a connection, one more than its account may have at all workers together."""

    cid: int


@dataclass(frozen=True, slots=True)
class Closed:
    """An adopted connection has ended; C{account} is empty for one that was never let in."""

    cid: int
    account: str = ""


@dataclass(frozen=True, slots=True)
class ReloadPlanned:
    """The settings can be taken."""


@dataclass(frozen=True, slots=True)
class ReloadRefused:
    """Reasons against the settings of L{PlanReload}."""

    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker cannot start, for a reason that a second attempt would meet again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The last connection of a lame duck has ended."""
