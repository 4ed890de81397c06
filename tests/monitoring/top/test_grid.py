"""
The table on the screen: columns, scrolling, and clicks on titles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

pytest.importorskip("textual")

from textual.app import App, ComposeResult

from natsbroker.monitoring.top.grid import Grid


class Host(App[None]):
    """
    A screen with a table only.

    @ivar clicked: the columns whose titles were clicked.
    @ivar opened: the marked rows that were clicked.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clicked: list[int] = []
        self.opened: list[str] = []

    def compose(self) -> ComposeResult:
        yield Grid(id="grid")

    def on_grid_title_clicked(self, event: Grid.TitleClicked) -> None:
        """Record the clicked column."""
        self.clicked.append(event.column)

    def on_grid_row_opened(self, event: Grid.RowOpened) -> None:
        """Record the opened row."""
        self.opened.append(self.query_one(Grid).markedName)


ROWS = range(9)


def fill(grid: Grid, rows: Iterable[int]) -> None:
    """Show rows with these numbers."""
    names = [f"row {row}" for row in rows]
    texts = [(name, name[4:]) for name in names]
    grid.fill(["Name", "Count"], texts, [False, True], names)


def play(scene: Callable[[Host, Grid, Any], Awaitable[None]]) -> None:
    """Run a scene on a screen of 20 columns and 5 lines."""

    async def run() -> None:
        host = Host()
        async with host.run_test(size=(20, 5)) as pilot:
            grid = host.query_one(Grid)
            grid.focus()
            fill(grid, ROWS)
            await pilot.pause()
            await scene(host, grid, pilot)

    asyncio.run(run())


def seen(grid: Grid) -> list[str]:
    """The lines that are seen."""
    return [grid.render_line(y).text.rstrip() for y in range(grid.size.height)]


def test_lines() -> None:
    """Texts and numbers are aligned. Keys scroll the rows below the titles."""

    async def scene(host: Host, grid: Grid, pilot: Any) -> None:
        assert seen(grid)[:2] == [" Name   Count", " row 0      0"]
        await pilot.press("end")
        await pilot.pause()
        assert seen(grid)[0] == " Name   Count"
        assert seen(grid)[-1] == " row 8      8"
        grid.fill(["Name", "Count"], [("one", "1")], [False, True], ["one"])
        await pilot.pause()
        assert seen(grid)[:3] == [" Name  Count", " one       1", ""]
        assert grid.texts == ["Name  Count", "one       1"]

    play(scene)


def test_wideCharacters() -> None:
    """Characters that take two places keep the columns straight, and long rows scroll sideways."""

    async def scene(host: Host, grid: Grid, pilot: Any) -> None:
        grid.fill(["A", "B"], [("\u4e2d\u6587", "x"), ("a" * 30, "y")], [False, False], "ab")
        await pilot.press("right", "right", "right")
        await pilot.pause()
        assert grid.render_line(2).cell_length == grid.size.width
        assert seen(grid)[0].startswith("A") is False
        assert grid.texts[1].index("x") == grid.texts[2].index("y") - 2

    play(scene)


def test_mark() -> None:
    """
    Keys mark a row and scroll to it. The mark follows the row when it moves, until it is gone.
    """

    async def scene(host: Host, grid: Grid, pilot: Any) -> None:
        async def press(*keys: str) -> tuple[str, str, str]:
            await pilot.press(*keys)
            lines = seen(grid)
            return grid.markedName, lines[1].split()[1], lines[-1].split()[1]

        assert grid.markedName == "row 0"
        assert await press("down", "down", "down") == ("row 3", "0", "3")
        assert await press("down") == ("row 4", "1", "4")
        assert await press("up", "up", "up", "up") == ("row 0", "0", "3")
        assert await press("pagedown") == ("row 4", "1", "4")
        assert await press("end", "pageup") == ("row 4", "4", "7")
        assert await press("home", "up") == ("row 0", "0", "3")
        assert await press("down") == ("row 1", "0", "3")
        fill(grid, reversed(ROWS))
        assert grid.markedName == "row 1"
        fill(grid, [5, 4])
        assert grid.markedName == "row 4"
        fill(grid, [])
        assert grid.markedName == ""
        assert grid.render_line(1).text.strip() == ""
        fill(grid, ROWS)
        assert grid.markedName == "row 1"

    play(scene)


def test_firstIsMarked() -> None:
    """Before a row is chosen, the mark stays on the first row, even if the rows change."""

    async def scene(host: Host, grid: Grid, pilot: Any) -> None:
        fill(grid, reversed(ROWS))
        assert grid.markedName == "row 8"
        await pilot.press("down", "up")
        fill(grid, ROWS)
        assert grid.markedName == "row 0"

    play(scene)


def test_click() -> None:
    """
    A click on a title chooses its column. A click on a row marks the row, and a second click opens
    it.
    """

    async def scene(host: Host, grid: Grid, pilot: Any) -> None:
        for offset in ((1, 0), (9, 0), (18, 0), (1, 2), (1, 2)):
            await pilot.click("#grid", offset=offset)
        assert (host.clicked, host.opened) == ([0, 1], ["row 1"])
        fill(grid, range(2))
        await pilot.click("#grid", offset=(1, 3))
        assert grid.markedName == "row 1"
        assert host.opened == ["row 1"]

    play(scene)
