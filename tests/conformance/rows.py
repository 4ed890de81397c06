"""
The conformance table: the output of a NATS server to clients, row by row.

A row belongs to a numbered case, and a case has as many rows as variants. The rows are facts about
nats-server 2.15: C{tests/interop/test_rows_real_server.py} verifies each of them with nats-server,
and the other runners verify that natsbroker agrees.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.conformance.steps import needsProcess
from tests.conformance.transcripts import Alive, Closed, Expect, Part, Send, Step

#: How many numbered cases there are.
CASES = range(1, 69)

CON = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
HEADERS = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
PEDANTIC = b'CONNECT {"verbose":false,"pedantic":true}\r\n'
UNKNOWN = b"-ERR 'Unknown Protocol Operation'\r\n"
VIOLATION = b"-ERR 'Authorization Violation'\r\n"
OVERSIZE = b"-ERR 'Maximum Payload Violation'\r\n"


@dataclass(frozen=True)
class Deviation:
    """
    An intended difference of natsbroker.

    @ivar reason: the reason.
    @ivar steps: the steps with natsbroker's own answer.
    """

    reason: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Row:
    """
    One conversation.

    @ivar number: the number of the case.
    @ivar name: the name that distinguishes the row; the id of its test.
    @ivar config: the server's configuration file.
    @ivar needs: features other than the client protocol.
    @ivar countPings: whether the server's keep-alive PINGs belong to the conversation.
    @ivar fresh: whether the row needs a server that serves no other row.
    @ivar deviation: natsbroker's own answer, where it differs.
    """

    number: int
    name: str
    steps: tuple[Step, ...]
    config: str = ""
    needs: tuple[str, ...] = ()
    countPings: bool = False
    fresh: bool = False
    deviation: Deviation | None = None

    @property
    def id(self) -> str:
        """
        The name of the test.
        """
        return f"{self.number:02}-{self.name.replace(' ', '-')}"

    @property
    def ourSteps(self) -> tuple[Step, ...]:
        """The steps that natsbroker must pass."""
        return self.deviation.steps if self.deviation else self.steps

    @property
    def needsProcess(self) -> bool:
        """
        Whether the row needs a server process: signals, log files, TLS.
        """
        return needsProcess(self.steps) or "$DIR" in self.config


def stays(sent: bytes, *answer: Part) -> tuple[Step, ...]:
    """
    @return: steps in which a client sends one packet, gets an answer, and the connection stays
        open.
    """
    return (Send(sent), Expect(*answer), Alive())


def ends(sent: bytes, *answer: Part) -> tuple[Step, ...]:
    """
    @return: steps in which a client sends one packet, gets an answer, and the connection is closed.
    """
    return (Send(sent), Expect(*answer), Closed())


def allRows() -> list[Row]:
    """
    @return: the table, by number.
    """
    from tests.conformance.tables import (
        handshake,
        later,
        limits,
        logins,
        permissions,
        publishing,
        replies,
        subscribing,
        tls,
    )

    tables = (handshake, publishing, subscribing, replies, permissions, logins, limits, tls, later)
    return sorted((row for table in tables for row in table.ROWS), key=lambda row: row.number)


def runSteps(row: Row, ours: bool) -> tuple[Step, ...]:
    """
    @return: the steps of a row for our broker, or for nats-server.
    """
    return row.ourSteps if ours else row.steps
