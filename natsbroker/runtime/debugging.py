"""Whether debug events are made. They may happen thousands of times a second."""

from __future__ import annotations


class Debugging:
    """C{isShown} is false while the log of this process leaves all of them out."""

    __slots__ = ("isShown",)

    def __init__(self) -> None:
        self.isShown = True


debugging = Debugging()
