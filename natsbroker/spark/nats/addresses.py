"""Servers' addresses, TLS, and every kind of credential that NATS servers take."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from natsbroker.client import options
from natsbroker.client.options import ConnectOptions
from natsbroker.config.addresses import RemoteURL, splitURL
from natsbroker.spark.errors import OptionError
from natsbroker.wire.nkeys import NkeyError, Role, WrongRole, decodeSeed, encodeKey

_PORT = 4222
_UNSUPPORTED = ("ws", "wss")
_PART = re.compile(r"-{3,}BEGIN (?P<name>[^-\n]+?)-{3,}\s+(?P<text>[\w.=+/-]+)\s+-{3,}END ", re.S)


@dataclass(frozen=True)
class ServerAccess:
    """Access to a server: options of the data source; passes to workers as it is."""

    addresses: tuple[RemoteURL, ...] = field(repr=False)
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    nkeySeedFile: str = ""
    credentialsFile: str = ""
    tls: bool = False
    tlsFirst: bool = False
    tlsCa: str = ""
    tlsCert: str = ""
    tlsKey: str = ""
    tlsServerName: str = ""
    inboxPrefix: str = "_INBOX"
    connectTimeout: float = 10.0
    requestTimeout: float = 10.0
    name: str = ""

    @property
    def isTLS(self) -> bool:
        return bool(self.tls or self.tlsFirst or self.tlsCa or self.tlsCert or self.tlsServerName)

    def identityAt(self, address: RemoteURL) -> ServerAccess:
        """
        Our login. Without any credentials it is that of the address, where a name without a
        password is a token.
        """
        if self.user or self.password or self.token or self.nkeySeedFile or self.credentialsFile:
            return self
        if address.password is None:
            return replace(self, token=address.user)
        return replace(self, user=address.user, password=address.password)

    def context(self) -> ssl.SSLContext:
        reading = f"tlsCa {self.tlsCa}"
        try:
            context = ssl.create_default_context(cafile=self.tlsCa or None)
            if self.tlsCert:
                reading = f"tlsCert {self.tlsCert}"
                context.load_cert_chain(self.tlsCert, self.tlsKey or None, password=_refuse)
        except OSError as error:
            raise OptionError(f"{reading}: {error.strerror or error}") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def _refuse() -> str:
    raise OptionError("a private key with a passphrase is not supported")


def readAddresses(text: str) -> tuple[RemoteURL, ...]:
    addresses = tuple(_address(address.strip()) for address in text.split(",") if address.strip())
    if not addresses:
        raise OptionError("servers: name at least one, such as nats://127.0.0.1:4222")
    return addresses


def _address(text: str) -> RemoteURL:
    shown = text.rpartition("@")[2]
    scheme, isURL, rest = text.partition("://")
    if isURL and scheme in _UNSUPPORTED:
        raise OptionError(f"servers: {scheme}:// is not supported yet: {shown}")
    try:
        if set("/?") & set((rest if isURL else text).rstrip("/")):
            raise ValueError
        return splitURL(text, "server", ("nats",), _PORT)
    except ValueError:
        raise OptionError(f"servers: not an address: {shown}") from None


def connectFields(access: ServerAccess, nonce: str, isTLS: bool) -> dict[str, Any]:
    jwt, nkey, seed = "", "", b""
    if access.credentialsFile:
        jwt, seed = readCredentials(access.credentialsFile)
    elif access.nkeySeedFile:
        seed = readSeed(_contents(access.nkeySeedFile), access.nkeySeedFile)
        nkey = encodeKey(Role.USER, bytes(_keyOf(seed).verify_key))
    sign = (lambda data: _keyOf(seed).sign(data).signature) if seed else None
    known = access.name, access.user, access.password, access.token
    fields = options.connectFields(
        ConnectOptions(*known, nkey, jwt, sign, echo=False), nonce, isTLS
    )
    return {**fields, "lang": "python-natsbroker-spark"}


def readCredentials(path: str) -> tuple[str, bytes]:
    parts = {match["name"]: match["text"] for match in _PART.finditer(_contents(path))}
    jwt, seed = parts.get("NATS USER JWT"), parts.get("USER NKEY SEED")
    if jwt is None or seed is None:
        raise OptionError(f"{path} is not a file of credentials: it needs a user's JWT and seed")
    return jwt, readSeed(seed, path)


def readSeed(text: str, path: str) -> bytes:
    lines = [line.strip() for line in text.splitlines()]
    seeds = [line for line in lines if line and not line.startswith("#")]
    if len(seeds) != 1:
        raise OptionError(f"{path} must hold the seed of one nkey")
    try:
        return decodeSeed(seeds[0])
    except WrongRole:
        raise OptionError(f"{path} holds a key that is not a user's seed") from None
    except NkeyError as error:
        raise OptionError(f"{path} holds no seed of an nkey: {error}") from None


def _keyOf(seed: bytes) -> Any:
    try:
        from nacl.signing import SigningKey
    except ImportError:
        raise OptionError(
            "nkeys and files of credentials need PyNaCl where tasks run: pip install PyNaCl"
        ) from None
    return SigningKey(seed)


def _contents(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise OptionError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OptionError(f"{path} is not a text") from None
