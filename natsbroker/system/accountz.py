"""The page C{/accountz}, with nats-server's keys for accounts of a configuration file."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from natsbroker.accounts.account import Account
from natsbroker.clients.selection import accountOf
from natsbroker.clients.state import BrokerState
from natsbroker.config.settings.accounts import (
    CHUNKED,
    SINGLETON,
    STREAM,
    Export,
    Import,
    Latency,
    MappingDestination,
    ServiceExport,
    ServiceImport,
    SubjectMapping,
)
from natsbroker.config.settings.authorization import AccountSettings
from natsbroker.monitoring.answers import JSON, PAUSE, Answer, bodyOf
from natsbroker.monitoring.formats import instant
from natsbroker.monitoring.queries import BadQuery, Query, repeated, text
from natsbroker.subjects.renaming import Renaming, numbered
from natsbroker.system.subsz import sublistFigures

_RESPONSES = {SINGLETON: "Singleton", STREAM: "Streamed", CHUNKED: "Chunked"}


#: The services of the system account: their subjects, and how they answer.
_SYSTEM_EXPORTS = (
    ("$SYS.REQ.USER.*.INFO", SINGLETON),
    ("$SYS.REQ.ACCOUNT.*.CONNZ", STREAM),
    ("$SYS.REQ.ACCOUNT.*.STATZ", STREAM),
)

#: A request that every account may send about itself: the subject in the system account, that in
#: the account, and whether the answer is about the requesting client.
_OWN_USER = ("$SYS.REQ.USER.{}.INFO", "$SYS.REQ.USER.INFO", True)
_OWN_ACCOUNT = (
    ("$SYS.REQ.ACCOUNT.{}.CONNZ", "$SYS.REQ.ACCOUNT.PING.CONNZ", False),
    ("$SYS.REQ.ACCOUNT.{}.CONNZ", "$SYS.REQ.SERVER.PING.CONNZ", False),
    ("$SYS.REQ.ACCOUNT.{}.STATZ", "$SYS.REQ.ACCOUNT.PING.STATZ", False),
    _OWN_USER,
)


def exchangesOf(account: AccountSettings | None, name: str, system: str) -> dict[str, Any]:
    """An account's exchanges by any settings; every account has the system account's services."""
    mappings: dict[str, Any] = {}
    exports, imports = _systemExchanges(name, system) if system else ([], [])
    if account is not None:
        ordered = sorted(account.mappings, key=lambda mapping: mapping.source)
        mappings = {mapping.source: _destinations(mapping) for mapping in ordered}
        exports = [*map(_export, account.exports), *exports]
        imports = [*map(_import, account.imports), *imports]
    exchanges = {"mappings": mappings, "exports": exports, "imports": imports}
    return {key: value for key, value in exchanges.items() if value}


def _systemExchanges(name: str, system: str) -> tuple[list[Any], list[Any]]:
    isSystem = name == system
    exports = [
        {"subject": subject, "type": "service", "response_type": _RESPONSES[response]}
        for subject, response in _SYSTEM_EXPORTS
    ]
    imports = [
        {
            "subject": subject.format(name),
            "account": system,
            "to": local,
            "local_subject": local,
            "type": "service",
            "invalid": False,
            "share": share,
            "tracking": False,
        }
        for subject, local, share in ((_OWN_USER,) if isSystem else _OWN_ACCOUNT)
    ]
    return exports if isSystem else [], imports


def _destinations(mapping: SubjectMapping) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    clusters = dict.fromkeys(["", *[destination.cluster for destination in mapping.destinations]])
    for cluster in clusters:
        members = [
            destination for destination in mapping.destinations if destination.cluster == cluster
        ]
        total = sum(member.weight for member in members)
        isNamed = any(destination.dest == mapping.source for destination in mapping.destinations)
        if total < 100 and not isNamed:
            itself = numbered(mapping.source.encode("utf-8", "surrogateescape"))
            rest = itself.decode("utf-8", "surrogateescape")
            members.append(MappingDestination(rest, 100 - total, cluster))
        rows += map(_destination, members)
    return rows


def _destination(destination: MappingDestination) -> dict[str, Any]:
    row: dict[str, Any] = {"subject": destination.dest, "weight": destination.weight}
    return {**row, "cluster": destination.cluster} if destination.cluster else row


def _export(export: Export) -> dict[str, Any]:
    row: dict[str, Any] = {"subject": export.subject, "type": "stream"}
    if isinstance(export, ServiceExport):
        row |= {"type": "service", "response_type": _RESPONSES[export.response_type]}
        if export.latency is not None:
            row["service_latency"] = _latency(export.latency)
    if export.accounts is not None:
        row["approved_accounts"] = list(export.accounts)
    return row


def _latency(latency: Latency) -> dict[str, Any]:
    return {"sampling": latency.sampling or "headers", "results": latency.subject}


def _import(imported: Import) -> dict[str, Any]:
    row: dict[str, Any] = {"subject": imported.subject, "account": imported.account}
    theirs = imported.subject.encode("utf-8", "surrogateescape")
    ours = Renaming(theirs, imported.to.encode("utf-8", "surrogateescape")).ours
    isService = isinstance(imported, ServiceImport)
    local = ours.decode("utf-8", "surrogateescape")
    if isService:
        row["to"] = local
    return row | {
        "local_subject": local,
        "type": "service" if isService else "stream",
        "invalid": False,
        "share": isinstance(imported, ServiceImport) and imported.share,
        "tracking": False,
    }


#: The connections that one step visits.
_STEP = 256


class Accountz:
    def __init__(self, state: BrokerState) -> None:
        self.countLeafnodes: Callable[[str], int] = lambda name: 0
        self.hasJetStream: Callable[[str], bool] = lambda name: False
        self._state = state

    def __call__(self, query: Query) -> Answer:
        name = text(query, "acc")
        account = self._find(name)
        if name and account is None:
            raise BadQuery(f"Account {repeated(name)} does not exist")
        return Answer(200, JSON, bodyOf(self.steps(account)))

    def ofAccount(self, name: str) -> Generator[bytes, None, dict[str, Any] | None]:
        """The details of an account; C{None} for an unknown one."""
        account = self._find(name)
        return None if account is None else (yield from self._detail(account))

    def _find(self, name: str) -> Account | None:
        accounts = (candidate for candidate in self._state.accounts if candidate.name == name)
        return next(accounts, None)

    def steps(self, account: Account | None = None) -> Generator[bytes, None, dict[str, Any]]:
        """Details of an account, or with C{None} the names of all."""
        state = self._state
        head = {"server_id": state.context.info.server_id, "now": instant(state.seconds())}
        if state.systemAccount:
            head["system_account"] = state.systemAccount
        if account is None:
            return {**head, "accounts": [known.name for known in state.accounts]}
        return {**head, "account_detail": (yield from self._detail(account))}

    def _detail(self, account: Account) -> Generator[bytes, None, dict[str, Any]]:
        state, name = self._state, account.name
        clients = yield from self._connected(name)
        detail: dict[str, Any] = {
            "account_name": name,
            "update_time": instant(state.configLoadTime),
        }
        if name == state.systemAccount:
            detail["is_system"] = True
        detail |= {
            "expired": False,
            "complete": True,
            "jetstream_enabled": self.hasJetStream(name),
            "leafnode_connections": self.countLeafnodes(name),
            "client_connections": clients,
            "subscriptions": len(account),
        }
        detail |= exchangesOf(state.settings.accounts.get(name), name, state.systemAccount)
        figures = yield from sublistFigures([account])
        return {**detail, "name_tag": name, "sublist_stats": figures}

    def _connected(self, name: str) -> Generator[bytes, None, int]:
        count = 0
        for place, session in enumerate(list(self._state.context.connections)):
            if place % _STEP == _STEP - 1:
                yield PAUSE
            count += accountOf(session.facts()) == name
        return count
