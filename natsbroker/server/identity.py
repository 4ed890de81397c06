"""The keys of a broker, and its names in messages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from natsbroker.auth.callout.xkeys import CurveKeys
from natsbroker.auth.nkeys import Signer
from natsbroker.clients.info import FEATURE_FLAGS, ServerInfo
from natsbroker.config.model import Settings
from natsbroker.runtime.responder import Describe
from natsbroker.wire.instants import instant
from natsbroker.wire.nkeys import Role

KEY_SIZE = 32
"""The secret bytes of a key."""


class ServerKeys:
    """
    The keys of a broker, secret and new at each start. C{curve} encrypts messages with a service.
    """

    def __init__(self, random: Callable[[int], bytes] = os.urandom) -> None:
        self.signer = Signer(Role.SERVER, random(KEY_SIZE))
        self.curve = CurveKeys(random(KEY_SIZE))

    @property
    def id(self) -> str:
        return self.signer.publicKey

    @property
    def xkey(self) -> str:
        return self.curve.publicKey


def serverDescriber(
    info: Callable[[], ServerInfo],
    now: Callable[[], float],
    settings: Callable[[], Settings] = Settings,
    isShared: bool = False,
) -> Describe:
    """
    Makes nats-server's C{ServerInfo} of a message; each call has a higher number.

    @param isShared: whether several processes are the server.
    """
    numbers = _clockNumbers(now) if isShared else count(1)

    def describe() -> dict[str, Any]:
        known, current = info(), settings()
        leafs = current.leafnodes
        # A server without a cluster that dials leafnodes is a cluster by itself.
        alone = known.server_name if leafs is not None and leafs.remotes else ""
        optional: dict[str, Any] = {
            "cluster": known.cluster or alone,
            "domain": current.jetstream.domain,
            "ver": known.version,
            "tags": list(current.server_tags),
            "metadata": dict(current.server_metadata),
            "feature_flags": dict(FEATURE_FLAGS),
        }
        return {
            "name": known.server_name,
            "host": known.host,
            "id": known.server_id,
            **{key: value for key, value in optional.items() if value},
            "jetstream": known.jetstream,
            "flags": 0,
            "seq": next(numbers),
            "time": instant(now()),
        }

    return describe


def _clockNumbers(now: Callable[[], float]) -> Iterator[int]:
    """
    Numbers that grow with time, in microseconds. Those of processes that are one server rise
    together, also after one of them has been restarted. Other servers drop a status with a lower
    number than before.
    """
    last = 0
    while True:
        last = max(last + 1, int(now() * 1e6))
        yield last


def serverIdentity(info: ServerInfo, tags: Sequence[str]) -> dict[str, Any]:
    named = {
        "name": info.server_name,
        "host": info.host,
        "id": info.server_id,
        "version": info.version,
    }
    return {**named, "tags": list(tags)} if tags else named
