"""The known subjects of a stream's messages, with appends that are under way."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from natsbroker.interfaces.records import Record

KNOWN = 100_000
"""The most subjects that are remembered."""


class SubjectState(NamedTuple):
    """
    The stored messages of one subject, with appends that are under way.

    @ivar messages: their number; -1 if that is not known.
    @ivar last: the last sequence; 0 for none.
    """

    messages: int
    last: int


class SubjectUnknown(Exception):
    """
    A check needs the state of a subject that is not known.

    @ivar notify: called with the subject's last message, C{None} for none, if the check needs that
        too.
    """

    def __init__(
        self, subject: bytes, notify: Callable[[Record | None], None] | None = None
    ) -> None:
        super().__init__(subject)
        self.subject = subject
        self.notify = notify


class SubjectStates:
    """
    The states of the subjects that were asked for or published to last.

    @ivar isUsed: whether any subject was asked for.
    @ivar cleared: how often everything was forgotten.
    """

    def __init__(self) -> None:
        self.known: OrderedDict[bytes, SubjectState] = OrderedDict()
        self.isUsed = False
        self.cleared = 0

    def find(self, subject: bytes, countsToo: bool = False) -> SubjectState:
        """
        The stored messages of a subject, or of all subjects that a pattern matches;
        L{SubjectUnknown} if the log must be asked first.
        """
        state = self.known.get(subject)
        if state is None or (countsToo and state.messages < 0):
            raise SubjectUnknown(subject)
        return state

    def lastOf(self, subject: bytes) -> int:
        """The last sequence of a subject; 0 if it is not known."""
        state = self.known.get(subject)
        return 0 if state is None else state.last

    def found(self, subject: bytes, state: SubjectState) -> None:
        """Remember the state that the log has. From now on appends are counted too."""
        self.isUsed = True
        self._remember(subject, state)

    def stored(self, subject: bytes, sequence: int) -> None:
        """Note that a message is being appended."""
        if self.isUsed:
            known = self.known.get(subject)
            messages = -1 if known is None or known.messages < 0 else known.messages + 1
            self._remember(subject, SubjectState(messages, sequence))

    def _remember(self, subject: bytes, state: SubjectState) -> None:
        known = self.known
        known[subject] = state
        known.move_to_end(subject)
        if len(known) > KNOWN:
            known.popitem(last=False)

    def forget(self, subject: bytes) -> None:
        self.known.pop(subject, None)

    def clear(self) -> None:
        self.cleared += 1
        self.known.clear()
