"""
The keys that the blocks of all links have in common: a listener, its credentials, and the address
that is advertised. Error texts are nats-server's. docs/reference/configuration.md has the meaning
of each key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from natsbroker.config.addresses import checkPort, isLoopback, splitAddress
from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.settings.authorization import AuthorizationSettings
from natsbroker.config.tls import TLSSettings, tlsOf

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")

#: The name of a wrong key, and what is wrong with its value.
Problem = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """
    @ivar timeout: seconds until a peer must have introduced itself; 0 for the usual ones.
    """

    host: str = "0.0.0.0"
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    timeout: float = 0.0
    tls: TLSSettings | None = None
    advertise: str = ""

    @property
    def isOn(self) -> bool:
        return bool(self.port)


@dataclass(frozen=True, slots=True)
class ListenerSettings(Listener):
    """
    @ivar insecure_listen: whether it may need neither a login nor a certificate; C{None} warns of
        it.
    """

    name: str = ""
    connect_retries: int = 0
    connect_backoff: bool = False
    write_deadline: float = 0.0
    insecure_listen: bool | None = None

    @property
    def isMapped(self) -> bool:
        """Whether the certificates of peers have to name the user."""
        return self.tls is not None and self.tls.verify_and_map

    @property
    def isKnownByURL(self) -> bool:
        """Whether certificates of peers may name a host of the configured URLs."""
        return self.tls is not None and self.tls.verify_cert_and_check_known_urls

    @property
    def isUnguarded(self) -> bool:
        """
        Whether other machines may reach the listener and need neither a login nor a certificate.
        """
        isKnown = bool(self.user) or self.tls is not None
        return bool(self.port) and not (isKnown or isLoopback(self.host))


_Listener = TypeVar("_Listener", bound=Listener)


def listenerFrom(
    block: ParsedBlock, findings: Diagnostics, kind: type[_Listener], **own: Any
) -> _Listener:
    """
    A block from its own keys and from C{listen}, C{tls} and C{authorization}.

    @param kind: the class of the block.
    @param own: further fields.
    """
    host, port = listenAddress(block, findings)
    given = {
        **block.fieldsOf(kind),
        **loginOf(block).fieldsOf(kind),
        "host": host or Listener().host,
        "port": port,
        "tls": tlsOf(block, findings, hasURLs=issubclass(kind, ListenerSettings)),
    }
    return kind(**{**given, **own})


def listenAddress(
    block: ParsedBlock,
    findings: Diagnostics,
    names: tuple[str, str, str] = ("listen", "host", "port"),
) -> tuple[str, int]:
    """
    Find a host and a port, from one key or from two; the later one in the file wins.

    @return: no host if the file names none; port 0 for no listener.
    """
    both, hostName, portName = names
    host, port, givenBy = "", 0, both
    for name in block.values:
        if name == both:
            host, port = block.take(both, tuple) or ("", 0)
            givenBy = both
        elif name == hostName:
            host = block.text(name)
        elif name == portName:
            port, givenBy = block.integer(name), name
    try:
        return host, checkPort(port)
    except ValueError as error:
        findings.errorAt(block, givenBy, str(error))
        return host, 0


def timeToLogin(timeout: float, tls: TLSSettings | None) -> float:
    """
    Seconds until a peer must have introduced itself.

    @param timeout: what the settings say; 0 for nothing.
    """
    return timeout or (AuthorizationSettings().timeout if tls is None else tls.timeout + 1.0)


def loginOf(block: ParsedBlock) -> ParsedBlock:
    return block.block("authorization") or ParsedBlock("", block.position)


def isSpaced(name: str) -> bool:
    return len(name.split()) > 1 or name != name.strip()


UNGUARDED = (
    'other machines reach {}, and every peer that connects becomes a {}; add "authorization" '
    'or "tls", or say "insecure_listen: true" if that is meant'
)


def guestProblems(name: str, names: Collection[str]) -> Iterator[Problem]:
    """
    @param name: the user of clients without a login; empty for none.
    @param names: the names of all users.
    """
    if name and not names:
        yield "no_auth_user", f'"{name}" present, but users/nkeys are not defined'
    elif name and name not in names:
        message = f'"{name}" not present as user or nkey in authorization block or account '
        yield "no_auth_user", f"{message}configuration"


def guardProblems(settings: ListenerSettings, one: str) -> Iterator[Problem]:
    if settings.insecure_listen is False and settings.isUnguarded:
        yield "listen", UNGUARDED.format(settings.host, one)


def loginProblems(settings: ListenerSettings) -> Iterator[Problem]:
    isNamed = settings.isMapped and bool(settings.user) and not settings.password
    if bool(settings.user) != bool(settings.password) and not isNamed:
        yield "authorization", "a user needs a password, and a password a user"


def verified(tls: TLSSettings | None) -> TLSSettings | None:
    """The TLS of servers that always show each other their certificates."""
    return None if tls is None else replace(tls, verify=True)


def certificateProblems(tls: TLSSettings | None, who: str) -> Iterator[Problem]:
    if tls is not None and not tls.certs:
        yield "tls", f"{who} need 'cert_file' and 'key_file'"


def urlProblems(
    name: str, what: str, urls: Iterable[str], split: Callable[[str], object]
) -> Iterator[Problem]:
    """
    @param what: the name of the URL in an error, which shows the URL only if it cannot contain a
        password.
    """
    for url in urls:
        try:
            split(url)
        except ValueError as error:
            yield name, str(error)
        else:
            # nats-server reads C{host:} of C{host:port} as a scheme, and cannot read
            # C{127.0.0.1:port}.
            if ":" in url.partition("/")[0] and not _SCHEME.match(url):
                shown = "" if "@" in url else f' ["{url}"]'
                yield name, f"error parsing {what} url{shown}"


def advertiseProblems(name: str, text: str, port: int) -> Iterator[Problem]:
    """
    @param name: the key of the text.
    """
    if not text:
        return
    try:
        checkPort(advertised(text, port)[1])
    except ValueError as error:
        yield name, str(error)


def advertised(text: str, port: int) -> tuple[str, int]:
    """
    Read C{host} or C{host:port}.

    @param port: the port if the text names none, or 0, or -1.
    @raise ValueError: when it is neither.
    """
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1], port
    if ":" not in text:
        return text, port
    if ":" in text.rpartition(":")[0] and not text.startswith("["):
        raise ValueError(f"address {text}: too many colons in address")
    host, given = splitAddress(text)
    return host, given if given > 0 else port
