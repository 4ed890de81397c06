"""Mappings between the API of our JetStream domain and that of another, as nats-server has them."""

from __future__ import annotations

from natsbroker.config.settings.accounts import MappingDestination, SubjectMapping

API = "$JS.API.>"
"""The requests of JetStream's API."""

_MAPPED = {
    "INFO": "$JS.API.INFO",
    **{
        f"{group}.>": f"$JS.API.{group}.>"
        for group in ("STREAM", "CONSUMER", "DIRECT", "META", "SERVER", "ACCOUNT")
    },
    "$KV.>": "$KV.>",
    "$OBJ.>": "$OBJ.>",
}
"""
The text behind the prefix of a domain's API, and its name without a domain. (nats-server's
C{generateJSMappingTable}.)
"""


def fromDomain(domain: str) -> tuple[SubjectMapping, ...]:
    """The mappings by which clients reach their own domain by its name."""
    return tuple(_mapping(f"$JS.{domain}.API.{tail}", plain) for tail, plain in _MAPPED.items())


def toDomain(domain: str) -> tuple[SubjectMapping, ...]:
    """The mappings by which clients reach another domain without naming it."""
    return tuple(_mapping(plain, f"$JS.{domain}.API.{tail}") for tail, plain in _MAPPED.items())


def _mapping(source: str, target: str) -> SubjectMapping:
    return SubjectMapping(source, (MappingDestination(target),))
