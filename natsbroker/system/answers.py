"""Answers to requests in the system account. Most have the content of a monitoring page."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred

from natsbroker.monitoring.answers import bodyOf, compact
from natsbroker.monitoring.healthz import HealthQuery
from natsbroker.monitoring.queries import BadQuery
from natsbroker.monitoring.slices import Slices
from natsbroker.runtime.responder import Describe
from natsbroker.system.connectioncounts import connectionCounts
from natsbroker.system.options import BadOptions, SystemRequest, decodeRequest
from natsbroker.system.pages import ServerPages
from natsbroker.wire.clientinfo import eventId
from natsbroker.wire.instants import instant

_BAD = 400
_FAILED = 500

#: Indentation, which no string of JSON contains.
_INDENTATION = re.compile(rb"\n *")

_NO_CLIENT = "no such client or leafnode id"


@dataclass(frozen=True)
class ServerActions:
    """
    The actions that requests may ask of a server.

    @ivar kick: closes the connection with a client or leafnode id; false if there is none.
    @ivar leave: tells a client to connect to another server; false if there is none.
    @ivar reload: reads the configuration file again; gives the problems that prevent it.
    """

    kick: Callable[[int], bool]
    leave: Callable[[int], bool]
    reload: Callable[[], Sequence[str]]


class RequestFailed(Exception):
    """The text is the description in the answer."""


class SystemAnswers:
    def __init__(
        self,
        describe: Describe,
        model: ServerPages,
        clock: Any,
        actions: ServerActions,
        random: Any,
    ) -> None:
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
            return await self._document("statsz", bodyOf(model.statsz.steps()))
        if kind in ("HEALTHZ", "PROFILEZ", "IPQUEUESZ", "RAFTZ"):
            return self._done(_SHORT[kind](model, request))
        return await self._page(f"/{kind.lower()}", request)

    async def _page(self, path: str, request: SystemRequest) -> bytes:
        try:
            answer = self._model.pages[path](request.query)
        except BadQuery as refusal:
            return self._refused(_FAILED, str(refusal), {"data": None})
        return await self._document("data", answer.body)

    async def _document(self, key: str, body: Iterable[Any]) -> bytes:
        pieces = await self._slices.collect(body)
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
        try:
            steps = _jetStream(model, name, query) if kind == "JSZ" else _information(model, name)
        except RequestFailed as error:
            return self._refused(_FAILED, str(error), {"data": None})
        return await self._document("data", bodyOf(steps))

    async def _figures(self, kind: str, name: str, body: bytes) -> Any:
        """
        The answer to C{STATZ} or C{CONNS}. Accounts without connections are left out unless the
        request includes them. Without any account that it names there is no answer.
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

    def ofAction(self, kind: str, body: bytes) -> bytes | None:
        """Do C{KICK}, C{LDM} or C{RELOAD}. As in nats-server, an unreadable body has no answer."""
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
        if act(request.options.get("cid", 0)):
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


def _health(model: ServerPages, request: SystemRequest) -> Any:
    document, status = model.healthz.report(HealthQuery.fromQuery(request.query))
    state = document.pop("status")
    return {"status": state, "status_code": status, **document}


def _profile(model: ServerPages, request: SystemRequest) -> Any:
    name = request.query.get("name", "")
    problem = f'Profile "{name}" not found' if name else "Profile name not specified"
    return {"profile": None, "error": problem}


def _nothing(model: ServerPages, request: SystemRequest) -> Any:
    """There are no Raft groups, and no queues between the threads of a Go server."""
    return {}


#: The answers that need no work in steps, by kind.
_SHORT: Mapping[str, Callable[[ServerPages, SystemRequest], Any]] = {
    "HEALTHZ": _health,
    "PROFILEZ": _profile,
    "IPQUEUESZ": _nothing,
    "RAFTZ": _nothing,
}


def _jetStream(model: ServerPages, name: str, query: Mapping[str, str]) -> Any:
    steps = model.jsz.ofAccount(name, query)
    if steps is None:
        isKnown = name in model.accountz
        problem = "not jetstream enabled" if isKnown else "not found"
        raise RequestFailed(f'account "{name}" {problem}')
    return steps


def _information(model: ServerPages, name: str) -> Any:
    if name not in model.accountz:
        raise RequestFailed(f"Account {name} does not exist")
    return model.accountz.detail(name)
