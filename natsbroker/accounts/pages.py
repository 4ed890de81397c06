"""
The exchanges of an account as C{/accountz} shows them, with nats-server's keys; exports and imports
in the order of the settings.
"""

from __future__ import annotations

from typing import Any

from natsbroker.accounts.settings import (
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
from natsbroker.auth.settings import AccountSettings
from natsbroker.subjects.renaming import Renaming, numbered

_RESPONSES = {SINGLETON: "Singleton", STREAM: "Streamed", CHUNKED: "Chunked"}


def exchangesOf(account: AccountSettings) -> dict[str, Any]:
    ordered = sorted(account.mappings, key=lambda mapping: mapping.source)
    found = {
        "mappings": {each.source: _destinations(each) for each in ordered},
        "exports": [_export(each) for each in account.exports],
        "imports": [_import(each) for each in account.imports],
    }
    return {key: value for key, value in found.items() if value}


def _destinations(mapping: SubjectMapping) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    clusters = dict.fromkeys(["", *[each.cluster for each in mapping.destinations]])
    for cluster in clusters:
        members = [each for each in mapping.destinations if each.cluster == cluster]
        total = sum(each.weight for each in members)
        isNamed = any(each.dest == mapping.source for each in mapping.destinations)
        if total < 100 and not isNamed:
            itself = numbered(mapping.source.encode("utf-8", "surrogateescape"))
            rest = itself.decode("utf-8", "surrogateescape")
            members.append(MappingDestination(rest, 100 - total, cluster))
        found += map(_destination, members)
    return found


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
