"""
Who a broker is: its keys.

Promises: an id looks like a real server's, the public half of an nkey of kind server; keys are
others at each start, and their secret halves never leave the process.
Must never know: settings, connections, or what is signed or sealed.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from natsbroker.auth.callout.xkeys import CurveKeys
from natsbroker.auth.nkeys import Role, Signer

__all__ = ["ServerKeys"]

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
