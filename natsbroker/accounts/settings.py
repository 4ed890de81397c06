"""
What accounts exchange, and where their subjects lead, as frozen values.

This module promises plain, comparable, immutable data, spelled like the configuration file.
It must never know how a message is delivered, or where the data came from.
"""

from __future__ import annotations

from dataclasses import dataclass

from natsbroker.subjects.mapping import Destination, Mapping

RESPONSE_THRESHOLD = 120.0
"""For how many seconds an answer to a request is waited for, where nothing else is said."""

SINGLETON = "singleton"
STREAM = "stream"
CHUNKED = "chunked"


@dataclass(frozen=True, slots=True)
class MappingDestination:
    """
    One of the places that a subject mapping leads to.

    @ivar dest: a subject, perhaps with functions in braces.
    @ivar weight: how many of a hundred messages it gets.
    @ivar cluster: the cluster whose brokers it is for; empty for all.
    """

    dest: str
    weight: int = 100
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class SubjectMapping:
    """
    Where messages to some subjects go instead.

    @ivar source: the subjects, perhaps with wildcards.
    """

    source: str
    destinations: tuple[MappingDestination, ...]


@dataclass(frozen=True, slots=True)
class StreamExport:
    """
    Messages that other accounts may have.

    @ivar accounts: who may import it; L{None} for everybody.
    @ivar account_token_position: which token of the importer's subject, from 1, must be its
        name; 0 for none.
    """

    subject: str
    accounts: tuple[str, ...] | None = None
    account_token_position: int = 0


@dataclass(frozen=True, slots=True)
class Latency:
    """
    Measurements of a service.

    @ivar subject: where they are published.
    @ivar sampling: how many of a hundred requests are measured; 0 for those whose headers ask
        for it.
    """

    subject: str
    sampling: int = 100


@dataclass(frozen=True, slots=True)
class ServiceExport:
    """
    Requests that other accounts may make.

    @ivar accounts: who may import it; L{None} for everybody.
    @ivar account_token_position: see L{StreamExport}.
    @ivar response_type: L{SINGLETON}, L{STREAM} or L{CHUNKED}.
    @ivar response_threshold: for how many seconds an answer is waited for.
    @ivar allow_trace: message traces may follow requests in here.
    """

    subject: str
    accounts: tuple[str, ...] | None = None
    account_token_position: int = 0
    response_type: str = SINGLETON
    response_threshold: float = RESPONSE_THRESHOLD
    latency: Latency | None = None
    allow_trace: bool = False


@dataclass(frozen=True, slots=True)
class StreamImport:
    """
    Messages of another account.

    @ivar account: whose they are.
    @ivar subject: what they are called there.
    @ivar to: what they are called here.
    @ivar allow_trace: message traces may follow messages in here.
    """

    account: str
    subject: str
    to: str
    allow_trace: bool = False


@dataclass(frozen=True, slots=True)
class ServiceImport:
    """
    A service of another account.

    @ivar account: whose it is.
    @ivar subject: what its requests are called there.
    @ivar to: what they are called here.
    @ivar share: the service is told who asks.
    """

    account: str
    subject: str
    to: str
    share: bool = False


Export = StreamExport | ServiceExport
Import = StreamImport | ServiceImport


def bytesOf(text: str) -> bytes:
    """
    A subject or a name as it stands on the wire. What was no UTF-8 in the file is the same bytes
    again.
    """
    return text.encode("utf-8", "surrogateescape")


def mappingFrom(said: SubjectMapping) -> Mapping:
    """
    Make the mapping.

    @raise InvalidMapping: if it makes no sense.
    """
    destinations = [
        Destination(bytesOf(each.dest), each.weight, bytesOf(each.cluster))
        for each in said.destinations
    ]
    return Mapping(bytesOf(said.source), destinations)
