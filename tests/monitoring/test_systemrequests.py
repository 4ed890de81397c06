"""Tests for L{natsbroker.monitoring.systemrequests}."""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.accounts.account import Account
from natsbroker.monitoring.systemrequests import (
    ACCOUNT_REQUESTS,
    ACTIONS,
    SERVER_REQUESTS,
    SystemRequests,
)
from natsbroker.wire.values import Kind, Message
from tests.support import Recorder, World


class Answers:
    """
    Answers with what was asked.

    @ivar made: how often answers were made.
    """

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> Any:
        self.made += 1
        return self

    def ofServer(self, kind: str, body: bytes) -> bytes:
        return b"server %b %b" % (kind.encode(), body)

    def ofAccount(self, kind: str, account: str, body: bytes) -> bytes:
        return b"account %b %b %b" % (kind.encode(), account.encode(), body)

    def ofAction(self, kind: str, body: bytes) -> bytes:
        return b"action %b %b" % (kind.encode(), body)


class Stage:
    """
    Requests to a system account and an account C{A}.
    """

    def __init__(self) -> None:
        self.answers = Answers()
        self.world = World()
        self.system, self.other = (self.world.accounts[name] for name in ("$SYS", "A"))
        requests = SystemRequests(self.system.busFor(Kind.INTERNAL), "ID", self.answers)
        requests.serve(self.other)

    def ask(self, subject: str, account: Account | None = None) -> list[bytes]:
        """
        The answers to a request behind C{$SYS.REQ.} with the body C{x}.
        """
        bus, recorder = (account or self.system).busFor(Kind.CLIENT), Recorder()
        bus.subscribe(b"_INBOX.one", recorder)
        bus.publish(Message(f"$SYS.REQ.{subject}".encode(), b"x", b"_INBOX.one"))
        self.world.settle()
        return [message.body for message, _ in recorder.got]


def test_lazy() -> None:
    """Answers are made at the first request, and kept."""
    stage = Stage()
    assert stage.answers.made == 0
    stage.ask("SERVER.PING")
    stage.ask("SERVER.PING.VARZ")
    assert stage.answers.made == 1


@pytest.mark.parametrize("kind", SERVER_REQUESTS)
def test_servers(kind: str) -> None:
    """Every server is asked, or one; not another one."""
    stage = Stage()
    for server in ("PING", "ID"):
        assert stage.ask(f"SERVER.{server}.{kind}") == [b"server %b x" % kind.encode()]
    assert stage.ask(f"SERVER.OTHER.{kind}") == []


def test_status() -> None:
    """Without a page, the question is for the status."""
    assert Stage().ask("SERVER.PING") == [b"server STATSZ x"]


@pytest.mark.parametrize("kind", ACCOUNT_REQUESTS)
def test_accounts(kind: str) -> None:
    """An account is asked about by its name."""
    assert Stage().ask(f"ACCOUNT.B.{kind}") == [b"account %b B x" % kind.encode()]


@pytest.mark.parametrize("kind", ACTIONS)
def test_actions(kind: str) -> None:
    """One server does something, never all of them."""
    stage = Stage()
    assert stage.ask(f"SERVER.ID.{kind}") == [b"action %b x" % kind.encode()]
    assert stage.ask(f"SERVER.PING.{kind}") == []


@pytest.mark.parametrize(
    ("subject", "answers"),
    [
        ("ACCOUNT.PING.CONNZ", [b"account CONNZ A x"]),
        ("SERVER.PING.CONNZ", [b"account CONNZ A x"]),
        ("ACCOUNT.PING.STATZ", [b"account STATZ A x"]),
        ("ACCOUNT.B.CONNZ", []),
        ("SERVER.PING.VARZ", []),
        ("SERVER.ID.KICK", []),
    ],
)
def test_otherAccounts(subject: str, answers: list[bytes]) -> None:
    """Users of other accounts ask about their own only."""
    stage = Stage()
    assert stage.ask(subject, stage.other) == answers
