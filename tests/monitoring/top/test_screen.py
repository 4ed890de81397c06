"""
The screen, with a server that is a function.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

pytest.importorskip("textual")

from textual.widgets import Static

from natsbroker.monitoring.top.grid import Grid
from natsbroker.monitoring.top.pages import MissingPage, PageError
from natsbroker.monitoring.top.screen import TopApp
from natsbroker.monitoring.top.views import VIEWS
from natsbroker.testing.memory import MemoryBroker


class Server:
    """
    A server whose counters grow with each reading, which takes place a second after the last.

    @ivar isEmpty: whether a connection that is asked for alone is gone.
    @ivar trouble: what readings of all pages end with, if it is there.
    @ivar asked: the pages that were read, with their queries.
    """

    def __init__(self) -> None:
        self.time = 0.0
        self.id = "N1"
        self.isEmpty = False
        self.trouble: PageError | None = None
        self.asked: list[tuple[str, dict[str, object]]] = []

    def read(self, path: str, query: Mapping[str, object]) -> Any:
        self.asked.append((path, dict(query)))
        if self.trouble is not None:
            raise self.trouble
        head = {"server_id": self.id}
        if path == "/varz":
            self.time += 1
            return {**head, "server_name": "one", "version": "2.15.1", "in_msgs": 100 * self.time}
        if path == "/connz" and "cid" in query:
            return {**head, "connections": self.connection(query)}
        if path == "/connz":
            rows = [
                {"cid": cid, "name": name, "in_msgs": cid * 10 * self.time}
                for cid, name in enumerate(("anna", "bert", "carla"), 1)
            ]
            return {**head, "connections": rows, "total": 1030}
        if path == "/subsz":
            rows = [{"subject": subject, "msgs": 1} for subject in ("jobs", "$SYS.x")]
            return {**head, "subscriptions_list": rows}
        if path == "/jsz":
            return {**head, "disabled": True}
        raise MissingPage(f"this server has no page {path} (404)")

    def connection(self, query: Mapping[str, object]) -> list[dict[str, object]]:
        """The only connection that is requested, until it is closed."""
        if self.isEmpty:
            return []
        cid = query["cid"]
        assert isinstance(cid, int)
        return [{"cid": cid, "in_msgs": cid * 10 * self.time, "tls": {"version": "1.3"}}]

    def clock(self) -> float:
        return self.time


class Scene:
    """A screen that reads pages only at the test's command."""

    def __init__(self, server: Server, app: TopApp, pilot: Any) -> None:
        self.server = server
        self._app = app
        self._pilot = pilot

    async def read(self) -> None:
        """Have the pages read once more."""
        before = self._app.readings
        self._app._wake.set()
        await self._readSince(before)

    async def show(self, *keys: str) -> None:
        """Press the key of another view, and wait for its reading."""
        for key in keys:
            before = self._app.readings
            await self.press(key)
            await self._readSince(before)

    async def _readSince(self, before: int) -> None:
        while self._app.readings == before:
            await asyncio.sleep(0.001)
        await self._pilot.pause()

    async def press(self, *keys: str) -> None:
        """Press keys, without waiting for pages to be read."""
        await self._pilot.press(*keys)
        await self._pilot.pause()

    @property
    def rows(self) -> list[str]:
        """The lines of the table with single blanks."""
        return [" ".join(line.split()) for line in self._app.query_one(Grid).texts]

    @property
    def names(self) -> list[str]:
        """The names of the connections."""
        return [row.split()[2] for row in self.rows[1:]]

    def text(self, name: str) -> str:
        """The text of a part of the screen."""
        return str(self._app.query_one(f"#{name}", Static).render())


def play(scene: Callable[[Scene], Awaitable[None]]) -> Server:
    """Run a scene on a screen that does not read by itself."""
    server = Server()

    async def run() -> None:
        app = TopApp("http://one:8222", 3600.0, server.read, server.clock)
        async with app.run_test(size=(80, 12)) as pilot:
            playing = Scene(server, app, pilot)
            await playing._readSince(0)
            await scene(playing)

    asyncio.run(run())
    return server


