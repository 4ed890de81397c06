"""
The exports, imports and subject mappings of accounts, as frozen values that are spelled like the
configuration file.
"""

from __future__ import annotations

from dataclasses import dataclass

from natsbroker.subjects.mapping import Destination, Mapping

RESPONSE_THRESHOLD = 120.0
"""The default time for a response, in seconds."""

SINGLETON = "singleton"
STREAM = "stream"
CHUNKED = "chunked"


@dataclass(frozen=True, slots=True)
class MappingDestination:
    """
    @ivar weight: its share of the messages, in percent.
    @ivar cluster: the cluster whose brokers use it; empty for all.
    """

    dest: str
    weight: int = 100
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class SubjectMapping:
    source: str
    destinations: tuple[MappingDestination, ...]


@dataclass(frozen=True, slots=True)
class StreamExport:
    """
    @ivar accounts: the accounts that may import it; C{None} for all.
    @ivar account_token_position: which token of the importer's subject, from 1, must be its name; 0
        for none.
    """

    subject: str
    accounts: tuple[str, ...] | None = None
    account_token_position: int = 0


@dataclass(frozen=True, slots=True)
class Latency:
    """
    @ivar subject: where the measurements of a service are published.
    @ivar sampling: the measured share of requests, in percent; 0 for those whose headers ask for
        it.
    """

    subject: str
    sampling: int = 100


@dataclass(frozen=True, slots=True)
class ServiceExport:
    """
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
    @ivar subject: its subjects there.
    @ivar to: its subjects here.
    @ivar allow_trace: message traces may follow messages in here.
    """

    account: str
    subject: str
    to: str
    allow_trace: bool = False


@dataclass(frozen=True, slots=True)
class ServiceImport:
    """
    @ivar share: the service receives details about the requestor.
    """

    account: str
    subject: str
    to: str
    share: bool = False


Export = StreamExport | ServiceExport
Import = StreamImport | ServiceImport


def bytesOf(text: str) -> bytes:
    """
    A subject or a name on the wire. Bytes of the file that were no UTF-8 are unchanged.
    """
    return text.encode("utf-8", "surrogateescape")


def mappingFrom(said: SubjectMapping) -> Mapping:
    destinations = [
        Destination(bytesOf(each.dest), each.weight, bytesOf(each.cluster))
        for each in said.destinations
    ]
    return Mapping(bytesOf(said.source), destinations)
