"""
The requests of JetStream's API: from a subject to a handler, from its result to an answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.interfaces import IBatchSubscriber, ISubscription
from natsbroker.interfaces.records import LeaseLost, StoreError, StoreFailed
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.api.ordering import RequestOrder, RequestTurn
from natsbroker.jetstream.cluster.routing import ApiRouter
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.bodies import LONGEST
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.gojson import encode
from natsbroker.jetstream.requesters import clientOf
from natsbroker.jetstream.streams.msgheaders import needsNewerApi
from natsbroker.subjects.grammar import matches
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.jetstream")

PREFIX = "$JS.API."

_AUDIT = "ADVISORY.API"


class HeadedResult(dict[str, Any]):
    """The result of a handler whose answer has a header block."""

    def __init__(self, result: Mapping[str, Any], headers: bytes) -> None:
        super().__init__(result)
        self.headers = headers


class Request(NamedTuple):
    """
    One API request.

    @ivar names: the tokens of the subject that the route's wildcards match; the tokens that C{>}
        matches are one name.
    @ivar turn: its place among the requests that change the stream.
    """

    names: tuple[str, ...]
    body: bytes
    reply: bytes
    message: Message
    turn: RequestTurn


Handler = Callable[[JetStreamAccount, Request], Awaitable[Mapping[str, Any] | None]]


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """
    One kind of request.

    @ivar subject: the subject behind C{$JS.API.}, with wildcards.
    @ivar kind: the type of the answer, without C{io.nats.jetstream.api.v1.} and C{_response}.
    @ivar handler: returns the answer without its type; C{None} for no answer.
    @ivar missing: the fields behind the error in an answer with one.
    @ivar isOrdered: whether requests that change one stream are handled one after the other.
    @ivar isBeside: whether it changes one consumer, and so may overlap with requests about others.
    @ivar isAudited: whether an API advisory is sent.
    @ivar isCounted: whether the account's figures count it.
    @ivar isLong: whether its body may be of any length, because it is read in steps.
    @ivar isRead: whether it changes nothing, so that it may end when no client waits for the
        answer.
    """

    subject: str
    kind: str
    handler: Handler
    missing: Mapping[str, Any] = field(default_factory=dict)
    isOrdered: bool = True
    isBeside: bool = False
    isAudited: bool = True
    isCounted: bool = True
    isLong: bool = False
    isRead: bool = False


@implementer(IBatchSubscriber)
class ApiDispatcher:
    """Serves the API of one account, at a C{cost} in the units of L{natsbroker.pure.backlog}."""

    cost = 1000

    def __init__(
        self,
        account: JetStreamAccount,
        routes: tuple[ApiRoute, ...],
        router: ApiRouter | None = None,
    ) -> None:
        """A dispatcher; C{router} decides which requests this broker handles, by default all."""
        self._account = account
        self._router = router
        self._routes = routes
        self._subscriptions: list[ISubscription] = []
        # By stream; and by stream and origin, for the requests of one client alone.
        self._orders: dict[object, RequestOrder] = {}
        self._held: list[tuple[Message, Any]] | None = None

    def hold(self) -> None:
        """Keep requests until L{release}: the streams are being recovered."""
        self._held = []

    def release(self) -> None:
        held, self._held = self._held, None
        for message, route in held or ():
            self._begin(message, route)

    def start(self) -> None:
        serve = self._account.bus.serve
        self._subscriptions = [
            serve(f"{PREFIX}{route.subject}".encode(), self, route) for route in self._routes
        ]

    def stop(self) -> None:
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            subscription.cancel()

    def deliver(self, message: Message, tag: Any) -> None:
        self.deliverMany([(message, tag)])

    def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
        """Handle requests at the end of a turn, as streams take messages then."""
        for message, route in messages:
            self._begin(message, route)

    def _begin(self, message: Message, tag: Any) -> None:
        if self._held is not None:
            self._held.append((message, tag))
        elif self._subscriptions and message.reply:
            self._account.serve(self._handle, message, tag, tag.isRead, 0)

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscriptions have no maximum."""

    async def _handle(self, message: Message, route: ApiRoute) -> None:
        if not self._subscriptions:
            return
        names = _names(route.subject, message.subject)
        if self._router is None:
            await self._serve(message, route, names)
        elif self._router.refuses(route.subject, names):
            self._unavailable(message, route, names)
        else:
            serve = partial(self._serve, message, route, names)
            try:
                await self._router.route(route.subject, names, message, serve)
            except StoreError:
                # If the leader is unknown, one of the brokers that received the request reports
                # this.
                if self._router.isMeta:
                    self._unavailable(message, route, names)

    def _unavailable(self, message: Message, route: ApiRoute, names: tuple[str, ...]) -> None:
        request = Request(names, message.payload, message.reply, message, RequestTurn())
        kind = {"type": f"io.nats.jetstream.api.v1.{route.kind}_response"}
        self._fail(request, route, kind, errors.CLUSTER_NOT_AVAIL())

    async def handle(self, message: Message) -> None:
        """Handle a request that another broker has received."""
        subject = message.subject[len(PREFIX) :]
        for route in self._routes:
            if matches(route.subject.encode(), subject):
                await self._serve(message, route, _names(route.subject, message.subject))

    async def _serve(self, message: Message, route: ApiRoute, names: tuple[str, ...]) -> None:
        turn = RequestTurn(not route.isBeside)
        request = Request(names, message.payload, message.reply, message, turn)
        answer = partial(self._answer, request, route)
        if not (route.isOrdered and names):
            await answer()
            return
        # A request sees earlier changes by its client, and does not wait for searches of other
        # clients.
        own = (names[0], message.origin)
        if not route.isRead:
            await self._inOrder(own, turn, partial(self._inOrder, names[0], turn, answer))
            return
        if own in self._orders:
            await self._inOrder(own, turn, _nothing)
        await answer()

    async def _inOrder(
        self, key: object, turn: RequestTurn, work: Callable[[], Awaitable[None]]
    ) -> None:
        order = self._orders.setdefault(key, RequestOrder())
        try:
            await turn.begin(order)
            try:
                await work()
            finally:
                turn.end(order)
        finally:
            if order.isIdle:
                self._orders.pop(key, None)

    async def _answer(self, request: Request, route: ApiRoute) -> None:
        kind = {"type": f"io.nats.jetstream.api.v1.{route.kind}_response"}
        stream = self._account.streams.get(request.names[0]) if request.names else None
        try:
            checkLevel(request.message)
            if len(request.body) > LONGEST and not route.isLong:
                raise errors.BAD_REQUEST()
            result = await route.handler(self._account, request)
            if route.isRead and stream is not None and (asking := stream.verify()) is not None:
                await asking
        except JetStreamError as error:
            if not await self._hasLeft(request, error):
                self._fail(request, route, kind, error)
        except LeaseLost:
            self._fail(request, route, kind, errors.CLUSTER_NOT_AVAIL())
        except StoreError as error:
            reason = errors.STREAM_STORE_FAILED(err=str(error))
            if self._router is not None and isinstance(error, StoreFailed):
                reason = errors.CLUSTER_NOT_AVAIL()
            elif self._router is None and stream is not None and stream.isDeleted:
                reason = errors.STREAM_NOT_FOUND()
            self._fail(request, route, kind, reason)
        else:
            if result is not None:
                headers = result.headers if isinstance(result, HeadedResult) else b""
                self._send(request, route, {**kind, **result}, headers)

    async def _hasLeft(self, request: Request, error: JetStreamError) -> bool:
        """Whether the stream went to another broker while the request waited here."""
        if error.err_code != errors.STREAM_NOT_FOUND.err_code or self._router is None:
            return False
        return bool(request.names) and await self._router.hasLeft(request.names[0], request.message)

    def _fail(
        self, request: Request, route: ApiRoute, kind: Mapping[str, Any], error: JetStreamError
    ) -> None:
        self._account.failures += route.isCounted
        self._send(request, route, {**kind, "error": error.toJSON(), **route.missing})

    def _send(
        self,
        request: Request,
        route: ApiRoute,
        answer: Mapping[str, Any],
        headers: bytes = b"",
    ) -> None:
        self._account.requests += route.isCounted
        body = encode(answer)
        if headers:
            self._account.send(request.reply, body, headers)
        else:
            self._account.bus.publishInternal(request.reply, body)
        if route.isAudited:
            self._account.advise(
                _AUDIT, "advisory.v1.api_audit", partial(self._audit, request, body)
            )

    def _audit(self, request: Request, body: bytes) -> dict[str, Any]:
        client = clientOf(request.message, self._account.name)
        event = {"server": self._account.server, "client": client}
        event["subject"] = decoded(request.message.subject)
        if request.body:
            event["request"] = decoded(request.body)
        return {**event, "response": body.decode()}


async def _nothing() -> None:
    """The work of a request that only waits for those before it."""


def _names(pattern: str, subject: bytes) -> tuple[str, ...]:
    """The tokens of a subject at the wildcards of a pattern."""
    tokens = subject.decode("utf-8", "surrogateescape")[len(PREFIX) :].split(".")
    names: list[str] = []
    for place, token in enumerate(pattern.split(".")):
        if token == ">":
            names.append(".".join(tokens[place:]))
        elif token == "*":
            names.append(tokens[place])
    return tuple(names)


def checkLevel(message: Message) -> None:
    """Raise L{JetStreamError} if the request needs a newer API."""
    if needsNewerApi(message.headers):
        raise errors.REQUIRED_API_LEVEL()
