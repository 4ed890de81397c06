"""Schema registries by HTTP, whose numbers are in Confluent's frame of payloads."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPSHandler, Request, build_opener

import msgspec

from natsbroker.spark.codecs.payloads import BadPayload
from natsbroker.spark.errors import ConnectionFailed, DataSourceError, OptionError

#: The schemas that are kept, and the seconds until a missing one is asked for again.
_MOST, _UNKNOWN = 256, 60.0

_TRIES, _PAUSE, _TIMEOUT = 4, 0.25, 10.0
_FORM = "?format=serialized"
_TYPE = "application/vnd.schemaregistry.v1+json"

#: The most bytes of an answer.
_LARGEST = 16 << 20


@dataclass(frozen=True)
class RegistryAccess:
    """
    Access to a registry; passes to workers as it is.

    @ivar auth: a file with C{user:password}, for basic authentication; none if empty.
    @ivar ca: a file of certificates to trust instead of the system's.
    @ivar cert: a file with our certificate, for registries that ask for one.
    @ivar key: a file with its key, without a passphrase; empty: it is in the same file.
    """

    url: str = ""
    auth: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""


class SchemaReference(msgspec.Struct, frozen=True):
    name: str
    subject: str
    version: int


class RegisteredSchema(msgspec.Struct, frozen=True):
    text: str = msgspec.field(name="schema")
    schemaType: str | None = None
    references: tuple[SchemaReference, ...] | None = None
    id: int = 0

    @property
    def kind(self) -> str:
        return self.schemaType or "AVRO"


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OptionError(f"registry: {name}: {error.strerror or error}") from None


def _contextOf(access: RegistryAccess) -> ssl.SSLContext:
    if access.key and not access.cert:
        raise OptionError("registry: a key needs its certificate")
    with _reading(access.ca):
        context = ssl.create_default_context(cafile=access.ca or None)
    if access.cert:
        with _reading(access.cert + (f" with {access.key}" if access.key else "")):
            # Without a passphrase OpenSSL would ask for one at the terminal.
            context.load_cert_chain(access.cert, access.key or None, password="")
    return context


class SchemaRegistry:
    def __init__(self, access: RegistryAccess, sleep: Callable[[float], object] = time.sleep):
        parts = urlsplit(access.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError(f"registry: not a URL: {access.url.rpartition('@')[2]!r}")
        if parts.username is not None:
            raise OptionError(
                "registry: the URL must not contain a password: name a file that does"
            )
        self._url = access.url.rstrip("/")
        self._sleep = sleep
        self._headers = {"Accept": _TYPE}
        self._schema = lru_cache(_MOST)(self._asked)
        self._unknown: dict[str, float] = {}
        if access.auth:
            with _reading(access.auth):
                secret = base64.b64encode(Path(access.auth).read_bytes().strip()).decode()
            self._headers["Authorization"] = f"Basic {secret}"
        self._opener = build_opener(HTTPSHandler(context=_contextOf(access)))

    def latest(self, subject: str) -> int:
        try:
            return self._asked(f"/subjects/{quote(subject, safe='')}/versions/latest").id
        except BadPayload:
            raise OptionError(f"registry {self._url}: there is no subject {subject}") from None

    def schema(self, number: int, isSerialized: bool = False) -> RegisteredSchema:
        return self._schema(f"/schemas/ids/{number}{_FORM * isSerialized}")

    def texts(self, number: int, kind: str) -> tuple[str, dict[str, str]]:
        """The text of a schema, and the texts of those that it uses by name, innermost first."""
        isProtobuf, named = kind == "PROTOBUF", {}
        schema = self.schema(number, isProtobuf)
        if schema.kind != kind:
            raise BadPayload(f"its schema, {number}, is {schema.kind} and not {kind}")

        def refer(schema: RegisteredSchema) -> None:
            for reference in schema.references or ():
                if reference.name not in named:
                    subject = quote(reference.subject, safe="")
                    path = f"/subjects/{subject}/versions/{reference.version}"
                    other = self._schema(path + _FORM * isProtobuf)
                    refer(other)
                    named[reference.name] = other.text

        refer(schema)
        return schema.text, named

    def _asked(self, path: str) -> RegisteredSchema:
        unknown = BadPayload(f"registry {self._url}: there is no {path}")
        if self._unknown.get(path, 0.0) > time.monotonic():
            raise unknown
        reason = ""
        for place in range(_TRIES):
            if place:
                self._sleep(_PAUSE * 2**place)
            request = Request(self._url + path)
            for name, value in self._headers.items():
                # The credentials are not sent to the target of a redirection.
                request.add_unredirected_header(name, value)
            try:
                with self._opener.open(request, timeout=_TIMEOUT) as answer:
                    return msgspec.json.decode(answer.read(_LARGEST), type=RegisteredSchema)
            except (msgspec.MsgspecError, RecursionError):
                raise DataSourceError(f"registry {self._url}: an answer is malformed") from None
            except HTTPError as error:
                error.close()
                if error.code == 404:
                    while len(self._unknown) >= _MOST:
                        del self._unknown[next(iter(self._unknown))]
                    self._unknown[path] = time.monotonic() + _UNKNOWN
                    raise unknown from None
                reason = f"{error.code} {error.reason}"
                if error.code < 500 and error.code != 429:
                    raise DataSourceError(f"registry {self._url}{path}: {reason}") from None
            except URLError as error:
                reason = str(error.reason)
            except OSError as error:
                reason = error.strerror or str(error)
        raise ConnectionFailed(f"registry {self._url}{path}: {reason}")
