"""
The table on the screen: columns, scrolling, and clicks on titles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("textual")

from textual.app import App, ComposeResult

from natsbroker.monitoring.top.grid import Grid


class Host(App[None]):
    """
    A screen with a table only.

    @ivar clicked: the columns whose titles were clicked.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clicked: list[int] = []

    def compose(self) -> ComposeResult:
        yield Grid(id="grid")

    def on_grid_title_clicked(self, event: Grid.TitleClicked) -> None:
        """Remember it."""
        self.clicked.append(event.column)


def play(scene: Callable[[Host, Grid, Any], Awaitable[None]]) -> None:
    """Run a scene on a screen of 20 columns and 5 lines."""

    async def run() -> None:
        host = Host()
        async with host.run_test(size=(20, 5)) as pilot:
            grid = host.query_one(Grid)
            grid.focus()
            rows = [(f"row {each}", str(each)) for each in range(9)]
            grid.fill(["Name", "Count"], rows, [False, True])
            await pilot.pause()
            await scene(host, grid, pilot)

    asyncio.run(run())


def seen(grid: Grid) -> list[str]:
    """The lines that are seen."""
    return [grid.render_line(y).text.rstrip() for y in range(grid.size.height)]


def test_lines() -> None:
    """Texts are aligned; keys scroll the rows below their titles."""

    async def scene(host: Host, grid: Grid, pilot: Any) -> None:
        assert seen(grid)[:2] == [" Name   Count", " row 0      0"]
        await pilot.press("end")
        await pilot.pause()
        assert seen(grid)[0] == " Name   Count"
        assert seen(grid)[-1] == " row 8      8"
        grid.fill(["Name", "Count"], [("one", "1")], [False, True])
        await pilot.pause()
        assert seen(grid)[:3] == [" Name  Count", " one       1", ""]
        assert grid.texts == ["Name  Count", "one       1"]

    play(scene)


def test_wide() -> None:
    """Characters that take two places keep the columns straight, and long rows scroll sideways."""

    async def scene(host: Host, grid: Grid, pilot: Any) -> None:
        grid.fill(["A", "B"], [("\u4e2d\u6587", "x"), ("a" * 30, "y")], [False, False])
        await pilot.press("right", "right", "right")
        await pilot.pause()
        assert grid.render_line(2).cell_length == grid.size.width
        assert seen(grid)[0].startswith("A") is False
        assert grid.texts[1].index("x") == grid.texts[2].index("y") - 2

    play(scene)


def test_click() -> None:
    """A click on a title names its column; one on a row, or behind the last title, does nothing."""

    async def scene(host: Host, grid: Grid, pilot: Any) -> None:
        for offset in ((1, 0), (9, 0), (18, 0), (1, 1)):
            await pilot.click("#grid", offset=offset)
        assert host.clicked == [0, 1]

    play(scene)
