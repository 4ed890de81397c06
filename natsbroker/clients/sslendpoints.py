"""
Endpoints that are described as C{ssl:4443:privateKey=...:certKey=...}.

The certificate and the key come from the description. Everything else (versions, cipher suites,
curves, client certificates, timeouts) comes from the settings for TLS, so that a description cannot
avoid them. The files are read again whenever terms are made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from twisted.internet.interfaces import IStreamServerEndpoint

from natsbroker.config.model import TLSSettings
from natsbroker.connections.listener import addressEndpoint
from natsbroker.connections.opensocket import BACKLOG
from natsbroker.connections.tls import TLSTerms
from natsbroker.connections.tlscontext import termsFrom

_PART = r"(?:\\.|[^:\\])*"
_PARTS = re.compile(rf"{_PART}(?::{_PART})*", re.DOTALL)
_NAMED = re.compile(r"(\w+)=(.*)", re.DOTALL)

#: The options of Twisted's endpoints that are refused here, with the reason.
_REFUSED = {
    "sslmethod": "the versions are those of the settings (tls: min_version)",
    "dhParameters": "keys are exchanged with elliptic curves only",
}


@dataclass(frozen=True)
class SSLEndpoint:
    """
    @ivar port: 0 for one that the kernel chooses.
    @ivar extraCertChain: the path of further certificates to show; may be empty.
    """

    port: int
    privateKey: str
    certKey: str
    extraCertChain: str = ""
    interface: str = ""
    backlog: int = BACKLOG

    @staticmethod
    def isMeant(description: str) -> bool:
        return description.startswith("ssl:")

    @classmethod
    def fromDescription(cls, description: str) -> SSLEndpoint:
        try:
            return cls(**_fieldsOf(description))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{description}: {error}") from error

    def endpoint(self, reactor: Any) -> IStreamServerEndpoint:
        return addressEndpoint(reactor, self.interface, self.port, self.backlog)

    def terms(self, policy: TLSSettings) -> TLSTerms:
        """
        The terms by a policy. L{natsbroker.connections.tlscontext.TLSSettingsError} if a file
        cannot be used.
        """
        own = replace(
            policy,
            certs=((self.certKey, self.privateKey),),
            handshake_first=True,
            handshake_first_fallback=0.0,
            place="tls",
        )
        return termsFrom(own, False, self.extraCertChain)


def _fieldsOf(description: str) -> dict[str, Any]:
    if not _PARTS.fullmatch(description):
        raise ValueError("a backslash ends the text")
    fields: dict[str, Any] = {"privateKey": "server.pem"}
    places = iter(("port", "privateKey", "certKey"))
    for part in re.findall(rf":({_PART})", description):
        named = _NAMED.fullmatch(part)
        name, text = named.groups() if named else (next(places, "another argument"), part)
        if name in _REFUSED:
            raise ValueError(f"{name} is not supported: {_REFUSED[name]}")
        fields[name] = re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
    fields.setdefault("certKey", fields["privateKey"])
    for name in {"port", "backlog"}.intersection(fields):
        if not re.fullmatch("[0-9]{1,5}", fields[name]) or int(fields[name]) > 65535:
            raise ValueError(f"{name} is not a number from 0 to 65535")
        fields[name] = int(fields[name])
    return fields
