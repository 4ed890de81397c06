"""
The JSON of INFO and CONNECT on links. Names are matched without regard to case. Unknown names are
kept for passing on. Input raises at most C{ValueError}, however deep or strange. A value of the
wrong type refuses the whole, as in nats-server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any

from natsbroker.wire.connect import parseJSON, writeJSON

#: The largest number that is taken for a port, a size or a version.
_LARGEST = (1 << 63) - 1


class GossipMode(IntEnum):
    """
    @cvar DEFAULT: the receiver dials the member and passes nothing on.
    @cvar DISABLED: a server that dials the member tells it not to pass the gossip on either.
    @cvar OVERRIDE: a server that dials the member passes the gossip on.
    """

    DEFAULT = 0
    DISABLED = 1
    OVERRIDE = 2


class GatewayCommand(IntEnum):
    """
    @cvar GOSSIP: dial another gateway.
    @cvar ALL_SUBS_START: all interest of an account follows.
    @cvar ALL_SUBS_COMPLETE: the interest was complete; from now on changes follow.
    """

    GOSSIP = 1
    ALL_SUBS_START = 2
    ALL_SUBS_COMPLETE = 3


@dataclass(frozen=True, slots=True)
class ServerDocument:
    """
    @ivar host: with C{port}, the address at which the server says that it listens for servers of
        this kind.
    @ivar ip: the URL at which it can be dialled; empty if its peer finds that out.
    @ivar cluster_dynamic: its cluster's name is generated, and it accepts another one.
    @ivar lnoc: it understands LS+ and LMSG.
    @ivar lnocu: its LS- names the origin.
    @ivar route_pool_size: the number of connections that it wants to share among accounts; 0 for
        one, without dedicated connections for accounts.
    @ivar route_pool_idx: the index of this connection among them.
    @ivar gateway: the name of the gateway that this is about: its own, or another one in gossip.
    @ivar gateway_cmd: a L{GatewayCommand}; 0 for none.
    @ivar gateway_cmd_payload: the subject of the command, as base64.
    @ivar gateway_nrp: it understands mapped reply subjects that begin with C{_GR_}.
    @ivar gateway_iom: it sends all interest of every account at once.
    @ivar permitImport: the patterns whose interest it sends, and those that it withholds; C{None}
        for no restriction.
    @ivar permitExport: the patterns whose interest it accepts.
    @ivar info_on_connect: it answers a leafnode's CONNECT with another INFO.
    @ivar raw: all members, unknown names included.
    """

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    proto: int = 0
    host: str = ""
    port: int = 0
    headers: bool = False
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    max_payload: int = 0
    jetstream: bool = False
    ip: str = ""
    client_id: int = 0
    nonce: str = ""
    cluster: str = ""
    cluster_dynamic: bool = False
    connect_urls: tuple[str, ...] = ()
    ws_connect_urls: tuple[str, ...] = ()
    ldm: bool = False
    compression: str = ""
    lnoc: bool = False
    lnocu: bool = False
    route_pool_size: int = 0
    route_pool_idx: int = 0
    route_account: str = ""
    route_acc_add_reqid: str = ""
    gossip_mode: int = 0
    gateway: str = ""
    gateway_urls: tuple[str, ...] = ()
    gateway_url: str = ""
    gateway_cmd: int = 0
    gateway_cmd_payload: str = ""
    gateway_nrp: bool = False
    gateway_iom: bool = False
    permitImport: Mapping[str, Any] | None = None
    permitExport: Mapping[str, Any] | None = None
    leafnode_urls: tuple[str, ...] = ()
    info_on_connect: bool = False
    connect_info: bool = False
    remote_account: str = ""
    domain: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def changed(self, **values: Any) -> ServerDocument:
        """A copy with other members, which also change what is passed on."""
        raw = {name: value for name, value in self.raw.items() if name.lower() not in values}
        raw.update({name: value for name, value in values.items() if value})
        return replace(self, raw=raw, **values)


@dataclass(frozen=True, slots=True)
class LinkConnect:
    name: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    auth_token: str = field(default="", repr=False)
    verbose: bool = False
    pedantic: bool = False
    headers: bool = False
    tls_required: bool = False
    cluster: str = ""
    cluster_dynamic: bool = False
    lang: str = ""
    gateway: str = ""


@dataclass(frozen=True, slots=True)
class LeafConnect:
    """
    A leafnode's CONNECT, without its credentials.

    @ivar is_hub: it treats us as its spoke, although it dialled.
    @ivar deny_pub: the patterns that it wants no messages of.
    @ivar isolate: it wants no interest of other leafnodes.
    @ivar compress_mode: the level at which it sends, C{off} or C{not supported}.
    """

    version: str = ""
    name: str = ""
    server_id: str = ""
    is_hub: bool = False
    cluster: str = ""
    headers: bool = False
    deny_pub: tuple[str, ...] = ()
    isolate: bool = False
    domain: str = ""
    compress_mode: str = ""
    remote_account: str = ""
    lang: str = ""
    gateway: str = ""
    protocol: int = 0


#: Members of our values that the wire calls something else.
_WIRE_NAMES = {"permitImport": "import", "permitExport": "export", "password": "pass"}

_PERMISSIONS = frozenset({"permitImport", "permitExport"})


def parseDocument(text: bytes) -> ServerDocument:
    given = _members(text)
    return ServerDocument(raw=given, **_read(ServerDocument, given))


def parseConnect(text: bytes) -> LinkConnect:
    return LinkConnect(**_read(LinkConnect, _members(text)))


def parseLeafConnect(text: bytes) -> LeafConnect:
    return LeafConnect(**_read(LeafConnect, _members(text)))


def _members(text: bytes) -> dict[str, Any]:
    given = parseJSON(text)
    if not isinstance(given, dict):
        raise ValueError("not a JSON object")
    return given


def _read(
    kind: type[ServerDocument] | type[LinkConnect] | type[LeafConnect], given: dict[str, Any]
) -> dict[str, Any]:
    folded = {name.lower(): value for name, value in given.items() if value is not None}
    values: dict[str, Any] = {}
    for member in fields(kind):
        name = _WIRE_NAMES.get(member.name, member.name)
        if name in folded and member.name != "raw":
            values[member.name] = _checked(member.name, folded[name], member.default)
    return values


def _checked(name: str, value: Any, default: Any) -> Any:
    if name in _PERMISSIONS:
        return _permissions(name, value)
    if isinstance(default, tuple):
        return _texts(name, value)
    wanted = type(default)
    if type(value) is not wanted:
        raise ValueError(f"{name} must be a JSON {wanted.__name__}")
    if wanted is int and not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"{name} is out of range")
    return value


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"{name} must be an array of strings")
    return tuple(value)


def _permissions(name: str, value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object")
    return {
        key.lower(): _texts(name, lists)
        for key, lists in value.items()
        if key.lower() in ("allow", "deny") and lists is not None
    }


def connectLine(options: Mapping[str, Any]) -> bytes:
    shown = {name: value for name, value in options.items() if value or name in _ALWAYS_IN_CONNECT}
    return b"CONNECT %b\r\n" % writeJSON(shown)


_ALWAYS_IN_CONNECT = frozenset({"echo", "verbose", "pedantic", "tls_required", "headers", "name"})
