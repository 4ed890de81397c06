"""
The messages between the parent and its workers. The channel (L{natsbroker.workers.channel}) sends
them by the names of their fields, and L{OFTEN} by their places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from natsbroker.clients.info import ServerInfo
    from natsbroker.config.model import Settings

CLIENTS = "client"
"""The listener for clients, beside which others have their configuration keys as names."""

FIRST = 1
"""The number of the worker that has what cannot be shared, as NATS Streaming."""


@dataclass(frozen=True, slots=True)
class Start:
    """
    The first message to a worker.

    @ivar number: the number of the worker, from 1.
    @ivar count: the number of workers.
    @ivar secrets: the secrets of L{natsbroker.server.identity.ServerKeys}, which make all workers
        one server.
    @ivar directory: a private directory for the sockets between workers of this run.
    @ivar addresses: hosts and ports on which the parent listens, by listener.
    @ivar announces: whether this worker logs the addresses of links for all workers.
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

    @ivar cid: the number of the connection, unique over all workers.
    @ivar peer: host and port of the client.
    @ivar read: the input that was already read.
    @ivar nonce: the nonce of the INFO that was sent.
    @ivar isGreeted: whether INFO was sent.
    @ivar waited: the seconds since INFO.
    @ivar isExcess: whether the connection exceeds C{max_connections}, so that the worker refuses
        it.
    @ivar listener: the listener that accepted it, see L{CLIENTS}.
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
    """Apply the planned settings."""


@dataclass(frozen=True, slots=True)
class DiscardReload:
    """Discard the planned settings, because another worker refuses them."""


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
    """Stop the worker."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A question whether the worker goes on, which it answers in the same words."""


@dataclass(frozen=True, slots=True)
class ShowPage:
    """
    A request for a monitoring page, which a worker answers with L{PageShown}.

    @ivar number: the number of the request.
    """

    number: int
    path: str
    query: dict[str, str]


@dataclass(frozen=True, slots=True)
class ShowPart:
    """
    A request for a part of an answer about the server, which a worker answers with L{PartShown}.

    @ivar number: the number of the request.
    @ivar name: the name of one of L{natsbroker.workers.parts.partsOf}.
    @ivar arguments: the arguments of that part.
    """

    number: int
    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PartShown:
    """
    A part of one worker.

    @ivar number: the number of the request.
    """

    number: int
    part: Any


@dataclass(frozen=True, slots=True)
class AskServer:
    """
    A worker's request about the whole server, which the parent answers with L{ServerAnswered}.

    @ivar number: the number of the request at this worker.
    @ivar method: the name of a method of L{natsbroker.system.answers.SystemAnswers}.
    """

    number: int
    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ServerAnswered:
    """
    The answer about the whole server.

    @ivar number: the number of the request.
    """

    number: int
    answer: Any


@dataclass(frozen=True, slots=True)
class Speak:
    """Speak for the server from now on, or stop that if C{isSpeaking} is false."""

    isSpeaking: bool


@dataclass(frozen=True, slots=True)
class PageShown:
    """
    The monitoring page of one worker.

    @ivar number: the number of the request.
    """

    number: int
    status: int
    contentType: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Ready:
    """
    A worker accepts connections; sent again when its INFO changes.

    @ivar info: the INFO for clients.
    @ivar addresses: the URLs of its own listeners, by kind.
    @ivar isStreaming: whether it serves NATS Streaming at present; C{None} for a worker without it.
    """

    info: ServerInfo
    addresses: dict[str, list[str]]
    isStreaming: bool | None = None


@dataclass(frozen=True, slots=True)
class Entered:
    """
    A client or a leafnode has logged in to an account.

    @ivar maximum: the account's limit of clients or of leafnodes; negative for unlimited.
    @ivar isLeafnode: whether C{cid} is the number of a leafnode at the worker.
    """

    cid: int
    account: str
    maximum: int = -1
    isLeafnode: bool = False


@dataclass(frozen=True, slots=True)
class CloseExcess:
    """
    Close a connection that exceeds its account's limit for all workers together.

    @ivar isLeafnode: as in L{Entered}.
    """

    cid: int
    isLeafnode: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    """
    An adopted connection or a leafnode has ended.

    @ivar account: empty if it never logged in.
    @ivar isLeafnode: as in L{Entered}.
    """

    cid: int
    account: str = ""
    isLeafnode: bool = False


OFTEN = (Adopt, Entered, Closed)
"""The messages about single connections. A new field of theirs comes last, and has a default."""


@dataclass(frozen=True, slots=True)
class ReloadPlanned:
    """The worker can apply the settings."""


@dataclass(frozen=True, slots=True)
class ReloadRefused:
    """Reasons against the settings of L{PlanReload}."""

    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker cannot start, for a reason that would remain at a second attempt."""

    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The last connection of a worker in lame duck mode has ended."""
