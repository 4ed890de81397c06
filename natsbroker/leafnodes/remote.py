"""A dialled leafnode remote: its addresses in turn, its credentials, and the times of dialling."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

from natsbroker.auth.nkeys import Signer
from natsbroker.config.addresses import RemoteURL
from natsbroker.config.settings.leafnodes import RemoteLeaf, splitRemote
from natsbroker.leafnodes.reading import seedOf
from natsbroker.links.tls import LinkTLS, isAddress
from natsbroker.wire.nkeys import Role

_PART = re.compile(r"-{3,}[^-\n]*-{3,}\r?\n([\w.=-]+)\r?\n-{3,}[^-\n]*-{3,}")


class LeafRemote:
    """A remote. C{delay} adds seconds before it is dialled after the next loss."""

    def __init__(self, settings: RemoteLeaf, tls: LinkTLS | None, random: Random) -> None:
        self.settings = settings
        self.tls = tls
        self.delay = 0.0
        self.isWanted = not settings.disabled
        self._configured = configured = [splitRemote(url) for url in settings.urls]
        self._urls = list(configured)
        if not settings.no_randomize:
            random.shuffle(self._urls)
        self.current = self._urls[-1]
        self._name = next((url.host for url in configured if not isAddress(url.host)), "")
        self._login = next((url for url in configured if url.user), None)

    def __str__(self) -> str:
        return f'as leafnode to remote server "{self.current}"'

    @property
    def urls(self) -> list[RemoteURL]:
        return list(self._urls)

    def next(self) -> RemoteURL:
        urls = self._urls
        if urls[0] == self.current and len(urls) > 1:
            urls.append(urls.pop(0))
        self.current = urls[0]
        return self.current

    def login(self) -> RemoteURL:
        url, login = self.current, self._login
        if url.user or login is None:
            return url
        return replace(url, user=login.user, password=login.password)

    def credentials(self, nonce: str) -> Mapping[str, str]:
        """Credentials for CONNECT, from a file read each time; C{ValueError} if it is wrong."""
        path, seed = self.settings.credentials, self.settings.nkey
        if path:
            jwt, secret = credentialsIn(path)
            return {"jwt": jwt, "sig": _signature(Signer(Role.USER, secret), nonce)}
        if seed:
            signer = Signer(Role.USER, seedOf(seed))
            return {"nkey": signer.publicKey, "sig": _signature(signer, nonce)}
        return {}

    @property
    def name(self) -> str:
        host = self.current.host
        return self._name or host if isAddress(host) else host

    def learn(self, urls: list[RemoteURL]) -> None:
        configured = {(url.host, url.port) for url in self._configured}
        told = [url for url in urls if (url.host, url.port) not in configured]
        self._urls = [*told, *self._configured]
        if not self._name:
            self._name = next((url.host for url in told if not isAddress(url.host)), "")

    def takeDelay(self) -> float:
        delay, self.delay = self.delay, 0.0
        return delay


def credentialsIn(path: str) -> tuple[str, bytes]:
    """The JWT and the secret in a file of credentials. Errors contain neither."""
    try:
        parts = _PART.findall(Path(path).expanduser().read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text"
        raise ValueError(f"credentials file {path}: {why}") from None
    if len(parts) < 2:
        raise ValueError(f"Credentials file {path} malformed")
    secret = seedOf(parts[1])
    if secret is None:
        raise ValueError(f"Credentials file {path} has malformed seed")
    return parts[0], secret


def _signature(signer: Signer, nonce: str) -> str:
    signed = signer.sign(nonce.encode("utf-8", "surrogatepass"))
    return base64.urlsafe_b64encode(signed).rstrip(b"=").decode("ascii")
