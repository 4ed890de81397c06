"""
The services that an account imports. A request reaches the exporter under its name there, with the
requestor's description, and is dropped where it would go in circles.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.latency import publishEvent, traceHeaders, unansweredEvent
from natsbroker.accounts.relays import (
    MOST_HOPS,
    ImportHop,
    ImportPath,
    Relay,
    originOf,
    relaySubscription,
)
from natsbroker.accounts.tracing import MessageTrace, disabled, withTraceHeader
from natsbroker.accounts.withdrawn import isPull
from natsbroker.config.settings.accounts import STREAM, ServiceExport
from natsbroker.subjects.grammar import matches
from natsbroker.subjects.renaming import Renaming
from natsbroker.wire.clientinfo import stamped
from natsbroker.wire.mapped import ACKNOWLEDGEMENT
from natsbroker.wire.schedules import subjectsIn
from natsbroker.wire.text import decoded
from natsbroker.wire.tracing import DEST
from natsbroker.wire.values import ClientInfo, Kind, Message

#: Requests of these origins are not imported here: the broker that sent them has done so.
_IMPORTED_THERE = frozenset({Kind.ROUTE, Kind.GATEWAY})

#: Servers with JetStream answer these requests in the account of the client that asks. The import
#: of the whole API leaves them alone. (nats-server's C{processServiceImport}.)
_ALL_OF_JETSTREAM = b"$JS.API.>"
_NOT_IMPORTED = (b"$JS.API.CONSUMER.MSG.NEXT.", b"$JS.API.DIRECT.GET")


#: The traces that servers in an exporter's account send: any number, for ten seconds.
_TRACES = ImportHop(ServiceExport("", response_type=STREAM, response_threshold=10.0), False)


class ImportedService(ImportHop, Relay):
    __slots__ = ("_exporter", "_importer", "_renaming")

    isAdvertised = False

    def __init__(
        self,
        importer: Account,
        exporter: Account,
        export: ServiceExport,
        renaming: Renaming,
        share: bool = False,
    ) -> None:
        """C{renaming} is between the subjects of requests there and here."""
        super().__init__(export, share)
        self._importer = importer
        self._exporter = exporter
        self._renaming = renaming

    def subscription(self) -> hot.Subscription:
        return relaySubscription(self._importer, self._renaming.ours, self)

    def relay(self, message: Message, kind: Kind, path: ImportPath | None) -> bool:
        export, exporter = self.export, self._exporter
        if kind in _IMPORTED_THERE or self._leavesAlone(message.subject):
            return False
        if path is not None and path.refuses(export):
            return False
        if message.headerLength and not self._maySchedule(message):
            return False
        subject = exporter.mapped(self._renaming.toTheirs(message.subject))
        trace = message.trace
        if trace is not None:
            names = {"from": decoded(message.subject), "to": decoded(subject)}
            trace.add("si", acc=exporter.name, **names)
            if trace.isOnly and not export.allow_trace:
                return False
        origin, latency, reply, answer = originOf(message), export.latency, message.reply, None
        trigger = None if latency is None else traceHeaders(latency, message, exporter.random)
        isDelivered = trace is None or not trace.isOnly
        if isDelivered and reply and not reply.startswith(ACKNOWLEDGEMENT):
            answer = exporter.responses.expect(
                self._importer.responses, reply, self, origin, trigger, isPull(subject)
            )
            reply = answer.subject
        elif not reply and latency is not None and trigger is not None:
            now = exporter.clock.seconds()
            event = unansweredEvent(400, origin, self.share, trigger, now, now)
            publishEvent(exporter, latency, event)
        described = self._described(origin, path)
        body, headerLength = stamped(message.body, message.headerLength, described)
        request = Message(
            subject,
            body,
            reply,
            headerLength,
            message.origin,
            streamSubject=message.streamSubject,
        )
        if trace is not None:
            request = self._traced(request, trace)
        hops = () if path is None else path.hops
        reached = exporter.delivery.publish(kind, request, ImportPath((*hops, self), described))
        if answer is not None and not reached:
            exporter.responses.giveUp(answer, 503)
        return reached > 0

    def _maySchedule(self, message: Message) -> bool:
        """Whether the subjects of a schedule, if it is one, belong to the export too."""
        targets, sources = subjectsIn(message.body, message.headerLength)
        return all(matches(self._renaming.theirs, subject) for subject in targets + sources)

    def _traced(self, request: Message, trace: MessageTrace) -> Message:
        """Have the exporter's servers send their trace events to a subject that leads here."""
        if not self.export.allow_trace:
            return disabled(request)
        responses = self._importer.responses
        awaited = self._exporter.responses.expect(responses, trace.dest, _TRACES)
        request = withTraceHeader(request, DEST, awaited.subject)
        request.trace = trace
        return request

    def reaches(self, subject: bytes, kind: Kind, hops: int) -> bool:
        if kind in _IMPORTED_THERE or hops >= MOST_HOPS or self._leavesAlone(subject):
            return False
        theirs = self._exporter.mapped(self._renaming.toTheirs(subject))
        return self._exporter.delivery.hasInterest(kind, theirs, hops + 1)

    def _leavesAlone(self, subject: bytes) -> bool:
        isAll = self._renaming.theirs == _ALL_OF_JETSTREAM and self._exporter.isSystem
        return isAll and subject.startswith(_NOT_IMPORTED)

    def _described(self, origin: Any, path: ImportPath | None) -> ClientInfo:
        isSystem = self._exporter.isSystem
        before = None if path is None else path.requestor
        if before is not None and path is not None:
            described = replace(before, svc=self._importer.name)
            wantsServer = not path.hops[-1].share and (self.share or isSystem)
        elif origin is not None:
            described = origin.clientInfo(self.share)
            wantsServer = not self.share and isSystem
        else:
            return ClientInfo(acc=self._importer.name)
        if wantsServer and origin is not None:
            described = replace(described, server=origin.clientInfo(True).server)
        if described.server:
            cluster, alternates = self._importer.location()
            described = replace(described, cluster=cluster, alts=alternates)
        return described

    def __repr__(self) -> str:
        return f"<ServiceImport of {self._exporter.name!r}: {self._renaming!r}>"
