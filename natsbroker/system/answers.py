"""Answers to requests in the system account. Most have the content of a monitoring page."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred, maybeDeferred

from natsbroker.monitoring.answers import Steps, bodyOf, compact
from natsbroker.monitoring.healthz import HealthQuery
from natsbroker.monitoring.queries import BadQuery
from natsbroker.monitoring.slices import Slices
from natsbroker.runtime.responder import Describe
from natsbroker.system.connectioncounts import connectionCounts
from natsbroker.system.options import BadOptions, SystemRequest, decodeRequest
from natsbroker.wire.clientinfo import eventId
from natsbroker.wire.instants import instant
from natsbroker.wire.text import decoded

_FINE = 200
_BAD = 400
_FAILED = 500

#: Indentation, which no string of JSON contains.
_INDENTATION = re.compile(rb"\n *")

_NO_CLIENT = "no such client or leafnode id"


@dataclass(frozen=True)
class ServerActions:
    """
    The actions that requests may ask of a server.

    @ivar kick: closes the connection with a client or leafnode id; false, perhaps in a Deferred, if
        there is none.
    @ivar leave: tells a client to connect to another server; false, perhaps in a Deferred, if there
        is none.
    @ivar reload: reads the configuration file again; gives the problems that prevent it.
    """

    kick: Callable[[int], bool | Deferred[bool]]
    leave: Callable[[int], bool | Deferred[bool]]
    reload: Callable[[], Sequence[str]]


class RequestFailed(Exception):
    """The text is the description in the answer."""


class SystemAnswers:
    def __init__(
        self,
        describe: Describe,
        model: Any,
        clock: Any,
        actions: ServerActions,
        random: Any,
    ) -> None:
        """
        @param model: L{natsbroker.system.pages.ServerPages}, or pages of several brokers that have
            the same steps.
        """
        self._describe = describe
        self._model = model
        self._clock = clock
        self._slices = Slices(clock)
        self._actions = actions
        self._random = random

    def whileWanted(self, isWanted: Callable[[], bool]) -> SystemAnswers:
        """A copy whose answers fail with C{CancelledError} once C{isWanted} returns false."""
        answers = copy(self)
        answers._slices = self._slices.whileWanted(isWanted)
        return answers

    def ofServer(self, kind: str, body: bytes) -> Deferred[Any]:
        """Fires with the answer to a kind such as C{VARZ}; C{None} if it is for other servers."""
        return ensureDeferred(self._orRefusal(self._serverAnswer(kind, body)))

    def ofAccount(self, kind: str, account: str, body: bytes) -> Deferred[Any]:
        """Fires with the answer about an account, or about all if the account is C{PING}."""
        return ensureDeferred(self._orRefusal(self._accountAnswer(kind, account, body)))

    async def _orRefusal(self, answering: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await answering
        except BadOptions as error:
            return self._refused(_BAD, str(error))

    async def _serverAnswer(self, kind: str, body: bytes) -> Any:
        if kind == "IDZ":
            server = self._describe()
            return compact({key: server[key] for key in ("name", "host", "id")}).encode()
        request = decodeRequest(kind, body)
        model = self._model
        if not request.servers.admits(self._describe(), model.tags, model.domain):
            return None
        if kind == "STATSZ":
            return await self._document("statsz", model.statsz.steps())
        if kind == "HEALTHZ":
            wanted = HealthQuery.fromQuery(request.query)
            document, status = await self._slices.result(model.healthz.steps(wanted))
            return self._done({"status": document.pop("status"), "status_code": status, **document})
        if kind in _SHORT:
            return self._done(_SHORT[kind](request))
        return await self._page(f"/{kind.lower()}", request)

    async def _page(self, path: str, request: SystemRequest) -> bytes:
        try:
            answer = self._model.pages[path](request.query)
        except BadQuery as refusal:
            return self._refused(_FAILED, str(refusal), {"data": None})
        pieces = await self._slices.collect(answer.body)
        if answer.status != _FINE:
            return self._refused(_FAILED, decoded(b"".join(pieces)), {"data": None})
        return self._shown("data", pieces)

    async def _document(self, key: str, steps: Steps) -> bytes:
        return self._shown(key, await self._slices.collect(bodyOf(steps)))

    def _shown(self, key: str, pieces: Iterable[bytes]) -> bytes:
        document = b"".join(_INDENTATION.sub(b"", piece) for piece in pieces)
        return b'{"server":%b,"%b":%b}' % (self._server(), key.encode(), document)

    async def _accountAnswer(self, kind: str, name: str, body: bytes) -> Any:
        if kind in ("CONNS", "STATZ"):
            return await self._figures(kind, name, body)
        request = decodeRequest(kind, body)
        model = self._model
        query = {**request.query, "acc": name}
        if kind == "SUBSZ":
            query["subs"] = "1"
        if kind not in ("JSZ", "INFO"):
            return await self._page(f"/{kind.lower()}", SystemRequest({}, request.servers, query))
        steps = _jetStream(model, name, query) if kind == "JSZ" else _information(model, name)
        try:
            return await self._document("data", steps)
        except RequestFailed as error:
            return self._refused(_FAILED, str(error), {"data": None})

    async def _figures(self, kind: str, name: str, body: bytes) -> Any:
        """
        The answer to C{STATZ} or C{CONNS}. Accounts without connections are left out unless the
        request includes them. If the request names accounts and has none of them, there is no
        answer.
        """
        asked = decodeRequest("ACCSTATZ", body)
        wanted: Any = [name]
        if name == "PING":
            wanted = asked.options.get("accounts") or None
        isComplete = bool(asked.options.get("include_unused"))
        rows = await self._slices.result(self._model.accstatz.rows(wanted, isComplete))
        if not rows and wanted is not None:
            return None
        server = self._describe()
        now = instant(self._clock.seconds())
        if kind == "STATZ":
            data = {"server_id": server["id"], "now": now, "account_statz": rows}
            return compact({"server": server, "data": data}).encode()
        return compact(connectionCounts(server, eventId(self._random), now, rows[0])).encode()

    def ofSubscribers(self, body: bytes) -> Deferred[Any]:
        """Fires with the number of subscribers; C{None} if the account has no connection here."""
        return ensureDeferred(self._subscribers(body))

    async def _subscribers(self, body: bytes) -> bytes | None:
        try:
            asked = decodeRequest("NSUBS", body).options
            queue = b64decode(asked.get("queue", ""), validate=True)
        except ValueError:
            return None
        name = asked.get("acc", "")
        if not await self._slices.result(self._model.accstatz.rows([name], False)):
            return None
        return b"%d" % await self.countSubscribers(name, asked.get("subject", ""), queue)

    async def countSubscribers(self, account: str, subject: str, queue: bytes) -> int:
        count: int = await self._slices.result(self._model.subsz.count(account, subject, queue))
        return count

    def accountRows(self, names: Collection[str]) -> Deferred[list[dict[str, Any]]]:
        """Fires with the rows of C{/accstatz} for some accounts."""
        return ensureDeferred(self._slices.result(self._model.accstatz.rows(names, True)))

    def ofAction(self, kind: str, body: bytes) -> Deferred[bytes | None]:
        """Do C{KICK}, C{LDM} or C{RELOAD}. As in nats-server, an unreadable body has no answer."""
        return ensureDeferred(self._action(kind, body))

    async def _action(self, kind: str, body: bytes) -> bytes | None:
        if kind == "RELOAD":
            problems = self._actions.reload()
            return self._refused(_FAILED, "; ".join(problems)) if problems else self._done()
        try:
            request = decodeRequest(kind, body)
        except BadOptions:
            return None
        if not body:
            return None
        act = self._actions.kick if kind == "KICK" else self._actions.leave
        if await maybeDeferred(act, request.options.get("cid", 0)):
            return self._done()
        return self._refused(_FAILED, _NO_CLIENT if kind == "KICK" else "no such client id")

    def _server(self) -> bytes:
        return compact(self._describe()).encode()

    def _done(self, data: Any = None) -> bytes:
        answer = {"server": self._describe()}
        return compact(answer if data is None else {**answer, "data": data}).encode()

    def _refused(self, code: int, description: str, data: Mapping[str, Any] | None = None) -> bytes:
        error = {"code": code, "description": description}
        return compact({"server": self._describe(), **(data or {}), "error": error}).encode()


def _profile(request: SystemRequest) -> Any:
    name = request.query.get("name", "")
    problem = f'Profile "{name}" not found' if name else "Profile name not specified"
    return {"profile": None, "error": problem}


def _nothing(request: SystemRequest) -> Any:
    """
    An empty answer, as there are no Raft groups, and no queues between the threads of a Go server.
    """
    return {}


#: The answers that need no work in steps, by kind.
_SHORT: Mapping[str, Callable[[SystemRequest], Any]] = {
    "PROFILEZ": _profile,
    "IPQUEUESZ": _nothing,
    "RAFTZ": _nothing,
}


def _jetStream(model: Any, name: str, query: Mapping[str, str]) -> Steps:
    row = yield from model.jsz.ofAccount(name, query)
    if row is None:
        isKnown = (yield from model.accountz.ofAccount(name)) is not None
        problem = "not jetstream enabled" if isKnown else "not found"
        raise RequestFailed(f'account "{name}" {problem}')
    return row


def _information(model: Any, name: str) -> Steps:
    detail = yield from model.accountz.ofAccount(name)
    if detail is None:
        raise RequestFailed(f"Account {name} does not exist")
    return detail
