"""A table for Textual that renders only visible lines; Textual's own takes a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

_GAP = 2
"""Cells between two columns."""


class Grid(ScrollView):
    """
    A table with fixed titles in the first line and one marked row: the first one, or one that was
    chosen by key or click. A chosen row stays marked when the order changes.

    @ivar mark: the name of the marked row; empty for the first.
    """

    can_focus = True
    COMPONENT_CLASSES: ClassVar[set[str]] = {"grid--titles", "grid--odd", "grid--marked"}
    DEFAULT_CSS = """
    Grid .grid--titles { background: $primary; color: $text; text-style: bold; }
    Grid .grid--odd { background: $boost; }
    Grid .grid--marked { background: $secondary; color: $text; text-style: bold; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("up", "step(-1)"),
        Binding("down", "step(1)"),
        Binding("pageup", "page(-1)"),
        Binding("pagedown", "page(1)"),
        Binding("home", "first"),
        Binding("end", "last"),
    ]

    class TitleClicked(Message):
        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    class RowOpened(Message):
        """A click on the row that is marked."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._titles: Sequence[str] = ()
        self._rows: Sequence[Sequence[str]] = ()
        self._isRight: Sequence[bool] = ()
        self._names: Sequence[str] = ()
        self._widths: list[int] = []
        self._marked = 0
        self.mark = ""

    def fill(
        self,
        titles: Sequence[str],
        rows: Sequence[Sequence[str]],
        isRight: Sequence[bool],
        names: Sequence[str],
    ) -> None:
        """
        @param isRight: whether a column is aligned to the right.
        @param names: of the rows, all different.
        """
        self._titles, self._rows, self._isRight, self._names = titles, rows, isRight, names
        if not self.mark:
            self._marked = 0
        elif self.mark in names:
            self._marked = names.index(self.mark)
        else:
            self._marked = max(0, min(self._marked, len(names) - 1))
        columns = zip(titles, *rows, strict=True)
        self._widths = [max(map(cell_len, column)) for column in columns]
        width = sum(self._widths) + _GAP * len(self._widths)
        self.virtual_size = Size(width, len(rows) + 1)
        self.refresh()

    @property
    def markedName(self) -> str:
        return self._names[self._marked] if self._names else ""

    def action_step(self, rows: int) -> None:
        self._goTo(self._marked + rows)

    def action_page(self, pages: int) -> None:
        self._goTo(self._marked + pages * (self.size.height - 1))

    def action_first(self) -> None:
        self._goTo(0)

    def action_last(self) -> None:
        self._goTo(len(self._names) - 1)

    def _goTo(self, place: int) -> None:
        """Mark the row at C{place}, or the one next to it, and scroll until it is seen."""
        self._marked = max(0, min(place, len(self._names) - 1))
        self.mark = self.markedName if self._marked else ""
        top, bottom = self._marked, self._marked + 2 - self.size.height
        seen = max(bottom, min(self.scroll_offset.y, top))
        self.scroll_to(y=seen, animate=False, immediate=True)
        self.refresh()

    @property
    def texts(self) -> list[str]:
        return [self._textOf(row).strip() for row in (self._titles, *self._rows)]

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        index = y + top - 1
        if y == 0:
            cells, style = self._titles, self.get_component_rich_style("grid--titles")
        else:
            cells = self._rows[index] if index < len(self._rows) else ()
            style = self._styleOf(index) if cells else self.rich_style
        strip = Strip([Segment(self._textOf(cells), style)])
        return strip.crop_extend(left, left + self.size.width, style)

    def _styleOf(self, index: int) -> Style:
        if index == self._marked:
            return self.get_component_rich_style("grid--marked")
        return self.get_component_rich_style("grid--odd") if index % 2 else self.rich_style

    def _textOf(self, cells: Sequence[str]) -> str:
        aligned = zip(cells, self._widths, self._isRight, strict=False)
        return "".join(
            f" {' ' * (width - cell_len(cell)) + cell if isRight else set_cell_size(cell, width)} "
            for cell, width, isRight in aligned
        )

    def on_click(self, event: events.Click) -> None:
        if event.y != 0:
            self._clickRow(event.y + self.scroll_offset.y - 1)
            return
        place = event.x + self.scroll_offset.x
        for column, width in enumerate(self._widths):
            if place < width + _GAP:
                self.post_message(self.TitleClicked(column))
                return
            place -= width + _GAP

    def _clickRow(self, row: int) -> None:
        if row >= len(self._names):
            return
        if row == self._marked:
            self.post_message(self.RowOpened())
        else:
            self._goTo(row)
