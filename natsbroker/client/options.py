"""
What a client says about itself.

CONNECT carries the options of the protocol that are named here and nothing else, whatever
a program keeps beside them: other clients have sent private keys that way (nats.js, advisory
CVE-2020-26149). Secrets do not show in representations.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from natsbroker import __version__

__all__ = ["ConnectOptions", "connectFields"]


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """
    The options of one client.

    @ivar name: what it is called, for people who look at the server.
    @ivar user: who it is; with C{password}.
    @ivar token: or a token instead.
    @ivar nkey: or a public key, with C{sign}.
    @ivar jwt: or a user's JWT, with C{sign} unless it is a bearer's.
    @ivar sign: signs the bytes of the server's nonce with the private key, which stays with whoever
        has it; gives the signature as bytes.
    @ivar echo: whether it gets its own messages.
    """

    name: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    nkey: str = ""
    jwt: str = field(default="", repr=False)
    sign: Callable[[bytes], bytes] | None = field(default=None, repr=False)
    echo: bool = True


def connectFields(options: ConnectOptions, nonce: str, isTLS: bool) -> dict[str, Any]:
    """
    The fields of CONNECT.

    @param nonce: the nonce of the server's INFO; empty without.
    @param isTLS: whether the connection is encrypted.
    """
    fields: dict[str, Any] = {
        "verbose": False,
        "pedantic": False,
        "tls_required": isTLS,
        "lang": "python-natsbroker",
        "version": __version__,
        "protocol": 1,
        "echo": options.echo,
        "headers": True,
        "no_responders": True,
    }
    given = {
        "name": options.name,
        "user": options.user,
        "pass": options.password,
        "auth_token": options.token,
        "nkey": options.nkey,
        "jwt": options.jwt,
    }
    fields |= {name: value for name, value in given.items() if value}
    if options.sign is not None and nonce:
        signature = options.sign(nonce.encode("ascii"))
        fields["sig"] = base64.urlsafe_b64encode(signature).rstrip(b"=").decode("ascii")
    return fields
