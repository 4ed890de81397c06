"""Flags of the command line, applied to settings. Each wins over the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from natsbroker.config.addresses import checkPort, syslogURL, unspaced, workerCount
from natsbroker.config.errors import OPEN, ConfigError
from natsbroker.config.files import CERTIFICATE, PRIVATE_KEY, pemProblem
from natsbroker.config.flags import flagNamed
from natsbroker.config.goflags import FlagType, FlagValue
from natsbroker.config.model import (
    DEFAULT_PORT,
    RANDOM_PORT,
    Settings,
    TLSSettings,
    changed,
    logFormat,
)
from natsbroker.streaming.overrides import withStreaming

if TYPE_CHECKING:
    from natsbroker.config.settings.routes import Cluster


def overriding(
    given: Mapping[str, FlagValue], read: Callable[[str], str], isStreaming: bool = False
) -> Callable[[Settings], Settings]:
    """C{isStreaming} serves NATS Streaming by default."""

    def override(settings: Settings) -> Settings:
        for name, value in given.items():
            try:
                settings = _CHANGES.get(name, _setting(name))(settings, value)
            except ValueError as error:
                raise ConfigError(str(error), flagNamed(name).name) from None
        settings = withStreaming(settings, given)
        if isStreaming and settings.streaming is None:
            from natsbroker.config.settings.streaming import Streaming

            settings = replace(settings, streaming=Streaming())
        return _withTLS(settings, given, read)

    return override


Change = Callable[[Settings, Any], Settings]


def _setting(name: str) -> Change:
    flag = flagNamed(name)
    block = flag.setting.partition(".")[0]

    def change(settings: Settings, value: Any) -> Settings:
        if not flag.setting or block == "streaming":
            return settings
        if flag.type is FlagType.INTEGER and value < 0:
            raise ValueError("value can not be negative")
        if block == "authorization":
            if not value:
                raise ValueError(OPEN)
            settings = changed(settings, "authorization.defined", True)
        return changed(settings, flag.setting, value)

    return change


def _logging(*names: str) -> Change:
    def change(settings: Settings, value: Any) -> Settings:
        for name in names:
            settings = changed(settings, f"logging.{name}", value)
        return settings

    return change


def _logFormat(settings: Settings, name: Any) -> Settings:
    return changed(settings, "logging.log_format", logFormat(name))


def _monitoring(name: str) -> Change:
    return lambda settings, value: changed(settings, f"monitoring.{name}", checkPort(value))


def _clusterListener(settings: Settings, url: Any) -> Settings:
    from natsbroker.config.settings.routes import Cluster

    try:
        return replace(settings, cluster=_listening(settings.cluster or Cluster(), url))
    except ValueError as error:
        raise ConfigError(str(error), "--cluster") from None


def _listening(cluster: Cluster, url: str) -> Cluster:
    if not url:
        return replace(cluster, port=0)
    wantsRandom = url.endswith(":-1")
    try:
        parts = urlsplit(url[:-2] + "0" if wantsRandom else url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("not the URL of a listener") from None
    if not host or port is None:
        raise ValueError("not the URL of a listener: it needs a host and a port")
    if parts.username and parts.password is None:
        raise ValueError("expected cluster password to be set")
    if "" in (parts.username, parts.password):
        raise ValueError(f"the login {OPEN}")
    return replace(
        cluster,
        host=host,
        port=RANDOM_PORT if wantsRandom or not port else checkPort(port),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def _split(urls: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, urls.split(","))))


_CHANGES: dict[str, Change] = {
    "p": lambda settings, port: replace(settings, port=checkPort(port) or DEFAULT_PORT),
    "a": lambda settings, host: replace(settings, host=host or Settings().host),
    "n": lambda settings, name: replace(settings, server_name=unspaced(name)),
    "m": _monitoring("http_port"),
    "ms": _monitoring("https_port"),
    "VV": _logging("trace", "trace_verbose"),
    "DV": _logging("debug", "trace"),
    "DVV": _logging("debug", "trace", "trace_verbose"),
    "s": _logging("syslog"),
    "r": lambda settings, url: changed(settings, "logging.remote_syslog", syslogURL(url)),
    "log_format": _logFormat,
    "cluster": _clusterListener,
    "routes": lambda settings, urls: changed(settings, "cluster.routes", _split(urls)),
    "workers": lambda settings, count: replace(settings, workers=workerCount(count)),
    "pure": lambda settings, isPure: replace(settings, fast_lane=not isPure),
}
"""First spelling of a flag that changes several settings -> the function that changes them."""


def _withTLS(
    settings: Settings, given: Mapping[str, FlagValue], read: Callable[[str], str]
) -> Settings:
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
    for path, kind in ((certificate, CERTIFICATE), (key, PRIVATE_KEY), (authority, CERTIFICATE)):
        wrong = pemProblem(path, kind, read) if path else ""
        if wrong:
            raise ConfigError(f"error parsing X509 certificate/key pair: {wrong}")
    tls = replace(
        settings.tls or TLSSettings(),
        cert_file=certificate,
        key_file=key,
        ca_file=authority,
        certs=((certificate, key),),
        verify=bool(given.get("tlsverify", False)),
        place="--tls",
    )
    return replace(settings, tls=tls)
