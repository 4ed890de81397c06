"""Reads the monitoring pages of a server, which need not be natsbroker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

from natsbroker.config.errors import oneLine

TIMEOUT = 5.0
"""Seconds for a connection, and for each piece of an answer."""

MOST_BYTES = 64 << 20
"""The longest answer that is read."""

_LONGEST_REASON = 100


class PageError(Exception):
    """A page that cannot be read; the text says why."""


class MissingPage(PageError):
    """The server has no such page."""


def serverURL(text: str) -> str:
    """The URL in front of pages' paths, also from host and port; C{ValueError} if invalid."""
    url = text if "//" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ValueError("not the URL of monitoring pages, as http://127.0.0.1:8222")
    if parts.username is not None:
        raise ValueError("the URL has a login, which monitoring pages do not take")
    return url.rstrip("/")


def readPage(server: str, path: str, query: Mapping[str, object]) -> Any:
    """The JSON of a page at L{serverURL}'s server; L{PageError} if there is none."""
    url = f"{server}{path}?{urlencode(query)}"
    try:
        with urlopen(url, timeout=TIMEOUT) as answer:
            body = answer.read(MOST_BYTES + 1)
    except HTTPError as error:
        raise _refusal(path, error) from None
    except (OSError, HTTPException) as error:
        raise PageError(f"{server} cannot be reached: {_reasonOf(error)}") from None
    if len(body) > MOST_BYTES:
        raise PageError(f"{path} is longer than {MOST_BYTES >> 20} MB")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise PageError(f"{path} is not JSON: is {server} a monitoring port?") from None
    if not isinstance(document, dict):
        raise PageError(f"{path} has no JSON object: is {server} a monitoring port?")
    return document


def _refusal(path: str, error: HTTPError) -> PageError:
    if error.code == 404:
        return MissingPage(f"this server has no page {path} (404)")
    try:
        text = error.read(_LONGEST_REASON).decode("utf-8", "replace")
    except (OSError, HTTPException):
        text = ""
    said = f": {oneLine(text.strip())}" if text.strip() else ""
    return PageError(f"{path} is refused ({error.code}){said}")


def _reasonOf(error: BaseException) -> str:
    if isinstance(error, URLError) and isinstance(error.reason, BaseException):
        error = error.reason
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return oneLine(reason or type(error).__name__)
