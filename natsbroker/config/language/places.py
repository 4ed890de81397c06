"""
From offsets in a text to lines and columns.

This module promises positions in logarithmic time.  It must never know what the text says.
"""

from __future__ import annotations

from bisect import bisect_right

from natsbroker.config.errors import Position


class Places:
    """
    The lines of one text.

    @ivar source: what its positions name as their file.
    """

    def __init__(self, source: str, text: str) -> None:
        self.source = source
        self._starts = [0]
        offset = text.find("\n")
        while offset >= 0:
            self._starts.append(offset + 1)
            offset = text.find("\n", offset + 1)

    def at(self, offset: int) -> Position:
        """
        Locate the character at an offset.
        """
        line = bisect_right(self._starts, offset)
        return Position(self.source, line, offset - self._starts[line - 1] + 1)

    def reached(self, offset: int) -> Position:
        """
        Locate an error that showed when everything before C{offset} had been read.

        The column is that of the last character read.  When that one ended a line, the
        next line is named, as nats-server does.
        """
        place = self.at(offset)
        return Position(place.source, place.line, max(1, place.column - 1))
