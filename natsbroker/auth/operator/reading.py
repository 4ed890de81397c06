"""The settings of operator mode, read from the configuration."""

from __future__ import annotations

import re
from functools import partial
from typing import TypeVar

from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.model import Settings
from natsbroker.config.settings.operator import CACHE, FULL, MEMORY, URL, OperatorMode, Resolver
from natsbroker.config.tls import tlsOf
from natsbroker.wire.nkeys import Role, isKey

_JWT = "eyJ"
_URL = re.compile(r'URL\(\s*"?([^\s"]*)"?\s*\)', re.IGNORECASE)
_SCHEME = re.compile(r"https?://[^/\s]")

_READ_ONLY = "resolver preloads only available for writeable resolver types MEM/DIR/CACHE_DIR"

_NO_RESOLVER = (
    'error parsing account resolver, should be MEM or URL("url") or a map containing dir and '
    "type state=[FULL|CACHE])"
)

_WRONG_KEYS = {
    "trusted_keys": (
        Role.OPERATOR,
        'trust key "{}" required to be a valid public operator nkey',
    ),
    "resolver_preload": (Role.ACCOUNT, '"{}" is not the public key of an account'),
    "resolver_pinned_accounts": (
        Role.ACCOUNT,
        'pinned account key "{}" is not a valid public account nkey',
    ),
}

_Keys = TypeVar("_Keys", tuple[str, ...], dict[str, str])


def checkOperators(settings: Settings, root: ParsedBlock, findings: Diagnostics) -> None:
    mode = settings.operator

    def error(message: str, name: str) -> None:
        findings.error(message, name, root.place(name))

    isReadOnly = mode.isOn if mode.resolver is None else mode.resolver.type == URL
    if mode.resolver_preload and isReadOnly:
        error(_READ_ONLY, "resolver_preload")
    if mode.default_sentinel and not mode.operators:
        error("default sentinel requires operators and accounts", "default_sentinel")
    if not mode.isOn:
        return
    if mode.operators and mode.trusted_keys:
        error("conflicting options for 'TrustedKeys' and 'TrustedOperators'", "trusted_keys")
    if settings.accounts:
        error("operators do not allow Accounts to be configured directly", "accounts")
    if settings.authorization.users:
        error("operators do not allow users to be configured directly", "authorization")
    if settings.authorization.auth_callout is not None:
        message = "operators do not allow authorization callouts to be configured directly"
        error(message, "authorization")
    if settings.no_auth_user:
        error("no_auth_user not compatible with Trusted Operator", "no_auth_user")
    kind = "" if mode.resolver is None else mode.resolver.type
    if settings.no_system_account and kind in (FULL, CACHE):
        error(f"a resolver of type {kind} needs a system account", "no_system_account")


class OperatorModeReader:
    """Reads operator mode's settings; C{read} gives a file's text or raises C{OSError}."""

    def __init__(self, root: ParsedBlock, findings: Diagnostics) -> None:
        self._root = root
        self._findings = findings

    def mode(self) -> OperatorMode:
        root, pinned = self._root, "resolver_pinned_accounts"
        return OperatorMode(
            operators=tuple(map(self._operator, root.texts("operator"))),
            trusted_keys=self._checked("trusted_keys", root.texts("trusted_keys")),
            resolver=self._resolver() if "resolver" in root else None,
            resolver_tls=tlsOf(root, self._findings, "resolver_tls"),
            resolver_preload=self._checked(
                "resolver_preload", root.mapping("resolver_preload", str)
            ),
            resolver_pinned_accounts=(
                self._checked(pinned, root.texts(pinned)) if pinned in root else None
            ),
            default_sentinel=root.text("default_sentinel"),
        )

    def _error(self, message: str, name: str) -> None:
        self._findings.error(message, name, self._root.place(name))

    def _operator(self, text: str) -> str:
        if text.startswith(_JWT):
            return text
        try:
            return self._findings.read(text)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            self._error(f"error parsing operator JWT: open {text}: {reason}", "operator")
            return ""

    def _checked(self, name: str, keys: _Keys) -> _Keys:
        role, message = _WRONG_KEYS[name]
        for key in keys:
            if not isKey(key, role):
                # A seed may stand there by mistake.
                shown = "[REDACTED]" if key.startswith("S") else key
                self._error(message.format(shown), name)
        return keys

    def _resolver(self) -> Resolver | None:
        block = self._root.block("resolver")
        if block is not None:
            return self._described(block)
        text = self._root.text("resolver").strip()
        if text.upper() in ("MEM", "MEMORY"):
            return Resolver(MEMORY)
        match = _URL.fullmatch(text)
        if match is None:
            self._error(_NO_RESOLVER, "resolver")
        elif not _SCHEME.match(match[1]):
            self._error("error parsing account resolver url: not an http URL", "resolver")
        else:
            return Resolver(URL, match[1])
        return None

    def _described(self, block: ParsedBlock) -> Resolver | None:
        kind = block.text("type").lower()
        if kind in ("mem", "memory"):
            return Resolver(MEMORY)
        if kind not in (FULL, CACHE):
            self._error(_NO_RESOLVER, "resolver")
            return None
        return self._folder(kind, block)

    def _folder(self, kind: str, block: ParsedBlock) -> Resolver:
        if not block.text("dir"):
            self._error("dir has no value and needs to point to a directory", "resolver")
        error = partial(self._findings.errorAt, block)
        if kind == FULL:
            if block.seconds("ttl"):
                error("ttl", "FULL does not accept ttl")
            if "hard_delete" in block and not block.flag("allow_delete"):
                error("hard_delete", "hard_delete has no effect without delete")
        else:
            if block.seconds("interval"):
                error("interval", "CACHE does not accept sync")
            if block.flag("allow_delete"):
                error("allow_delete", "CACHE does not accept allow_delete")
            if "hard_delete" in block:
                error("hard_delete", "CACHE does not accept hard_delete")
        return Resolver(**{**block.fieldsOf(Resolver), "type": kind})
