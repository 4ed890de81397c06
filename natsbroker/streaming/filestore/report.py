"""
Progress and findings of an import, for its operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """
    @ivar notes: what is missing or left out, though nothing that the server acknowledged and still
        had is lost by it.
    @ivar damaged: what should be there and cannot be read.
    """

    show: Callable[[str], object] | None = None
    notes: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self._add(self.notes, text)

    def damage(self, text: str) -> None:
        self._add(self.damaged, text)

    def _add(self, texts: list[str], text: str) -> None:
        texts.append(text)
        if self.show is not None:
            self.show(text)
