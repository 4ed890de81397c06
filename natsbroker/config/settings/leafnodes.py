"""
The C{leafnodes} block as frozen values, with the defaults of nats-server 2.15. Durations are
seconds. docs/reference/configuration.md has the meaning of each key.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from natsbroker.config.addresses import RemoteURL, splitURL
from natsbroker.config.settings.authorization import GLOBAL_ACCOUNT
from natsbroker.config.settings.compression import AUTOMATIC
from natsbroker.config.settings.listeners import Listener
from natsbroker.config.tls import TLSSettings
from natsbroker.wire.compression import Compression

LEAF_PORT = 7422
"""The port of a URL that names none."""


def splitRemote(url: str) -> RemoteURL:
    """
    Errors contain no password.

    @raise ValueError: if the URL is not valid.
    """
    return splitURL(url, "leafnode", ("nats-leaf",), LEAF_PORT, isPeer=True)


@dataclass(frozen=True, slots=True)
class LeafUser:
    user: str = ""
    password: str = field(default="", repr=False)
    account: str = ""
    proxy_required: bool = False


@dataclass(frozen=True, slots=True)
class LeafProxy:
    """
    @ivar timeout: 0 for that of dialling.
    """

    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)
    timeout: float = 0.0


@dataclass(frozen=True, slots=True)
class RemoteLeaf:
    """
    @ivar proxy: an HTTP proxy that C{urls} are reached through; C{None} for none.
    @ivar dial_timeout: 0 for that of the block.
    @ivar compression: of the connection; that of the block is for accepted connections.
    @ivar ws_compression: the compression of WebSocket is asked for, where C{urls} are such.
    @ivar ws_no_masking: masks are to be left out there.
    """

    urls: tuple[str, ...] = field(repr=False)
    account: str = ""
    credentials: str = ""
    nkey: str = field(default="", repr=False)
    tls: TLSSettings | None = None
    hub: bool = False
    deny_imports: tuple[str, ...] = ()
    deny_exports: tuple[str, ...] = ()
    no_randomize: bool = False
    isolate: bool = False
    request_isolation: bool = False
    first_info_timeout: float = 1.0
    dial_timeout: float = 0.0
    disabled: bool = False
    ignore_discovered_servers: bool = False
    compression: Compression = AUTOMATIC
    ws_compression: bool = False
    ws_no_masking: bool = False
    proxy: LeafProxy | None = None

    @property
    def localAccount(self) -> str:
        return self.account or GLOBAL_ACCOUNT

    @property
    def name(self) -> str:
        """The identity of a remote: where it leads, with which account and credentials."""
        places = ",".join(sorted(self.urls))
        return "|".join((places, self.account, self.credentials, self.nkey))


@dataclass(frozen=True, slots=True)
class Leafnodes(Listener):
    """
    @ivar account: the account of C{user} or C{nkey}; without a login, that of all leafnodes. Empty
        for the global account.
    @ivar users: empty for the users of clients.
    @ivar proxy_required: whether all who log in here must come through a trusted proxy.
    """

    nkey: str = ""
    account: str = ""
    users: tuple[LeafUser, ...] = ()
    proxy_required: bool = False
    remotes: tuple[RemoteLeaf, ...] = ()
    reconnect: float = 1.0
    dial_timeout: float = 1.0
    no_advertise: bool = False
    min_version: str = ""
    isolate: bool = False
    write_deadline: float = 0.0
    compression: Compression = AUTOMATIC

    @property
    def isOn(self) -> bool:
        return True