def test_rates() -> None:
    """The rows and the server have rates from the second reading on, largest first."""

    async def scene(screen: Scene) -> None:
        await screen.read()
        assert screen.text("server").split()[:3] == ["http://one:8222", "name", "one"]
        assert "msgs in/s 100" in screen.text("server")
        assert screen.names == ["carla", "bert", "anna"]
        assert screen.rows[1].endswith(" 30")
        assert screen.text("status") == "3 rows; 6 more are not read"

    play(scene)


def test_sort() -> None:
    """Keys choose the sorted column and the direction. The page is requested in the same order."""

    async def scene(screen: Scene) -> None:
        await screen.read()
        await screen.press("r")
        assert screen.names == ["anna", "bert", "carla"]
        await screen.press("greater_than_sign", "full_stop", "full_stop")
        assert "Lang \u25b2" in screen.rows[0]
        await screen.press("less_than_sign")
        assert "Bytes from/s \u25bc" in screen.rows[0]
        await screen.read()

    server = play(scene)
    asked = [query["sort"] for path, query in server.asked if path == "/connz"]
    assert (asked[0], asked[-1]) == ("msgs_from", "bytes_from")


def test_filter() -> None:
    """A text selects the rows that contain it. Escape shows all."""

    async def scene(screen: Scene) -> None:
        await screen.read()
        await screen.press("slash", "A", "r", "backspace")
        assert screen.names == ["carla", "anna"]
        await screen.press("enter", "r")
        assert screen.names == ["anna", "carla"]
        assert screen.text("status").endswith('2 rows of 3; 6 more are not read; rows with "A"')
        await screen.press("escape")
        assert len(screen.names) == 3

    play(scene)


def test_views() -> None:
    """Keys choose the view. If the server lacks a view's page, the status line says why."""

    async def scene(screen: Scene) -> None:
        await screen.show("2")
        assert screen.rows[1:] == ["jobs 1 1"]
        await screen.press("i")
        assert screen.rows[1:] == ["$SYS.x 1 1", "jobs 1 1"]
        await screen.show("tab", "tab")
        assert screen.rows[0].startswith("Stream ")
        assert screen.text("status") == "this server does not have it"
        await screen.show("6")
        assert screen.text("status").startswith(
            "this server has no page /streaming/channelsz (404)"
        )
        assert "NATS Streaming" in screen.text("status")
        await screen.show("1")
        assert "page" not in screen.text("status")

    play(scene)


def test_opened() -> None:
    """Enter shows one row in full, with rates. Escape goes back to the row and the filter."""

    async def scene(screen: Scene) -> None:
        await screen.read()
        await screen.press("slash", "a", "enter", "down")
        assert screen.names == ["carla", "anna"]
        await screen.show("enter")
        assert screen.text("status") == "Connections: 1; 4 rows"
        assert screen.rows == [
            "Member \u25b2 Value Change/s",
            "cid 1",
            "host :",
            "in_msgs 30.0",
            "tls.version 1.3",
        ]
        await screen.read()
        assert screen.rows[3] == "in_msgs 40.0 10"
        await screen.press("r", "slash", "c", "i", "enter")
        assert screen.rows[1:] == ["cid 1 0"]
        await screen.press("enter", "escape")
        assert [row.split()[0] for row in screen.rows[1:]] == [
            "tls.version",
            "in_msgs",
            "host",
            "cid",
        ]
        await screen.show("escape")
        assert screen.names == ["carla", "anna"]
        await screen.show("enter")
        assert screen.rows[0].startswith("Member \u25b2")
        assert screen.text("status").startswith("Connections: 1;")
        screen.server.isEmpty = True
        await screen.read()
        assert screen.text("status") == "Connections: 1; it is not there any more"
        await screen.show("escape")
        await screen.press("escape")
        assert len(screen.names) == 3

    server = play(scene)
    asked = [query for path, query in server.asked if "cid" in query]
    assert asked[0] == {"auth": "true", "subs": "detail", "state": "all", "cid": 1, "limit": 1024}


def test_openedTabs() -> None:
    """From a row that is shown in full, keys lead to its view and to the next ones."""

    async def scene(screen: Scene) -> None:
        await screen.show("enter", "1")
        assert len(screen.names) == 3
        await screen.show("enter", "tab")
        assert screen.rows[0].startswith("Subject ")
        await screen.show("enter")
        assert screen.text("status").startswith("Subjects: jobs; ")
        assert screen.rows[-1].startswith("subscriptions[0] subject jobs")

    play(scene)


