"""
The keys that the blocks of all links have in common: a listener, its credentials, and the address
that is advertised. Error texts are nats-server's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from natsbroker.config.addresses import checkPort, isLoopback, splitAddress
from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.tls import TLSSettings

if TYPE_CHECKING:
    from natsbroker.gateways.settings import Gateway
    from natsbroker.routes.settings import Cluster

#: The name of a key that makes no sense, and what is wrong with it.
Problem = tuple[str, str]


def listenAddress(block: ParsedBlock, findings: Diagnostics) -> tuple[str, int]:
    """
    Where links are listened for: what stands later in the file wins.

    @return: no host where the file names none, and port 0 for nowhere.
    """
    host, port, givenBy = "", 0, "listen"
    for name in block.values:
        found = block.take("listen", tuple) if name == "listen" else None
        if found:
            host, port, givenBy = found[0], found[1], name
        elif name == "host":
            host = block.text(name)
        elif name == "port":
            port, givenBy = block.integer(name), name
    try:
        return host, checkPort(port)
    except ValueError as error:
        findings.errorAt(block, givenBy, str(error))
        return host, 0


def loginOf(block: ParsedBlock) -> ParsedBlock:
    """
    The C{authorization} of a block; an empty one where it has none.
    """
    return block.block("authorization") or ParsedBlock("", block.position)


def isSpaced(name: str) -> bool:
    return len(name.split()) > 1 or name != name.strip()


def guardProblems(settings: Cluster | Gateway, one: str) -> Iterator[Problem]:
    """
    @param one: what an unauthenticated peer becomes.
    """
    known = bool(settings.user) or settings.tls is not None
    if settings.port and not (known or settings.insecure_listen or isLoopback(settings.host)):
        yield (
            "listen",
            f"other machines reach {settings.host}, and whoever does is {one}; add "
            '"authorization" or "tls", or say "insecure_listen: true" if that is meant',
        )


def loginProblems(user: str, password: str, links: str) -> Iterator[Problem]:
    """
    Links are dialled with the credentials with which they are accepted.

    @param links: what they are called.
    """
    if bool(user) != bool(password):
        yield "authorization", "a user needs a password, and a password a user"
    if password.startswith("$2"):
        message = f"{links} are dialled with the password, so it cannot be a hash"
        yield "authorization", message


def certificateProblems(tls: TLSSettings | None, who: str) -> Iterator[Problem]:
    """
    @param who: needs a certificate.
    """
    if tls is not None and not tls.certs:
        yield "tls", f"{who} need 'cert_file' and 'key_file'"


def negativeProblems(settings: object, names: Iterable[str]) -> Iterator[Problem]:
    """
    @param names: those that cannot be below 0, as attributes of the settings.
    """
    for name in names:
        if getattr(settings, name) < 0:
            yield name, "value can not be negative"


def urlProblems(
    name: str, urls: Iterable[str], split: Callable[[str], object]
) -> Iterator[Problem]:
    """
    @param name: the key that the URLs stand under.
    @param split: reads one, or raises C{ValueError}.
    """
    for url in urls:
        try:
            split(url)
        except ValueError as error:
            yield name, str(error)


def advertiseProblems(name: str, text: str, port: int) -> Iterator[Problem]:
    """
    @param name: the key that the text stands under.
    @param text: see L{advertised}; empty for none.
    @param port: likewise.
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

    @param port: if the text names none, or 0, or -1.
    @raise ValueError: when it is neither.
    """
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1], port
    if ":" not in text:
        return text, port
    host, given = splitAddress(text)
    return host, given if given > 0 else port
