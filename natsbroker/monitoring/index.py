"""
The page C{/}: where the others are.

Promises: plain HTML without scripts, pictures or anything from elsewhere.
Must never know: what the pages say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

from natsbroker.monitoring.answers import HTML, Answer
from natsbroker.monitoring.queries import Query

__all__ = ["Index"]


class Index:
    """
    Lists the pages.
    """

    def __init__(self, version: str, paths: Callable[[], Iterable[str]]) -> None:
        """
        @param version: ours.
        @param paths: where the other pages are.
        """
        self._version = version
        self._paths = paths

    def __call__(self, query: Query) -> Answer:
        """
        The page; it has no parameters.
        """
        links = "".join(
            f'<li><a href="{escape(path)}">{escape(path)}</a></li>\n' for path in self._paths()
        )
        page = (
            '<!DOCTYPE html>\n<html lang="en">\n<head><title>natsbroker</title></head>\n<body>\n'
            f"<h1>natsbroker {escape(self._version)}</h1>\n<ul>\n{links}</ul>\n</body>\n</html>\n"
        )
        return Answer(200, HTML, iter([page.encode("utf-8")]))