def test_nothingToOpen() -> None:
    """Enter does nothing if there are no rows."""

    async def scene(screen: Scene) -> None:
        await screen.show("4")
        await screen.press("enter")
        assert screen.text("status") == "this server does not have it"

    play(scene)


def test_goneServer() -> None:
    """
    While the server is unreachable, the last figures stay. After a restart of the server, rates
    begin again.
    """

    async def scene(screen: Scene) -> None:
        await screen.read()
        screen.server.trouble = PageError("http://one:8222 cannot be reached: Connection refused")
        screen.server.time += 5
        await screen.read()
        assert "Connection refused; the figures are 5s old" in screen.text("status")
        assert len(screen.names) == 3
        screen.server.trouble, screen.server.id = None, "N2"
        await screen.read()
        assert "refused" not in screen.text("status")
        assert "msgs in/s" not in screen.text("server")
        await screen.read()
        assert "msgs in/s 100" in screen.text("server")

    play(scene)


def test_pause() -> None:
    """No page is read during a pause."""

    async def scene(screen: Scene) -> None:
        await screen.press("p")
        assert screen.text("status").startswith("paused; 3 rows")
        before = len(screen.server.asked)
        await screen.press("2")
        assert len(screen.server.asked) == before
        await screen.press("1")
        await screen.show("p")
        assert screen.text("status").startswith("3 rows")

    play(scene)


def test_polls() -> None:
    """Pages are read again and again without a key, until the end."""
    server = Server()

    async def run() -> None:
        app = TopApp("http://one:8222", 0.01, server.read, server.clock)
        async with app.run_test() as pilot:
            while server.time < 3:
                await asyncio.sleep(0.01)
            await pilot.press("q")
        assert app.return_code == 0

    asyncio.run(run())


CONFIG = """
server_name: one
http: "127.0.0.1:8222"
streaming { }
jetstream { backend: memory }
leafnodes { listen: "127.0.0.1:7422" }
cluster { name: c, listen: "127.0.0.1:6222" }
gateway { name: c, listen: "127.0.0.1:7222" }
"""


def test_runningBroker() -> None:
    """Every view works with a real broker, down to a single client, stream and consumer."""
    with MemoryBroker(configText=CONFIG) as memory:

        def read(path: str, query: Mapping[str, object]) -> Any:
            asked = {name: str(value) for name, value in query.items()}
            answer = memory.broker.monitoring.answer(path, asked)
            assert answer is not None
            body = b"".join(piece for piece in answer.body if isinstance(piece, bytes))
            assert answer.status == 200, body
            return json.loads(body)

        client = memory.connect({"verbose": False, "name": "worker"})
        left = memory.connect({"verbose": False, "name": "gone"})
        left.close()
        client.request(b"SUB jobs.* 1\r\n")
        for request, document in (
            ("STREAM.CREATE.S", {"name": "S", "subjects": ["jobs.*"]}),
            (
                "CONSUMER.DURABLE.CREATE.S.C",
                {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}},
            ),
        ):
            text = json.dumps(document)
            client.request(f"PUB $JS.API.{request} _INBOX.1 {len(text)}\r\n{text}\r\n".encode())
            memory.advance(0.1)
        client.request(b"PUB jobs.new 2\r\nhi\r\n")
        memory.advance(0.1)

        async def scene() -> None:
            app = TopApp("http://one:8222", 3600.0, read)
            async with app.run_test(size=(120, 40)) as pilot:
                screen = Scene(Server(), app, pilot)
                await screen._readSince(0)
                for view in VIEWS[1:]:
                    await screen.show(view.key)
                    assert "cannot" not in screen.text("status"), view.title
                for key, first, members in (
                    ("1", "worker", ["in_msgs 3", "subscriptions_list_detail[0] subject jobs.*"]),
                    ("2", "jobs.*", ["count 2"]),
                    ("4", "S $G", ["config.subjects[0] jobs.*", "state.messages 1"]),
                    ("5", "C S $G", ["config.ack_policy explicit", "num_pending 1"]),
                    ("7", "gone", ["reason Client Closed"]),
                ):
                    await screen.show(key)
                    assert first in screen.rows[1]
                    await screen.show("enter")
                    for member in members:
                        assert any(row.startswith(member) for row in screen.rows), screen.rows
                    await screen.show("escape")

        asyncio.run(scene())
