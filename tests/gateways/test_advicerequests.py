"""
Requests for advice about gateway interest policies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from natsbroker.gateways.advice import PolicyAdvice
from natsbroker.gateways.advicerequests import AdviceResponder
from natsbroker.testing.memory import MemoryBroker
from tests.server.support import logLines

#: A minute after the beginning of the memory broker's time.
MINUTE = "1970-01-01T00:01:00Z"

RIGHT = {"account": "A", "gateway": "there", "mode": "interest-only", "until": MINUTE}


class Book:
    """A store of advice, which has no effect."""

    name = "here"

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], PolicyAdvice] = {}
        self.isFull = False

    def accounts(self) -> Iterable[str]:
        """The existing accounts."""
        return ["A", "B"]

    def clusters(self) -> Iterable[str]:
        """The known clusters."""
        return ["there"]

    def advise(
        self, account: str, gateway: str, mode: str, until: float, most: int | None
    ) -> PolicyAdvice:
        """Add advice."""
        if self.isFull:
            raise ValueError("enough")
        self.kept[account, gateway] = advice = PolicyAdvice(account, gateway, mode, until, most)
        return advice

    def withdraw(self, account: str, gateway: str) -> bool:
        """Remove advice."""
        return self.kept.pop((account, gateway), None) is not None

    def advice(self) -> Iterable[PolicyAdvice]:
        """All advice."""
        return self.kept.values()


def responder(broker: MemoryBroker, book: Book) -> AdviceResponder:
    """A running responder for requests about advice."""
    dependencies: Any = SimpleNamespace(systemBus=broker.bus, serverId="ID", reactor=broker.reactor)
    advice: Any = book
    made = AdviceResponder(advice, dependencies)
    made.startService()
    return made


class Office:
    """A client that sends requests."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.book = Book()
        self.service = responder(broker, self.book)
        self.client = broker.connect({"verbose": False})
        self.client.send(b"SUB _INBOX.1 1\r\n")

    def ask(self, verb: str, payload: Any = None, gateway: str = "here") -> dict[str, Any]:
        """The answer to a request."""
        text = payload if isinstance(payload, bytes) else json.dumps(payload or {}).encode()
        subject = f"$NB.API.GATEWAY.{verb}.{gateway}".encode()
        self.client.send(b"PUB %b _INBOX.1 %d\r\n%b\r\n" % (subject, len(text), text))
        lines = [line for line in self.client.receive().split(b"\r\n") if line.startswith(b"{")]
        document: dict[str, Any] = json.loads(lines[0]) if lines else {}
        return document


def test_advice() -> None:
    """Advice can be given, listed and withdrawn."""
    with MemoryBroker() as broker, logLines() as lines:
        office = Office(broker)
        assert office.ask("ADVISE", RIGHT) == {"advice": RIGHT, "server": "ID"}
        assert office.book.kept["A", "there"] == PolicyAdvice("A", "there", "interest-only", 60.0)
        assert [line for line in lines if "is advised to be interest-only" in line]
        more = {**RIGHT, "account": "B", "mode": "optimistic", "max_no_interest": 7}
        more["until"] = "1970-01-01T01:01:00+01:00"
        assert office.ask("ADVISE", more)["advice"] == {**more, "until": MINUTE}
        assert len(office.ask("ADVICE")["advice"]) == 2
        which = {"account": "B", "gateway": "there"}
        assert office.ask("WITHDRAW", which)["withdrawn"] == which
        assert office.ask("ADVICE")["advice"] == [RIGHT]
        assert office.ask("WITHDRAW", which)["error"]["err_code"] == 20014
        assert office.ask("ADVICE", gateway="there") == {}
        office.service.stopService()
        assert office.ask("ADVICE") == {}


@pytest.mark.parametrize(
    ("changes", "number", "why"),
    [
        ({"account": "C"}, 20011, "there is no account C"),
        ({"gateway": "here"}, 20012, "there is no cluster here"),
        ({"mode": "loud"}, 20001, "mode must be one of: interest-only, optimistic"),
        ({"mode": 7}, 20001, "mode must be a text"),
        ({"until": "soon"}, 20001, "until must be a time such as"),
        ({"until": "1970-01-01T00:01:00"}, 20001, "until must be a time such as"),
        ({"until": "1970-01-01T00:00:00Z"}, 20001, "until must be in the future"),
        ({"until": "1980-01-01T00:00:00Z"}, 20001, "until must be in the future"),
        ({"max_no_interest": 7}, 20001, "max_no_interest needs the mode optimistic"),
        ({"mode": "optimistic", "max_no_interest": -1}, 20001, "max_no_interest must be"),
        ({"colour": "red"}, 20001, "there is no field 'colour'"),
    ],
)
def test_fieldsChecked(changes: dict[str, Any], number: int, why: str) -> None:
    """An invalid field is refused with an error that names it, and no advice is stored."""
    with MemoryBroker() as broker:
        office = Office(broker)
        error = office.ask("ADVISE", {**RIGHT, **changes})["error"]
        assert error["err_code"] == number
        assert why in error["description"]
        assert not office.book.kept


def test_otherRefusals() -> None:
    """
    A body that is not an object, an unknown request, an unknown field, and advice beyond the limit
    are refused.
    """
    with MemoryBroker() as broker:
        office = Office(broker)
        assert office.ask("ADVISE", b"[]")["error"]["err_code"] == 20001
        assert office.ask("GUESS", RIGHT)["error"]["err_code"] == 20002
        assert office.ask("ADVICE", {"x": 1})["error"]["err_code"] == 20001
        office.book.isFull = True
        assert office.ask("ADVISE", RIGHT)["error"]["err_code"] == 20013


def test_permissions() -> None:
    """
    A request without permission to publish is not received. An answer is sent only to a subject
    that the requester may subscribe to.
    """
    text = """authorization { users: [
        {user: u, password: p, permissions: {publish: "$NB.API.GATEWAY.ADVICE.>"}}
        {user: v, password: p, permissions: {publish: ">", subscribe: "_INBOX.v.>"}}
    ] }"""
    with MemoryBroker(configText=text) as broker:
        book = Book()
        responder(broker, book)
        one = broker.connect({"verbose": False, "user": "u", "pass": "p"})
        payload = json.dumps(RIGHT).encode()
        asking = b"PUB $NB.API.GATEWAY.ADVISE.here %b %d\r\n%b\r\n"
        one.send(b"SUB _INBOX.1 1\r\n" + asking % (b"_INBOX.1", len(payload), payload))
        assert b"Permissions Violation" in one.receive()
        assert not book.kept
        other = broker.connect({"verbose": False, "user": "v", "pass": "p"})
        other.send(asking % (b"_INBOX.1", len(payload), payload))
        assert not book.kept
        assert one.receive() == b""
