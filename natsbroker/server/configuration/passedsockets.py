"""
Listening sockets that the process which starts the broker has opened: systemd's socket activation.

The variables C{LISTEN_PID}, C{LISTEN_FDS} and C{LISTEN_FDNAMES} say for which process they are, how
many there are, and what each is for. A passed socket replaces an address of the configuration, also
where the configuration is checked and read again.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import replace

from natsbroker.config.errors import ConfigError
from natsbroker.config.model import Settings, changed
from natsbroker.connections.opensocket import addressOf

CLIENT = "client"
MONITORING = "monitoring"
BLOCKS = ("cluster", "gateway", "leafnodes", "websocket", "mqtt")
"""Blocks of the configuration that have a listener; its socket has the same name."""

NAMES = (CLIENT, MONITORING, *BLOCKS)

_FIRST = 3

_DESCRIPTORS = "LISTEN_FDS"
_TITLES = "LISTEN_FDNAMES"


def passedSockets(
    environment: Mapping[str, str], pid: int, first: int = _FIRST
) -> dict[str, socket.socket]:
    """
    @return: the sockets by name; empty if none are passed, or the variables are for another
        process.
    @raise ConfigError: if the variables are malformed, or a descriptor is not a listening TCP
        socket.
    """
    if environment.get("LISTEN_PID") != str(pid) or _DESCRIPTORS not in environment:
        return {}
    return {
        name: _listening(first + place, name) for place, name in enumerate(_namesIn(environment))
    }


def _namesIn(environment: Mapping[str, str]) -> list[str]:
    count = environment[_DESCRIPTORS]
    if not (count.isascii() and count.isdecimal()):
        raise ConfigError(f'"{count}" is not a number of sockets', _DESCRIPTORS)
    if _TITLES not in environment:
        if int(count) > 1:
            raise ConfigError(f"{count} sockets need names: {', '.join(NAMES)}", _TITLES)
        return [CLIENT][: int(count)]
    names = environment[_TITLES].split(":") if environment[_TITLES] else []
    if len(names) != int(count):
        raise ConfigError(f"{len(names)} names for {count} sockets", _TITLES)
    for name in names:
        if name not in NAMES:
            known = ", ".join(NAMES)
            raise ConfigError(f'no listener is called "{name}"; the names are {known}', _TITLES)
        if names.count(name) > 1:
            raise ConfigError(f'more than one socket is called "{name}"', _TITLES)
    return names


def _listening(number: int, name: str) -> socket.socket:
    try:
        passed = socket.socket(fileno=number)
    except OSError as error:
        reason = f"{name} is descriptor {number}: {(error.strerror or str(error)).lower()}"
        raise ConfigError(reason, _DESCRIPTORS) from None
    isTCP = passed.family in (socket.AF_INET, socket.AF_INET6)
    if not (isTCP and passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)):
        raise ConfigError(
            f"{name} is descriptor {number}, which is not a listening TCP socket", _DESCRIPTORS
        )
    passed.set_inheritable(False)
    return passed


def listeningAt(
    sockets: Mapping[str, socket.socket], override: Callable[[Settings], Settings]
) -> Callable[[Settings], Settings]:
    """Use the addresses of passed sockets after the flags of the command line."""
    addresses = {name: addressOf(socket_) for name, socket_ in sockets.items()}

    def withAddresses(settings: Settings) -> Settings:
        settings = override(settings)
        for name, (host, port) in addresses.items():
            settings = _CHANGES[name](settings, host, port)
        return settings

    return withAddresses


def _client(settings: Settings, host: str, port: int) -> Settings:
    if settings.streaming is not None and settings.streaming.nats_server:
        raise ConfigError(
            f"{CLIENT}: clients use the server of nats_server_url, not a listener here",
            _TITLES,
        )
    return replace(settings, host=host, port=port)


def _monitoring(settings: Settings, host: str, port: int) -> Settings:
    scheme = "https" if settings.monitoring.https_port else "http"
    settings = changed(settings, "monitoring.http_host", host)
    return changed(settings, f"monitoring.{scheme}_port", port)


def _block(name: str) -> Callable[[Settings, str, int], Settings]:
    def change(settings: Settings, host: str, port: int) -> Settings:
        if getattr(settings, name) is None:
            raise ConfigError(f"{name}: the configuration has no such block", _TITLES)
        return changed(changed(settings, f"{name}.host", host), f"{name}.port", port)

    return change


_CHANGES: dict[str, Callable[[Settings, str, int], Settings]] = {
    CLIENT: _client,
    MONITORING: _monitoring,
    **{name: _block(name) for name in BLOCKS},
}
