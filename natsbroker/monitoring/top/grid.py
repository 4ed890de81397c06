"""
A table for Textual that renders only the lines that are seen. Textual's own measures each cell,
which takes a second for the rows of a busy server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

_GAP = 2
"""Cells between two columns."""


class Grid(ScrollView):
    """
    The first line has the titles, and stays where it is.
    """

    can_focus = True
    COMPONENT_CLASSES: ClassVar[set[str]] = {"grid--titles", "grid--odd"}
    DEFAULT_CSS = """
    Grid .grid--titles { background: $primary; color: $text; text-style: bold; }
    Grid .grid--odd { background: $boost; }
    """

    class TitleClicked(Message):
        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._titles: Sequence[str] = ()
        self._rows: Sequence[Sequence[str]] = ()
        self._isRight: Sequence[bool] = ()
        self._widths: list[int] = []

    def fill(
        self, titles: Sequence[str], rows: Sequence[Sequence[str]], isRight: Sequence[bool]
    ) -> None:
        """
        @param rows: the texts of each, one for a title.
        @param isRight: whether a column is aligned to the right.
        """
        self._titles, self._rows, self._isRight = titles, rows, isRight
        columns = zip(titles, *rows, strict=True)
        self._widths = [max(map(cell_len, column)) for column in columns]
        width = sum(self._widths) + _GAP * len(self._widths)
        self.virtual_size = Size(width, len(rows) + 1)
        self.refresh()

    @property
    def texts(self) -> list[str]:
        """
        What stands in the lines, those that are not seen too.
        """
        return [self._textOf(each).strip() for each in (self._titles, *self._rows)]

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        index = y + top - 1
        if y == 0:
            cells, style = self._titles, self.get_component_rich_style("grid--titles")
        else:
            cells = self._rows[index] if index < len(self._rows) else ()
            isOdd = index % 2 and cells
            style = self.get_component_rich_style("grid--odd") if isOdd else self.rich_style
        strip = Strip([Segment(self._textOf(cells), style)])
        return strip.crop_extend(left, left + self.size.width, style)

    def _textOf(self, cells: Sequence[str]) -> str:
        aligned = zip(cells, self._widths, self._isRight, strict=False)
        return "".join(
            f" {' ' * (width - cell_len(cell)) + cell if isRight else set_cell_size(cell, width)} "
            for cell, width, isRight in aligned
        )

    def on_click(self, event: events.Click) -> None:
        if event.y != 0:
            return
        place = event.x + self.scroll_offset.x
        for column, width in enumerate(self._widths):
            if place < width + _GAP:
                self.post_message(self.TitleClicked(column))
                return
            place -= width + _GAP
