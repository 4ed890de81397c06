"""
The traffic of a connection that we dialled to another cluster: our messages, and its interest.
Interest in unknown accounts is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.accounts.account import GatewayBus
from natsbroker.accounts.gateways import GatewayOutput, IGatewayLink
from natsbroker.accounts.tracing import GATEWAY, TRACING_PROTOCOL, TracePeer
from natsbroker.connections.labels import inQuotes
from natsbroker.errors import logText
from natsbroker.interfaces import IInterestTable
from natsbroker.links.gatewayreplies import GatewayDependencies
from natsbroker.links.link import Handler, Link
from natsbroker.subjects.shapes import TooManyShapes
from natsbroker.wire import ops
from natsbroker.wire.dialects import gateway, route
from natsbroker.wire.serverinfo import GatewayCommand, ServerDocument
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker")


@implementer(IGatewayLink)
@dataclass(eq=False, slots=True)
class GatewayAccount:
    """
    @ivar prefix: the account's name on the wire, with a space behind.
    """

    name: bytes
    outbox: hot.Outbox
    replyPrefix: bytes
    answers: tuple[bytes, ...]
    gateway: str = ""
    tracePeer: TracePeer | None = None
    prefix: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.prefix = self.name + b" "

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        outbox = self.outbox
        if outbox.closed:
            return
        outbox.messages += 1
        outbox.messageBytes += len(message.body)
        outbox.write(route.messageFrame(self.name, message, queues, outbox.headers))


class _OpenAccount(NamedTuple):
    bus: GatewayBus
    output: GatewayOutput


class OutboundTraffic:
    def __init__(self, dependencies: GatewayDependencies, link: Any) -> None:
        document: ServerDocument = link.document
        replies = dependencies.replies
        link.outbox.headers = dependencies.headers and document.headers
        isTracing = link.outbox.headers and document.proto >= TRACING_PROTOCOL
        self._tracePeer = TracePeer(GATEWAY, link.number, link.remoteName, isTracing)
        self._link: Link = link
        self._name: str = link.gateway
        self._tellsAll = document.gateway_iom
        self._buses = dependencies.buses
        self._policy = dependencies.policy
        self._replyPrefix = replies.prefix if document.gateway_nrp else replies.oldPrefix
        self._answers = replies.answersOf(self._name)
        self._distance = 0.0
        self._tables: dict[bytes, IInterestTable] = {}
        self._open: dict[bytes, _OpenAccount] = {}
        self.handlers: dict[int, Handler] = {
            ops.RS_PLUS: link.parsing(route.splitInterest, self._gained),
            ops.RS_MINUS: link.parsing(route.splitLost, self._lost),
            ops.A_PLUS: link.parsing(gateway.splitAccount, partial(self._wanted, True)),
            ops.A_MINUS: link.parsing(gateway.splitAccount, partial(self._wanted, False)),
        }

    def accountsChanged(self) -> None:
        buses: dict[bytes, Any] = {
            name.encode("utf-8", "surrogateescape"): self._buses.busOf(name)
            for name in self._buses.names()
        }
        for name in [
            former for former in self._open if self._open[former].bus is not buses.get(former)
        ]:
            self._open.pop(name).output.cancel()
        for name, bus in buses.items():
            if name not in self._open and bus is not None:
                account = GatewayAccount(
                    name,
                    self._link.outbox,
                    self._replyPrefix,
                    self._answers,
                    self._name,
                    self._tracePeer,
                )
                output = bus.openGateway(account, self._table(name))
                output.place(self._distance)
                self._open[name] = _OpenAccount(bus, output)

    def _table(self, account: bytes) -> IInterestTable:
        table = self._tables.get(account)
        if table is None:
            name = account.decode("utf-8", "surrogateescape")
            table = self._policy.connected(self._name, name, self._tellsAll)
            self._tables[account] = table
        return table

    def placed(self, seconds: float) -> None:
        self._distance = seconds
        for account in self._open.values():
            account.output.place(seconds)

    def figures(self) -> dict[str, Mapping[str, Any]]:
        return {
            account.decode("utf-8", "surrogateescape"): table.figures()
            for account, table in self._tables.items()
        }

    def interests(self, account: str) -> Iterable[tuple[bytes, bytes]]:
        table = self._tables.get(account.encode("utf-8", "surrogateescape"))
        return () if table is None else table.interests()

    def end(self) -> None:
        opened, self._open = self._open, {}
        self._tables = {}
        for account in opened.values():
            account.output.cancel()

    def _change(
        self,
        account: bytes,
        call: Callable[[Any], IInterestTable],
        pattern: bytes = b">",
        queue: bytes | None = None,
    ) -> None:
        table = self._tables[account] = call(self._table(account))
        opened = self._open.get(account)
        if opened is not None:
            opened.output.use(table, pattern, queue)

    def _wanted(self, isWanted: bool, account: bytes) -> None:
        self._change(account, lambda table: self._policy.accountWanted(table, isWanted))

    def _gained(self, interest: route.LinkInterest) -> None:
        account, _, pattern, queue, _ = interest
        try:
            self._change(
                account, lambda table: self._policy.gained(table, pattern, queue), pattern, queue
            )
        except (ValueError, TooManyShapes) as error:
            _log.error(
                "{link} - Could not insert subscription: {why}",
                link=str(self._link),
                why=logText(str(error)),
            )

    def _lost(self, interest: route.LinkInterest) -> None:
        account, _, pattern, queue, _ = interest
        self._change(
            account, lambda table: self._policy.lost(table, pattern, queue), pattern, queue
        )
        opened = self._open.get(account)
        if opened is not None and not queue:
            opened.bus.interestLost(pattern)

    def commanded(self, document: ServerDocument) -> bool:
        """
        Handle a command. Return whether it was the begin or the end of a list of all interest in an
        account.
        """
        command = document.gateway_cmd
        if command not in _LISTS:
            return False
        isComplete = command == GatewayCommand.ALL_SUBS_COMPLETE
        account = gateway.accountOf(document)
        if account is None:
            which = "complete" if isComplete else "start"
            self._link.close(errors.NO_COMMAND_ACCOUNT, which)
            return True
        # The end of the list adds and removes no known interest: other subjects are no longer sent.
        queue = b"" if isComplete else None
        self._change(account, lambda table: self._policy.listed(table, isComplete), queue=queue)
        _log.debug(
            "{link} - Gateway {gateway}: switching account {account} to interest-only mode{end}",
            link=str(self._link),
            gateway=inQuotes(self._name),
            account=inQuotes(account),
            end=" complete" if isComplete else "",
        )
        return True


_LISTS = frozenset({GatewayCommand.ALL_SUBS_START, GatewayCommand.ALL_SUBS_COMPLETE})
