"""Monitoring pages by their paths, without HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from natsbroker.config.model import Monitoring
from natsbroker.monitoring.answers import HTML, Answer, Page, textAnswer
from natsbroker.monitoring.livepage import liveFile
from natsbroker.monitoring.queries import BadQuery, Query


class MonitoringModel:
    """C{pages} by path, as C{/varz}, may be added to; C{requests} counts their uses."""

    def __init__(self, settings: Callable[[], Monitoring], clock: Any, version: str) -> None:
        self.clock = clock
        self.host = settings().http_host
        self.requests: dict[str, int] = {}
        self.pages: dict[str, Page] = {"/": self._index}
        self.aliases: dict[str, str] = {}
        self._settings = settings
        self._version = version

    @property
    def basePath(self) -> str:
        return self._settings().http_base_path.rstrip("/")

    @property
    def origins(self) -> Sequence[str]:
        return self._settings().monitor_origins

    def answer(self, path: str, query: Query) -> Answer | None:
        """The answer at a path, perhaps with doubled slashes, or C{None}."""
        base, given, path = self.basePath, path, re.sub("/{2,}", "/", path)
        name = path[len(base) :] if path.startswith(base) else ""
        name = "/" if path == base else self.aliases.get(name, name)
        page = self.pages.get(name)
        if page is None:
            return liveFile(name) if path == given else None
        self.requests[name] = self.requests.get(name, 0) + 1
        try:
            return page(query)
        except BadQuery as refusal:
            return textAnswer(400, str(refusal))

    def _index(self, query: Query) -> Answer:
        return Answer(200, HTML, iter([self._listOf(self.pages)]))

    def _listOf(self, pages: Iterable[str]) -> bytes:
        paths = [escape(self.basePath + path) for path in pages if path != "/"]
        links = "".join(f'<li><a href="{path}">{path}</a></li>\n' for path in paths)
        version = escape(self._version)
        page = (
            '<!DOCTYPE html>\n<html lang="en">\n<head><title>natsbroker</title></head>\n<body>\n'
            f"<h1>natsbroker {version}</h1>\n<ul>\n{links}</ul>\n</body>\n</html>\n"
        )
        return page.encode("utf-8")
