"""The introduction of servers on links of every kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.defer import Deferred

from natsbroker import NATS_VERSION
from natsbroker.auth.certificates import CertificateNames, namesHost
from natsbroker.auth.passwords import PasswordChecks, isHash, sameText
from natsbroker.config.addresses import RemoteURL
from natsbroker.config.model import Settings
from natsbroker.config.settings.listeners import ListenerSettings


@dataclass(frozen=True, slots=True)
class LinkIdentity:
    """
    This broker, as other servers see it.

    @ivar ip: the URL at which they can dial this broker; empty if it is the address that they see.
    @ivar gateway_url: the URL at which other clusters can dial it; empty without a gateway.
    """

    server_id: str
    server_name: str
    host: str = "0.0.0.0"
    port: int = 0
    ip: str = ""
    gateway_url: str = ""

    def head(self, proto: int) -> dict[str, Any]:
        return {
            "server_id": self.server_id,
            "server_name": self.server_name,
            "version": NATS_VERSION,
            "proto": proto,
            "go": "",
            "host": self.host,
            "port": self.port,
        }


#: The beginning of an INFO that describes no server.
NOBODY = {**LinkIdentity("", "", "").head(0), "version": "", "headers": False, "max_payload": 0}


def identityAt(
    settings: Settings, serverId: str, host: str, port: int, ip: str = "", gateway: str = ""
) -> LinkIdentity:
    return LinkIdentity(serverId, settings.server_name or serverId, host, port, ip, gateway)


@dataclass(frozen=True, slots=True)
class LinkLogin:
    """
    The login that a listener requires of its peers.

    @ivar user: empty if none is required, or nobody can have it.
    @ivar password: in plain text or as a hash.
    @ivar isMapped: whether the peer's certificate may name the user.
    @ivar hosts: those that its certificate may name; C{None} if no host admits it.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    isMapped: bool = False
    hosts: tuple[str, ...] | None = None

    @property
    def isOpen(self) -> bool:
        return not (self.user or self._isByCertificate)

    @property
    def _isByCertificate(self) -> bool:
        """No password counts then."""
        return self.isMapped or self.hosts is not None

    def admits(
        self, checks: PasswordChecks, user: str, password: str, certificate: Any
    ) -> bool | Deferred[bool]:
        """Whether a peer's credentials are right. They are compared in constant time."""
        if self._isByCertificate:
            return certificate is not None and self._isNamed(certificate)
        if not self.user:
            return True
        isUser = sameText(self.user, user)
        isPassword = checks.check(self.password, password)
        if isinstance(isPassword, Deferred):
            return isPassword.addCallback(lambda same: same and isUser)
        return isPassword and isUser

    def _isNamed(self, certificate: Any) -> bool:
        if namesHost(certificate, self.hosts or ()):
            return True
        names = CertificateNames([self.user] if self.isMapped and self.user else [])
        return any(True for _ in names.namesIn(certificate))


def loginFor(block: ListenerSettings, urls: Iterable[RemoteURL]) -> LinkLogin:
    """
    The login of peers that dial a listener.

    @param urls: those of its configured peers.
    """
    hosts = tuple(url.host for url in urls) if block.isKnownByURL else None
    return LinkLogin(block.user, block.password, block.isMapped, hosts)


def loginToSay(user: str, password: str, urls: Iterable[RemoteURL]) -> tuple[str, str]:
    """
    The user and the password for a peer whose URL has none. Since a hash cannot be sent, they then
    come from the first URL with a password.
    """
    if not isHash(password):
        return user, password
    return next(((url.user, url.password) for url in urls if url.password), (user, ""))
