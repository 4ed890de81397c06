"""
The live page: a document, style sheets and scripts in the package, which ask for other pages. Names
of clients and subjects come from strangers. So they are inserted as text, and the page's policy
allows only its own scripts, and no requests to other places.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from natsbroker.monitoring.answers import HTML, Answer
from natsbroker.monitoring.queries import Query

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

_FOLDER = files("natsbroker.monitoring") / "live"

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": HTML,
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def livePage(query: Query) -> Answer:
    return _answer("index.html")


def liveFile(path: str) -> Answer | None:
    """The file at C{/live/NAME}; C{None} for an unknown one."""
    name = path.removeprefix("/live/")
    return _answer(name) if name != path and name in _names() else None


@cache
def _names() -> frozenset[str]:
    names = (file.name for file in _FOLDER.iterdir())
    return frozenset(name for name in names if name.rpartition(".")[2] in _TYPES)


def _answer(name: str) -> Answer:
    body = _content(name)
    return Answer(200, _TYPES[name.rpartition(".")[2]], iter([body]), policy=POLICY)


@cache
def _content(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()
