"""
The exports, imports and subject mappings of accounts, as frozen values that are spelled like the
configuration file. docs/reference/configuration.md has the meaning of each key.
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
    dest: str
    weight: int = 100
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class SubjectMapping:
    source: str
    destinations: tuple[MappingDestination, ...]


@dataclass(frozen=True, slots=True)
class StreamExport:
    subject: str
    accounts: tuple[str, ...] | None = None
    account_token_position: int = 0


@dataclass(frozen=True, slots=True)
class Latency:
    subject: str
    sampling: int = 100


@dataclass(frozen=True, slots=True)
class ServiceExport:
    subject: str
    accounts: tuple[str, ...] | None = None
    account_token_position: int = 0
    response_type: str = SINGLETON
    response_threshold: float = RESPONSE_THRESHOLD
    latency: Latency | None = None
    allow_trace: bool = False


@dataclass(frozen=True, slots=True)
class StreamImport:
    account: str
    subject: str
    to: str
    allow_trace: bool = False


@dataclass(frozen=True, slots=True)
class ServiceImport:
    account: str
    subject: str
    to: str
    share: bool = False


Export = StreamExport | ServiceExport
Import = StreamImport | ServiceImport


def isOfItself(importer: str, imported: Import) -> bool:
    """
    Whether an account imports its own export under the name that it has there already. Such an
    import has no effect; nats-server would deliver its messages twice.
    """
    return imported.account == importer and imported.to == imported.subject


def bytesOf(text: str) -> bytes:
    """The bytes of a subject or a name. Those in the file that are not UTF-8 stay unchanged."""
    return text.encode("utf-8", "surrogateescape")


def mappingFrom(settings: SubjectMapping) -> Mapping:
    destinations = [
        Destination(bytesOf(destination.dest), destination.weight, bytesOf(destination.cluster))
        for destination in settings.destinations
    ]
    return Mapping(bytesOf(settings.source), destinations)
