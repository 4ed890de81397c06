"""The screen of C{natsbroker top} with Textual; a thread reads pages, so keys never wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.widgets import Input, Static, Tab, Tabs

from natsbroker.config.errors import oneLine
from natsbroker.monitoring.top.details import detailView
from natsbroker.monitoring.top.grid import Grid
from natsbroker.monitoring.top.pages import MissingPage, PageError
from natsbroker.monitoring.top.tables import (
    Row,
    Table,
    View,
    chosenRows,
    spanText,
    tableFrom,
)
from natsbroker.monitoring.top.views import FIRST_LINE, SERVER, VIEWS

Read = Callable[[str, Mapping[str, object]], Any]
"""Gives the document of a page by its path and query; raises L{PageError}."""

_KEYS = "tab view  enter open  esc back  < > r sort  / filter  i all  p pause  q quit"

_ARROWS = {True: "▼", False: "▲"}


class TopApp(App[None]):
    CSS = """
    #server { height: 2; padding: 0 1; background: $panel; }
    #rows { height: 1fr; }
    #filter { display: none; height: 3; }
    #filter.shown { display: block; }
    #status { height: 1; padding: 0 1; background: $panel; }
    #keys { height: 1; padding: 0 1; color: $text-muted; }
    #status.trouble { background: $error; color: $text; }
    """
    TITLE = "natsbroker top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[Any]] = [
        *(Binding(view.key, f"view({index})") for index, view in enumerate(VIEWS)),
        Binding("tab", "nextView", priority=True),
        Binding("less_than_sign,comma", "sort(-1)"),
        Binding("greater_than_sign,full_stop", "sort(1)"),
        Binding("r", "reverse"),
        Binding("slash", "filter"),
        Binding("enter", "open"),
        Binding("escape", "back"),
        Binding("i", "internal"),
        Binding("p,space", "pause"),
        Binding("q", "quit"),
        Binding("ctrl+c", "quit", priority=True),
    ]

    def __init__(
        self, server: str, every: float, read: Read, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.animation_level = "none"
        self.readings = 0
        self._server = server
        self._every = every
        self._read = read
        self._clock = clock
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._wake = asyncio.Event()
        self._tables: dict[str, Table] = {}
        self._problem = ""
        self._view = VIEWS[0]
        self._orders: dict[str, tuple[int, bool]] = {}
        self._marks: dict[str, str] = {}
        self._outer: tuple[View, str] | None = None
        self._isPaused = False
        self._isInternal = False
        self._wanted = ""

    def compose(self) -> ComposeResult:
        yield Static(id="server")
        yield Tabs(*(Tab(f"{view.key} {view.title}", id=f"view{view.key}") for view in VIEWS))
        yield Grid(id="rows")
        yield Input(id="filter", placeholder="show rows that contain this text")
        yield Static(id="status")
        yield Static(_KEYS, id="keys")

    def on_mount(self) -> None:
        self.query_one(Tabs).can_focus = False
        self.query_one(Grid).focus()
        self.run_worker(self._poll(), group="poll")

    async def _poll(self) -> None:
        while True:
            self._wake.clear()
            if not self._isPaused:
                await self._refresh()
            try:
                await asyncio.wait_for(self._wake.wait(), self._every)
            except asyncio.TimeoutError:
                pass  # The next reading is due.

    async def _refresh(self) -> None:
        view, problem = self._view, ""
        for shown in (SERVER, view):
            query = {**shown.question, **self._sortOf(shown)}
            try:
                page = await asyncio.get_running_loop().run_in_executor(
                    self._thread, partial(self._read, shown.path, query)
                )
            except PageError as error:
                problem = self._reasonFor(shown, error)
                break
            before = self._tables.get(shown.key)
            self._tables[shown.key] = tableFrom(shown, page, self._clock(), before)
        # The last answer may come when the screen is being taken down.
        if view is self._view and self.query("#status"):
            self._problem = problem
            self._show()
        self.readings += 1

    def _reasonFor(self, view: View, error: PageError) -> str:
        if isinstance(error, MissingPage):
            self._tables.pop(view.key, None)
            return f"{error}: {view.absence}" if view.absence else str(error)
        last = self._tables.get(view.key)
        if last is None:
            return str(error)
        return f"{error}; the figures are {spanText(round(self._clock() - last.time))} old"

    def _sortOf(self, view: View) -> dict[str, object]:
        word = view.columns[self._orderOf(view)[0]].sort
        return {"sort": word} if word and view.limit else {}

    def _orderOf(self, view: View) -> tuple[int, bool]:
        first = view.firstSort
        return self._orders.get(view.key, (first, view.columns[first].isDescending))

    def _show(self) -> None:
        self._showServer()
        rows = self._chosen()
        self._showRows(rows)
        self._showStatus(len(rows))

    def _showServer(self) -> None:
        table, text = self._tables.get(SERVER.key), Text(self._server)
        if table is not None:
            cells = [
                "" if value is None else f"  {column.title} {column.textOf(value)}"
                for column, value in zip(SERVER.columns, table.rows[0].values, strict=True)
            ]
            text.append("".join(cells[:FIRST_LINE]))
            text.append("\n" + "".join(cells[FIRST_LINE:]).strip())
        self.query_one("#server", Static).update(text)

    def _showRows(self, chosen: Sequence[Row]) -> None:
        columns = self._view.columns
        sort, isDescending = self._orderOf(self._view)
        titles = [
            f"{column.title} {_ARROWS[isDescending]}" if index == sort else column.title
            for index, column in enumerate(columns)
        ]
        lines = [
            [column.textOf(value) for column, value in zip(columns, row.values, strict=True)]
            for row in chosen
        ]
        isRight = [column.isDescending for column in columns]
        names = [row.identity for row in chosen]
        self.query_one(Grid).fill(titles, lines, isRight, names)

    def _chosen(self) -> list[Row]:
        table = self._tables.get(self._view.key)
        if table is None:
            return []
        order = self._orderOf(self._view)
        return chosenRows(table, self._view, *order, self._wanted, self._isInternal)

    def _showStatus(self, shown: int) -> None:
        table = self._tables.get(self._view.key)
        parts = []
        if self._outer is not None:
            parts.append(oneLine(f"{self._outer[0].title}: {self._view.title}"))
        if self._isPaused:
            parts.append("paused")
        if self._problem:
            parts.append(self._problem)
        elif table is None:
            parts.append("reading")
        if table is not None:
            isGone = self._outer is not None and not table.rows
            parts.append("it is not there any more" if isGone else _countText(table, shown))
        if self._wanted:
            parts.append(f'rows with "{self._wanted}"')
        status = self.query_one("#status", Static)
        status.set_class(bool(self._problem), "trouble")
        status.update(Text("; ".join(parts)))

    def action_view(self, index: int) -> None:
        tabs, view = self.query_one(Tabs), VIEWS[index]
        if tabs.active == f"view{view.key}":
            self._leaveFor(view)
        else:
            tabs.active = f"view{view.key}"

    def action_nextView(self) -> None:
        view = self._view if self._outer is None else self._outer[0]
        self.action_view((VIEWS.index(view) + 1) % len(VIEWS))

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        self._leaveFor(next(view for view in VIEWS if f"view{view.key}" == event.tab.id))

    def _leaveFor(self, view: View) -> None:
        """Show one of the views. All views share the filter."""
        if view is not self._view:
            wanted = self._wanted if self._outer is None else self._outer[1]
            self._lookAt(view, wanted, None)

    def action_open(self) -> None:
        name = self.query_one(Grid).markedName
        row = next((row_ for row_ in self._chosen() if row_.identity == name), None)
        if row is not None and self._outer is None:
            self._lookAt(detailView(self._view, row), "", (self._view, self._wanted))

    def on_grid_row_opened(self, event: Grid.RowOpened) -> None:
        self.action_open()

    def action_back(self) -> None:
        if self._outer is None or self._wanted or self.query_one("#filter").has_class("shown"):
            self._want("")
            self._leaveFilter()
            self._show()
        else:
            self._leaveFor(self._outer[0])

    def _lookAt(self, view: View, wanted: str, outer: tuple[View, str] | None) -> None:
        grid = self.query_one(Grid)
        self._marks[self._view.key] = grid.mark
        # Rates are computed over the time for which the view, or a row of it, is shown.
        kept = {SERVER.key, *(shown[0].key for shown in (self._outer, outer) if shown is not None)}
        self._tables = {key: table for key, table in self._tables.items() if key in kept}
        if self._outer is not None:
            self._orders.pop(self._view.key, None)
            self._marks.pop(self._view.key, None)
        self._view, self._outer = view, outer
        grid.mark = self._marks.get(view.key, "")
        self._problem = ""
        self._want(wanted)
        self._show()
        self._wake.set()

    def action_sort(self, step: int) -> None:
        column, _ = self._orderOf(self._view)
        self._sortBy((column + step) % len(self._view.columns))

    def _sortBy(self, column: int) -> None:
        self._orders[self._view.key] = column, self._view.columns[column].isDescending
        self._show()

    def on_grid_title_clicked(self, event: Grid.TitleClicked) -> None:
        if event.column == self._orderOf(self._view)[0]:
            self.action_reverse()
        else:
            self._sortBy(event.column)

    def action_reverse(self) -> None:
        column, isDescending = self._orderOf(self._view)
        self._orders[self._view.key] = column, not isDescending
        self._show()

    def action_internal(self) -> None:
        self._isInternal = not self._isInternal
        self._show()

    def action_pause(self) -> None:
        self._isPaused = not self._isPaused
        self._show()
        self._wake.set()

    def action_filter(self) -> None:
        entry = self.query_one("#filter", Input)
        entry.add_class("shown")
        entry.focus()

    def _want(self, text: str) -> None:
        self._wanted = text
        entry = self.query_one("#filter", Input)
        with entry.prevent(Input.Changed):
            entry.value = text

    def _leaveFilter(self) -> None:
        self.query_one("#filter", Input).remove_class("shown")
        self.query_one(Grid).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._wanted = event.value
        self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._leaveFilter()


def _countText(table: Table, shown: int) -> str:
    if table.isOff:
        return "this server does not have it"
    text = f"{shown} row{'' if shown == 1 else 's'}"
    if shown < len(table.rows):
        text += f" of {len(table.rows)}"
    return f"{text}; {table.unread} more are not read" if table.unread else text
