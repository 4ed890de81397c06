"""The package's own authorizers: an htpasswd file, an HTTP service, and C{twisted.cred}."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from twisted.cred.strcred import makeChecker
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.web.iweb import IAgent
from zope.interface import implementer

from natsbroker import errors
from natsbroker.auth.checkers import CheckerAuthenticator, IAvatars
from natsbroker.auth.defaultauthorizer import grantFrom
from natsbroker.auth.htpasswd import HtpasswdAuthenticator
from natsbroker.auth.httpservice import HTTPAuthorizer, HTTPServiceSettings
from natsbroker.auth.watchedfile import readSnapshot
from natsbroker.config.model import Settings, TLSSettings, User
from natsbroker.connections.agents import agentFor
from natsbroker.interfaces import (
    IAuthorizer,
    IAuthorizerPlugin,
    IBrokerHost,
    IOptionsCheck,
    IReloadable,
    IWorkerPlugin,
)
from natsbroker.runtime.pluginoptions import PluginOptionError, PluginOptions
from natsbroker.wire.grants import ConnectRequest, Grant


@implementer(IAvatars)
class SettingsAvatars:
    """
    The permissions of avatars: those of the user in the settings, else the default ones in the
    global account. A reload applies to the next request.
    """

    def __init__(self, host: IBrokerHost) -> None:
        self._host = host
        self._settings: Settings | None = None
        self._users: dict[str, User] = {}
        self._grants: dict[str, Grant] = {}
        self._others = Grant()

    def grantOf(self, name: str, request: ConnectRequest) -> Grant:
        settings = self._read()
        name = name or settings.no_auth_user
        user = self._users.get(name)
        if user is None:
            return replace(self._others, user=name)
        types = user.allowed_connection_types
        if types is not None and request.connectionType not in types:
            raise errors.Unauthorized("the user may not use this kind of connection")
        if name not in self._grants:
            self._grants[name] = grantFrom(user, settings)
        return self._grants[name]

    def hasGuests(self) -> bool:
        return bool(self._host.settings.no_auth_user)

    def _read(self) -> Settings:
        settings: Settings = self._host.settings
        if settings is not self._settings:
            self._settings = settings
            self._users = {user.user: user for user in settings.users() if not user.nkey}
            self._grants = {}
            default = settings.authorization.default_permissions
            self._others = grantFrom(User("", permissions=default), settings)
        return settings


@implementer(IAuthorizerPlugin, IOptionsCheck, IWorkerPlugin)
class HtpasswdPlugin:
    """Users in an htpasswd file. Option: C{file}."""

    name = "htpasswd"
    runsInWorkers = True

    def checkOptions(self, section: Mapping[str, Any], settings: Any) -> None:
        _snapshot(_file(section))

    def makeAuthorizer(self, host: IBrokerHost, section: Mapping[str, Any]) -> IAuthorizer:
        reactor = host.reactor

        def runInThread(call: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
            return deferToThreadPool(reactor, reactor.getThreadPool(), call, *arguments)

        made = _HtpasswdFromSection(_file(section), runInThread, reactor, SettingsAvatars(host))
        return made


def _file(section: Mapping[str, Any]) -> str:
    reading = PluginOptions(section)
    path = reading.text("file")
    reading.end()
    if not path:
        raise PluginOptionError("file", "file is missing")
    return path


def _snapshot(path: str) -> Any:
    try:
        return readSnapshot(path)
    except OSError as error:
        raise PluginOptionError("file", f"file {path}: {error.strerror}") from error


@implementer(IReloadable)
class _HtpasswdFromSection(HtpasswdAuthenticator):
    def planReload(self, section: Mapping[str, Any]) -> Callable[[], None]:
        path = _file(section)
        snapshot = _snapshot(path)
        return lambda: self.file.use(path, snapshot)


@implementer(IAuthorizerPlugin, IOptionsCheck, IWorkerPlugin)
class CredPlugin:
    """Checkers of C{twisted.cred}. Option: C{checkers}, strings as C{--auth} takes them."""

    name = "cred"
    runsInWorkers = True

    def __init__(self, checkers: Sequence[Any] = ()) -> None:
        self._checkers = list(checkers)

    def checkOptions(self, section: Mapping[str, Any], settings: Any) -> None:
        self.checkersIn(section)

    def checkersIn(self, section: Mapping[str, Any]) -> list[Any]:
        return self._checkers or _checkers(section)

    def makeAuthorizer(self, host: IBrokerHost, section: Mapping[str, Any]) -> IAuthorizer:
        return CheckerAuthenticator(self.checkersIn(section), SettingsAvatars(host))


def _checkers(section: Mapping[str, Any]) -> list[Any]:
    reading = PluginOptions(section)
    descriptions = reading.texts("checkers")
    reading.end()
    if not descriptions:
        raise PluginOptionError("checkers", "checkers is missing")
    return [_checker(description) for description in descriptions]


def _checker(description: str) -> Any:
    kind = description.partition(":")[0]
    try:
        return makeChecker(description)
    except Exception as error:
        # A plugin's factory may raise any exception: strcred has no common base.
        text = f'checker "{kind}" cannot be made: {type(error).__name__}'
        raise PluginOptionError("checkers", text) from error


@implementer(IAuthorizerPlugin, IOptionsCheck, IWorkerPlugin)
class HTTPPlugin:
    """
    A service over HTTP. Options: C{url}, C{request_timeout}, C{max_answer}, C{max_concurrent},
    C{max_waiting}, C{cache}, C{cache_size}, C{headers}, C{nonce}, C{ca_file}, C{cert_file},
    C{key_file}, C{insecure_http}.
    """

    name = "http"
    runsInWorkers = True

    def checkOptions(self, section: Mapping[str, Any], settings: Any) -> None:
        _terms(section, None)

    def makeAuthorizer(self, host: IBrokerHost, section: Mapping[str, Any]) -> IAuthorizer:
        return _HTTPFromSection(*_terms(section, host.reactor), host.reactor)


@implementer(IReloadable)
class _HTTPFromSection(HTTPAuthorizer):
    def planReload(self, section: Mapping[str, Any]) -> Callable[[], None]:
        terms, agent = _terms(section, self._clock)
        return lambda: self.use(terms, agent)


def _terms(section: Mapping[str, Any], reactor: Any) -> tuple[HTTPServiceSettings, IAgent]:
    reading = PluginOptions(section)
    tls = _tls(*(reading.text(name) for name in ("ca_file", "cert_file", "key_file")))
    default = HTTPServiceSettings("")
    terms = HTTPServiceSettings(
        _url(reading.text("url"), reading.flag("insecure_http")),
        reading.seconds("request_timeout", default.timeout),
        reading.count("max_answer", default.longest, 1),
        reading.count("max_concurrent", default.atATime, 1),
        reading.count("max_waiting", default.waiting),
        reading.seconds("cache", default.cacheFor),
        reading.count("cache_size", default.cacheSize, 1),
        reading.map("headers"),
        reading.flag("nonce"),
    )
    reading.end()
    return terms, agentFor(reactor, tls, "TLS of the service")


def _tls(ca: str, certificate: str, key: str) -> TLSSettings:
    if bool(certificate) != bool(key):
        raise PluginOptionError("key_file", "cert_file and key_file need each other")
    return TLSSettings(ca_file=ca, certs=((certificate, key),) if certificate else ())


def _url(url: str, insecure: bool) -> str:
    if not url:
        raise PluginOptionError("url", "url is missing")
    try:
        parts = urlsplit(url)
        url.encode("ascii")
        isWhole = bool(parts.hostname) and parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        isWhole = False
    if not isWhole or parts.username is not None or parts.fragment:
        # The URL may contain a password, so the error does not repeat it.
        text = "url must use https, or http to this machine"
        raise PluginOptionError("url", text)
    if parts.scheme == "http" and not insecure and not _isHere(parts.hostname or ""):
        raise PluginOptionError(
            "url",
            "url uses http to another machine, so everybody between can read logins: use https,"
            " or set insecure_http: true",
        )
    return url


def _isHere(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


#: The plugins that C{authorization { plugin: NAME }} finds without an installation.
READY_MADE = (HtpasswdPlugin(), HTTPPlugin(), CredPlugin())
