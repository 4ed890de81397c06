"""
C{natsbroker top} with nats-server and with natsbroker: its rows and their rates.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from natsbroker.monitoring.top.details import detailView
from natsbroker.monitoring.top.pages import MissingPage, readPage
from natsbroker.monitoring.top.tables import Row, Table, View, tableFrom
from natsbroker.monitoring.top.views import SERVER, VIEWS
from tests.interop.conftest import StartServer
from tests.interop.monitored import AskingClient
from tests.interop.servers import OURS_FAST, PATIENCE, REAL, Flavour

CONFIG = """
http: "127.0.0.1:-1"
leafnodes { listen: "127.0.0.1:-1" }
jetstream { store_dir: "$DIR/js" }
accounts {
  A { users: [ { user: a, password: a } ], jetstream: enabled }
  $SYS { users: [ { user: s, password: s } ] }
}
"""

#: What stands in the row that the client causes, by the title of the view.
FIRST_CELLS = {
    "Connections": "127.0.0.1:",
    "Subjects": "orders.*",
    "Accounts": "A",
    "Streams": "ORDERS",
    "Consumers": "c1",
}


def rowOf(table: Table, start: str) -> Row:
    """The row whose first cell begins with a text."""
    [row] = [line for line in table.rows if str(line.values[0]).startswith(start)]
    return row


def cell(view: View, row: Row, title: str) -> Any:
    """A cell of a row."""
    return row.values[[column.title for column in view.columns].index(title)]


@pytest.mark.parametrize("flavour", [REAL, OURS_FAST], ids=lambda flavour: flavour.name)
def test_rows(flavour: Flavour, startServer: StartServer) -> None:
    """Every view has a row for a client's activity, with the changes between two readings."""
    streaming = "streaming { }" if flavour is OURS_FAST else ""
    server = startServer(flavour, CONFIG + streaming)
    url = f"http://127.0.0.1:{server.monitorPort}"

    def read(view: View, time: float, before: Table | None = None) -> Table:
        return tableFrom(view, readPage(url, view.path, view.question), time, before)

    client = AskingClient(server)
    client.subscribe(b"orders.*")
    client.api("STREAM.CREATE.ORDERS", name="ORDERS", subjects=["kept.>"], storage="memory")
    config = {"durable_name": "c1", "ack_policy": "explicit"}
    client.api("CONSUMER.DURABLE.CREATE.ORDERS.c1", stream_name="ORDERS", config=config)
    left = AskingClient(server)
    left.close()
    *views, channels = VIEWS[:6]
    before = {view.title: read(view, 1.0) for view in (SERVER, *views)}
    for _ in range(10):
        client.publish(b"orders.new", b"x")
        client.ask("kept.one")
    connections, subjects, accounts, streams, consumers = views
    for view in views:
        rowOf(before[view.title], FIRST_CELLS[view.title])

    def counted() -> tuple[dict[str, Table], dict[str, Row], bool]:
        """The shown figures, and whether the server has counted everything."""
        after = {view.title: read(view, 3.0, before[view.title]) for view in (SERVER, *views)}
        rows = {view.title: rowOf(after[view.title], FIRST_CELLS[view.title]) for view in views}
        rates = ((subjects, "Msgs/s", 5), (streams, "Stored/s", 5), (consumers, "Behind", 10))
        isAll = all(cell(rated, rows[rated.title], name) == rate for rated, name, rate in rates)
        return after, rows, isAll

    deadline = time.monotonic() + PATIENCE
    while not (now := counted())[2] and time.monotonic() < deadline:
        time.sleep(0.05)
    after, shown, _ = now

    def members(view: View) -> dict[str, Any]:
        """The unabbreviated values of a row."""
        rows = read(detailView(view, shown[view.title]), 4.0).rows
        return {str(row.values[0]): row.values[1] for row in rows}

    assert "subject orders.*" in members(connections)["subscriptions_list_detail[0]"]
    assert members(subjects)["subscriptions[0]"]
    stream = members(streams)
    assert (stream["config.subjects[0]"], stream["state.messages"]) == ("kept.>", "10")
    assert "name c1" in stream["consumer_detail[0]"]
    assert members(consumers)["config.ack_policy"] == "explicit"
    for view, count in zip(VIEWS[6:], (1, 0, 0, 0), strict=True):
        assert len(read(view, 3.0).rows) == count, view.title
    assert cell(subjects, shown["Subjects"], "Msgs/s") == 5
    assert cell(streams, shown["Streams"], "Stored/s") == 5
    assert cell(consumers, shown["Consumers"], "Behind") == 10
    for view in (connections, accounts):
        assert cell(view, shown[view.title], "Msgs from/s") >= 10
    assert cell(SERVER, after["Server"].rows[0], "msgs in/s") >= 10
    if flavour is REAL:
        with pytest.raises(MissingPage):
            read(channels, 3.0)
    else:
        assert read(channels, 3.0).rows == ()
    client.close()
