"""
Checks of the settings as a whole, after the command line is applied. They also fill in defaults
that depend on other keys. docs/reference/configuration.md lists the rules that are stricter than in
nats-server, on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from natsbroker.auth.operator.reading import checkOperators
from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.errors import NO_PASSWORD, NO_USER, REACHED_PAGES
from natsbroker.config.model import GLOBAL_ACCOUNT, Monitoring, Settings, TLSSettings
from natsbroker.config.settings.listeners import advertiseProblems, guestProblems, timeToLogin
from natsbroker.server.kinds import KINDS


def check(settings: Settings, root: ParsedBlock, findings: Diagnostics) -> Settings:
    checker = _Checker(settings, root, findings)
    checker.users()
    checker.systemAccount()
    checker.advertise()
    if settings.tls is not None and not settings.tls.certs:
        findings.error("a listener needs 'cert_file' and 'key_file'", "tls", root.place("tls"))
    checkCertificates(settings, root, findings)
    if settings.streaming is not None:
        from natsbroker.streaming.reading import checkStreaming

        checkStreaming(settings.streaming, root, findings)
    if settings.jetstream.isSet or settings.streaming is not None:
        from natsbroker.jetstream.reading import checkChannels, checkJetStream

        checkJetStream(settings, root, findings)
        checkChannels(settings, root, findings)
    checkOperators(settings, root, findings)
    monitoring = checker.monitoring()
    authorization = settings.authorization
    timeout = timeToLogin(authorization.timeout, settings.tls)
    authorization = replace(authorization, timeout=timeout)
    settings = replace(settings, monitoring=monitoring, authorization=authorization)
    for kind in KINDS:
        settings = kind.check(settings, root, findings)
    return settings


@dataclass
class _Checker:
    _settings: Settings
    _root: ParsedBlock
    _findings: Diagnostics

    def _error(self, message: str, name: str) -> None:
        self._findings.errorAt(self._root, name, message)

    def users(self) -> None:
        settings = self._settings
        names = {user.user for user in settings.users()}
        wanted = "" if settings.operator.isOn else settings.no_auth_user
        self._findings.errorsAt(self._root, guestProblems(wanted, names))
        self._singles(bool(names))
        authorization = settings.authorization
        callout = authorization.auth_callout
        if authorization.plugin and callout is not None:
            self._error("auth_callout and a plugin exclude each other", "authorization")
        for name in () if callout is None else callout.allowed_accounts:
            if name not in settings.accounts:
                message = f'auth_callout allowed account "{name}" not found in configured accounts'
                self._error(message, "authorization")

    def advertise(self) -> None:
        text, name = self._settings.client_advertise, "client_advertise"
        for _, problem in advertiseProblems(name, text, self._settings.port):
            message = f"Error setting server INFO with ClientAdvertise value of {text}"
            self._error(f"{message}, err={problem}", name)

    def _singles(self, others: bool) -> None:
        authorization = self._settings.authorization
        block = self._root.block("authorization")
        given = block.positions if block else {}
        for flag, name, value in (
            ("--user", "user", authorization.user),
            ("--pass", "pass", authorization.password),
            ("--auth", "token", authorization.token),
        ):
            if others and value and name not in given:
                self._error(f"{flag} and users in the file exclude each other", "authorization")
        both = authorization.token and (authorization.user or authorization.password)
        reported = "token" in given and ("user" in given or "pass" in given)
        if both and not reported:
            self._error("Cannot have a user/pass and token", "authorization")
        isWhole = bool(authorization.user) == bool(authorization.password)
        # An empty one is reported where it stands, and one beside other logins with these.
        isSaid = others or both or "users" in given or {"user", "pass"} <= given.keys()
        if isWhole or isSaid or authorization.plugin:
            return
        message, name = (NO_PASSWORD, "user") if authorization.user else (NO_USER, "pass")
        if block is None:
            self._error(message, "authorization")
        else:
            self._findings.errorAt(block, name, message)

    def systemAccount(self) -> None:
        settings = self._settings
        name = settings.system_account
        if settings.operator.isOn:
            return  # the operator's JWT, which is not read here, may say who it is
        if name == GLOBAL_ACCOUNT:
            message = "the global account cannot be the system account"
            self._error(message, "system_account")
        elif "system_account" in self._root and name not in settings.accounts:
            message = "error resolving system account: account missing"
            self._error(message, "system_account")

    def monitoring(self) -> Monitoring:
        monitoring = self._settings.monitoring
        isOn = monitoring.http_port or monitoring.https_port
        host = monitoring.http_host or (self._settings.host if isOn else Monitoring().http_host)
        monitoring = replace(monitoring, http_host=host)
        if monitoring.insecure_monitor is False and monitoring.isReached:
            names = ("http", "https", "http_port", "https_port")
            name = next((key for key in names if key in self._root), "insecure_monitor")
            self._error(REACHED_PAGES.format(monitoring.http_host), name)
        return monitoring


def checkCertificates(settings: Settings, root: ParsedBlock, findings: Diagnostics) -> None:
    """Check that peers must show a certificate if OCSP is to check it."""
    for key in ("", "leafnodes", "websocket", "mqtt"):
        block: Any = getattr(settings, key) if key else settings
        tls: TLSSettings | None = None if block is None else block.tls
        peer = None if tls is None or tls.verify else tls.ocsp_peer
        if peer is not None and peer.verify:
            inner = (root.blockOrEmpty(key) if key else root).blockOrEmpty("tls")
            findings.errorAt(inner, "ocsp_peer", "OCSP peer verification needs verify: true")
