"""
The page C{/connz}: the client connections.

Promises: the parameters, refusals and keys of nats-server's page; C{filter_subject} too, which
nats-server only takes in requests over $SYS. Who is shown C{auth=1} sees names, never secrets.
Must never know: how connections come and go.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from natsbroker.clients.selection import Chosen, Selection, choose
from natsbroker.monitoring.answers import JSON, Answer, Listing, bodyOf
from natsbroker.monitoring.formats import instant
from natsbroker.monitoring.queries import Query
from natsbroker.monitoring.rows import Detail, Namers, Row, connectionRow
from natsbroker.monitoring.views import ContextView

__all__ = ["Connz"]


class Connz:
    """
    Tells which connections there are.
    """

    def __init__(self, context: ContextView, namers: Namers | None = None) -> None:
        """
        @param context: what client connections share.
        @param namers: how accounts and certificates are called.
        """
        self._context = context
        self._namers = namers or Namers()

    def __call__(self, query: Query) -> Answer:
        """
        The page.

        @raise BadQuery: if a parameter makes no sense.
        """
        detail = Detail.fromQuery(query)
        selection = Selection.fromQuery(query)
        return Answer(200, JSON, bodyOf(self.steps(selection, detail)), isLong=True)

    def steps(self, selection: Selection, detail: Detail) -> Generator[bytes, None, Listing]:
        """
        The same as a list, for those who want no HTTP.
        """
        now = self._context.reactor.seconds()
        chosen, total = yield from choose(self._context.connections, selection, now)
        head = {
            "server_id": self._context.info.server_id,
            "now": instant(now),
            "num_connections": 0,
            "total": total,
            "offset": selection.offset,
            "limit": selection.limit,
        }
        return Listing(head, "connections", self._rows(chosen, detail, now), "num_connections")

    def _rows(self, chosen: list[Chosen], detail: Detail, now: float) -> Iterator[Row | None]:
        for each in chosen:
            yield (yield from connectionRow(each, detail, now, self._namers))
