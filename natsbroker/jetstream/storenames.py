"""
The names of streams in their stores.
"""

from __future__ import annotations

from hashlib import sha256
from urllib.parse import quote

from natsbroker.wire.text import encoded


def logName(account: str, stream: str) -> str:
    """
    The name of a stream's log in its store. An empty stream name gives the prefix of all logs of
    the account.
    """
    owner = quote(account, safe="")
    if len(owner) > 120:
        owner = sha256(account.encode()).hexdigest()
    name = encoded(stream)
    if len(name) > 255:
        return f"jetstream/{owner}/{sha256(name).hexdigest()}"
    return f"jetstream/{owner}/{name.decode()}"


def spaceName(log: str) -> str:
    """
    The space of state of one stream in a store that brokers share. It is leased with the log.

    @param log: the name of the log, or the prefix of all logs of an account.
    """
    _, owner, stream = log.split("/", 2)
    if len(owner) > 30:
        owner = sha256(owner.encode()).hexdigest()[:30]
    if len(stream.encode()) > 55:
        stream = sha256(stream.encode()).hexdigest()[:55]
    return f"jetstream/{owner}/{stream}"
