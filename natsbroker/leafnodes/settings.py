"""
The C{leafnodes} block as frozen values.

This module promises the defaults of nats-server 2.15, in the spelling of the file:
durations are floats in seconds.  It must never know what a leafnode is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from natsbroker.config.addresses import RemoteURL, splitURL
from natsbroker.config.tls import TLSSettings
from natsbroker.links.compression import Compression
from natsbroker.links.compressionsettings import AUTOMATIC

__all__ = ["LEAF_PORT", "LeafUser", "Leafnodes", "RemoteLeaf", "RemoteURL", "splitRemote"]

LEAF_PORT = 7422
"""The port of a URL that names none."""

_SCHEMES = ("nats-leaf", "nats", "leaf", "")


def splitRemote(url: str) -> RemoteURL:
    """
    Read the URL of a remote; nothing is said in an error that could be a password.

    @raise ValueError: if it is none, or one that leads to a WebSocket.
    """
    return splitURL(url, "leafnode", _SCHEMES, LEAF_PORT)


@dataclass(frozen=True, slots=True)
class LeafUser:
    """
    Somebody who may connect as a leafnode.

    @ivar password: plain text or bcrypt.
    @ivar account: empty for the global one.
    """

    user: str
    password: str = field(default="", repr=False)
    account: str = ""


@dataclass(frozen=True, slots=True)
class RemoteLeaf:
    """
    One of the C{remotes}.

    @ivar urls: where it is; each may hold a user and a password.
    @ivar account: ours; empty for the global one.
    @ivar credentials: path of a file with a JWT and a seed, or empty.
    @ivar nkey: the seed of a user, or empty.
    @ivar hub: we are the hub although we dial.
    @ivar isolate: it hears nothing of our other leafnodes.
    @ivar request_isolation: we hear nothing of its other leafnodes.
    @ivar first_info_timeout: seconds.
    @ivar dial_timeout: seconds; 0 for that of the block.
    @ivar compression: of the connection; the block's is for those who connect.
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

    @property
    def name(self) -> str:
        """
        What tells remotes apart: where they lead, with which account and credentials.
        """
        places = ",".join(sorted(self.urls))
        return "|".join((places, self.account, self.credentials, self.nkey))


@dataclass(frozen=True, slots=True)
class Leafnodes:
    """
    A C{leafnodes} block.

    @ivar port: where leafnodes are listened for; 0 for nowhere, -1 for a random one.
    @ivar user: the only one who may connect, with C{password}; empty for none.
    @ivar nkey: the public key of the only one who may connect; empty for none.
    @ivar account: of that user or key, or, without any, of whoever connects where nobody must say
        who it is; empty for the global one.
    @ivar users: those who may connect; empty for the users who may connect as clients.
    @ivar timeout: seconds in which a leafnode must say who it is; 0 for the default.
    @ivar reconnect: seconds before a remote is dialled again.
    @ivar dial_timeout: seconds that an attempt to dial may take.
    @ivar advertise: C{host} or C{host:port} that others are told to use.
    @ivar no_advertise: the members of our cluster do not tell their leafnodes of us.
    @ivar min_version: of those who connect; empty for any.
    @ivar isolate: leafnodes hear nothing of each other.
    @ivar write_deadline: seconds; 0 for the clients'.
    @ivar compression: of the connections of those who connect.
    """

    host: str = "0.0.0.0"
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    nkey: str = ""
    account: str = ""
    users: tuple[LeafUser, ...] = ()
    timeout: float = 0.0
    remotes: tuple[RemoteLeaf, ...] = ()
    reconnect: float = 1.0
    dial_timeout: float = 1.0
    tls: TLSSettings | None = None
    advertise: str = ""
    no_advertise: bool = False
    min_version: str = ""
    isolate: bool = False
    write_deadline: float = 0.0
    compression: Compression = AUTOMATIC
