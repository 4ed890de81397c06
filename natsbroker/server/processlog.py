"""
The log of a whole process: lines in nats-server's format, to the file that the settings name or to
a stream. A reload can change the file and what is logged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TextIO

from natsbroker.config.diff import Change
from natsbroker.config.model import Logging, Settings
from natsbroker.server.logfile import LogOutput
from natsbroker.server.logs import LineLog
from natsbroker.server.reload import Step

__all__ = ["ProcessLog"]


class ProcessLog:
    """
    The log of one process.

    @ivar observer: the log observer that writes it.
    """

    def __init__(self, stream: TextIO, logging: Logging, default: str = "") -> None:
        """
        @param stream: where lines go without a file.
        @param default: the file where the settings name none; empty for the stream.
        """
        self._default = default
        self._output = LogOutput(stream)
        self._logging = self._complete(logging)
        self.observer = LineLog(self._output.write, self._logging)

    def _complete(self, logging: Logging) -> Logging:
        return replace(logging, logfile=logging.logfile or self._default)

    def open(self) -> None:
        """
        Open the file, if there is one.

        @raise OSError: if that is not possible.
        """
        self._output.prepare(self._logging)()

    def reopen(self) -> None:
        """
        Open the file again, after another program moved it.
        """
        self._output.reopen()

    def plan(self, new: Settings, changes: Sequence[Change]) -> Step:
        """
        See L{natsbroker.server.reload.Planner}.
        """
        logging = self._complete(new.logging)
        try:
            redirect = self._output.prepare(logging)
        except OSError as error:
            raise ValueError(f"log file {logging.logfile}: {error.strerror}") from error

        def apply() -> None:
            self.observer.settings = logging
            redirect()

        return apply
