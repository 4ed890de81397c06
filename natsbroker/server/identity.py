"""
Who a broker is: its keys.

Promises: an id looks like a real server's, the public half of an nkey of kind server; keys are
others at each start, and their secret halves never leave the process.
Must never know: settings, connections, or what is signed or sealed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import Any

from natsbroker.auth.answering import Describe
from natsbroker.auth.callout.xkeys import CurveKeys
from natsbroker.auth.nkeys import Role, Signer
from natsbroker.clients.info import ServerInfo
from natsbroker.config.model import Settings
from natsbroker.wire.instants import instant

__all__ = ["ServerKeys", "describing", "identifying"]


#: How many secret bytes a key is made of.
KEY_SIZE = 32


class ServerKeys:
    """
    The keys of a broker that starts.

    @ivar signer: signs in its name.
    @ivar curve: seals and opens what is for it alone.
    """

    def __init__(self, random: Callable[[int], bytes] = os.urandom) -> None:
        """
        @param random: makes secret bytes.
        """
        self.signer = Signer(Role.SERVER, random(KEY_SIZE))
        self.curve = CurveKeys(random(KEY_SIZE))

    @property
    def id(self) -> str:
        """
        The id of the broker: its public key.
        """
        return self.signer.publicKey

    @property
    def xkey(self) -> str:
        """
        The public key that others seal for.
        """
        return self.curve.publicKey


def describing(info: Callable[[], ServerInfo], now: Callable[[], float]) -> Describe:
    """
    Make what describes a broker.

    @param info: tells what INFO says now.
    @param now: tells the time, in seconds since the epoch.
    """
    numbers = count(1)

    def describe() -> dict[str, Any]:
        known = info()
        cluster = {"cluster": known.cluster} if known.cluster else {}
        return {
            "name": known.server_name,
            "host": known.host,
            "id": known.server_id,
            **cluster,
            "ver": known.version,
            "jetstream": known.jetstream,
            "flags": 0,
            "seq": next(numbers),
            "time": instant(now()),
        }

    return describe


def identifying(info: Callable[[], ServerInfo], settings: Callable[[], Settings]) -> Describe:
    """
    Make what names a broker to auth callout services.

    @param info: tells what INFO says now.
    @param settings: tells the settings in force.
    """

    def identify() -> dict[str, Any]:
        known, tags = info(), settings().server_tags
        named = {
            "name": known.server_name,
            "host": known.host,
            "id": known.server_id,
            "version": known.version,
        }
        return {**named, "tags": list(tags)} if tags else named

    return identify
