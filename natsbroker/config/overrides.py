"""
What flags do to settings.

This module promises new settings in which every flag that was given has won over the
file.  It must never know how flags are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from natsbroker.config.addresses import checkPort
from natsbroker.config.errors import OPEN, ConfigError
from natsbroker.config.files import CERTIFICATE, PRIVATE_KEY, pemProblem
from natsbroker.config.flags import flagNamed
from natsbroker.config.goflags import FlagValue
from natsbroker.config.model import DEFAULT_PORT, TLS, Settings
from natsbroker.routes.overrides import withCluster
from natsbroker.streaming.overrides import withStreaming

__all__ = ["overriding"]

Change = Callable[[Settings, Any], Settings]


def overriding(
    given: Mapping[str, FlagValue], read: Callable[[str], str]
) -> Callable[[Settings], Settings]:
    """
    Make the function that applies flags to settings.

    @param given: values by the first spelling of their flag.
    @param read: gives the text of a path, or raises L{OSError}.
    @return: a function that raises L{ConfigError} for a flag with an impossible value.
    """

    def override(settings: Settings) -> Settings:
        for name, value in given.items():
            change = _CHANGES.get(name)
            if change is not None:
                settings = _changed(settings, name, change, value)
        return _withTLS(_withCluster(withStreaming(settings, given), given), given, read)

    return override


def _withCluster(settings: Settings, given: Mapping[str, FlagValue]) -> Settings:
    try:
        return withCluster(settings, given)
    except ValueError as error:
        raise ConfigError(str(error), flagNamed("cluster").name) from None


def _changed(settings: Settings, name: str, change: Change, value: FlagValue) -> Settings:
    try:
        return change(settings, value)
    except ValueError as error:
        raise ConfigError(str(error), flagNamed(name).name) from None


def _top(name: str, default: object = None) -> Change:
    """
    Make the change of a key of L{Settings}; an empty value means the default, if any.
    """

    def change(settings: Settings, value: Any) -> Settings:
        changes: dict[str, Any] = {name: value if value or default is None else default}
        return replace(settings, **changes)

    return change


def _logging(*names: str) -> Change:
    def change(settings: Settings, value: Any) -> Settings:
        changes: dict[str, Any] = dict.fromkeys(names, value)
        return replace(settings, logging=replace(settings.logging, **changes))

    return change


def _logLimit(name: str) -> Change:
    def change(settings: Settings, value: Any) -> Settings:
        if value < 0:
            raise ValueError("value can not be negative")
        return _logging(name)(settings, value)

    return change


def _monitoring(name: str) -> Change:
    def change(settings: Settings, value: Any) -> Settings:
        changes: dict[str, Any] = {name: checkPort(value)}
        return replace(settings, monitoring=replace(settings.monitoring, **changes))

    return change


def _authorization(name: str) -> Change:
    def change(settings: Settings, value: Any) -> Settings:
        if not value:
            raise ValueError(OPEN)
        known = settings.authorization
        changes: dict[str, Any] = {name: value, "defined": True}
        return replace(settings, authorization=replace(known, **changes))

    return change


def _port(settings: Settings, value: Any) -> Settings:
    return replace(settings, port=checkPort(value) or DEFAULT_PORT)


def _host(settings: Settings, value: Any) -> Settings:
    """
    The pages are where C{--addr} says, too, unless the file names another address for them: with
    that flag, the operator has chosen who reaches it.
    """
    if value and not settings.monitoring.http_host:
        monitoring = replace(settings.monitoring, http_host=value, insecure_monitor=True)
        settings = replace(settings, monitoring=monitoring)
    return replace(settings, host=value or Settings().host)


def _serverName(settings: Settings, value: Any) -> Settings:
    if " " in value:
        raise ValueError("server name cannot contain spaces")
    return replace(settings, server_name=value)


def _pure(settings: Settings, value: Any) -> Settings:
    return replace(settings, fast_lane=not value)


_CHANGES: dict[str, Change] = {
    "p": _port,
    "a": _host,
    "n": _serverName,
    "client_advertise": _top("client_advertise"),
    "P": _top("pidfile"),
    "ports_file_dir": _top("ports_file_dir"),
    "m": _monitoring("http_port"),
    "ms": _monitoring("https_port"),
    "D": _logging("debug"),
    "V": _logging("trace"),
    "VV": _logging("trace", "trace_verbose"),
    "DV": _logging("debug", "trace"),
    "DVV": _logging("debug", "trace", "trace_verbose"),
    "T": _logging("logtime"),
    "logtime_utc": _logging("logtime_utc"),
    "l": _logging("logfile"),
    "log_size_limit": _logLimit("logfile_size_limit"),
    "max_traced_msg_len": _logLimit("max_traced_msg_len"),
    "user": _authorization("user"),
    "pass": _authorization("password"),
    "auth": _authorization("token"),
    "pure": _pure,
}
"""First spelling of a flag -> what it does."""


def _withTLS(
    settings: Settings, given: Mapping[str, FlagValue], read: Callable[[str], str]
) -> Settings:
    """
    Put the certificate of the flags in the place of the file's.

    The rest of the file's C{tls} block stays: a flag must not weaken what it says about
    ciphers and versions.
    """
    if given.get("tls") is False:
        return replace(settings, tls=None)
    if not any(name.startswith("tls") for name in given):
        return settings
    certificate, key = str(given.get("tlscert", "")), str(given.get("tlskey", ""))
    authority = str(given.get("tlscacert", ""))
    if not certificate:
        raise ConfigError("TLS Server certificate must be present and valid")
    if not key:
        raise ConfigError("TLS Server private key must be present and valid")
    for path, kind in (
        (certificate, CERTIFICATE),
        (key, PRIVATE_KEY),
        (authority, CERTIFICATE),
    ):
        wrong = pemProblem(path, kind, read) if path else ""
        if wrong:
            raise ConfigError(f"error parsing X509 certificate/key pair: {wrong}")
    tls = replace(
        settings.tls or TLS(),
        cert_file=certificate,
        key_file=key,
        ca_file=authority,
        certs=((certificate, key),),
        verify=bool(given.get("tlsverify", False)),
        place="--tls",
    )
    return replace(settings, tls=tls)
