"""
Where the servers are, and how TLS is done with them.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, replace

from natsbroker.config.addresses import RemoteURL, splitURL
from natsbroker.spark.errors import OptionError

_PORT = 4222
_UNSUPPORTED = ("ws", "wss")


@dataclass(frozen=True)
class ServerAccess:
    """
    How to reach a server and who we are there: options of the data source, by their names. It
    passes to workers as it is.

    @ivar name: the connection's name, which monitoring shows.
    """

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
        Who we are: without any credentials those of the address, where a token stands alone.
        """
        if self.user or self.password or self.token or self.nkeySeedFile or self.credentialsFile:
            return self
        if address.password is None:
            return replace(self, token=address.user)
        return replace(self, user=address.user, password=address.password)

    def context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.tlsCa or None)
        except (OSError, ssl.SSLError) as error:
            raise OptionError(f"tlsCa {self.tlsCa}: {_reason(error)}") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.tlsCert:
            try:
                context.load_cert_chain(self.tlsCert, self.tlsKey or None, password=_refuse)
            except (OSError, ssl.SSLError) as error:
                raise OptionError(f"tlsCert {self.tlsCert}: {_reason(error)}") from None
        return context


def _refuse() -> str:
    raise OptionError("a private key with a passphrase is not supported")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def readAddresses(text: str) -> tuple[RemoteURL, ...]:
    """
    Read servers with commas between them: C{nats://host:port}, C{tls://host}, C{host:port}.
    """
    found = tuple(_address(each.strip()) for each in text.split(",") if each.strip())
    if not found:
        raise OptionError("servers: name at least one, such as nats://127.0.0.1:4222")
    return found


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
