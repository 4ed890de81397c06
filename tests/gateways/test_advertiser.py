"""
The interest in an account that another cluster receives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.gateways.advertiser import GatewayAdvertiser
from natsbroker.gateways.policies import SwitchingPolicy
from natsbroker.gateways.tables import InterestTable
from natsbroker.subjects.grammar import matches
from natsbroker.testing.strategies import literalSubjects, patterns
from natsbroker.wire.dialects.gateway import (
    accountOf,
    commandLine,
)
from natsbroker.wire.dialects.route import splitInterest, splitLost
from natsbroker.wire.serverinfo import GatewayCommand, parseDocument
from natsbroker.wire.values import Kind
from tests.support import Recorder, Router

START = commandLine("HERE", GatewayCommand.ALL_SUBS_START, b"A")
COMPLETE = commandLine("HERE", GatewayCommand.ALL_SUBS_COMPLETE, b"A")


class Told:
    """Another cluster that records the lines that it receives."""

    def __init__(self, switchAfter: int = 1000, isBegun: bool = True, **arguments: Any) -> None:
        self.lines: list[bytes] = []
        self.soon: list[Callable[[], None]] = []
        batch = hot.FlushBatch(self.soon.append)
        self.account = Account("A", Router(), AccountDependencies(batch))
        self.advertiser = GatewayAdvertiser(b"A", "HERE", self.lines.append, batch, **arguments)
        if isBegun:
            self.begin()
        self._policy = SwitchingPolicy(switchAfter)

    def begin(self) -> None:
        """Begin with the existing interest."""
        gate: Any = self.account.busFor(Kind.GATEWAY)
        self.advertiser.begin(gate)

    def subscribe(self, pattern: bytes, queue: bytes = b"") -> Any:
        """Make a subscription in the account."""
        return self.account.subscribe(Kind.CLIENT, pattern, Recorder(), b"", queue, 1)

    def finish(self) -> None:
        """Run all turns."""
        while self.soon:
            self.soon.pop(0)()

    def send(self, subject: bytes) -> None:
        """Send a message that no one wants."""
        self.advertiser.sendNoInterest(subject, lambda n: self._policy.switches("T", "A", n), 7.0)

    def take(self) -> list[bytes]:
        """The lines since the last call."""
        lines, self.lines[:] = list(self.lines), []
        return lines


def test_groups() -> None:
    """Interest of queue groups is always announced, in every mode, with a weight of one."""
    told = Told()
    told.advertiser.interestGained(b"a", b"q", 3)
    told.advertiser.interestWeightChanged(b"a", b"q", 4)
    told.advertiser.interestLost(b"a", b"q")
    assert told.take() == [b"RS+ A a q 1\r\n", b"RS- A a q\r\n"]


def test_plainInterestIsAssumed() -> None:
    """Plain interest is not announced before anything was refused, because it is assumed."""
    told = Told()
    told.advertiser.interestGained(b"a", b"", 1)
    told.advertiser.interestLost(b"a", b"")
    assert told.take() == []


def test_account() -> None:
    """An account without any interest is refused once, and wanted again with its first interest."""
    told = Told()
    for subject in (b"a", b"b", b"a"):
        told.send(subject)
    assert told.take() == [b"A- A\r\n"]
    told.advertiser.interestGained(b"a", b"", 1)
    told.advertiser.interestGained(b"b", b"", 1)
    assert told.take() == [b"A+ A\r\n"]


def test_accountAndGroup() -> None:
    """A refused account is wanted again when a queue group subscribes."""
    told = Told()
    told.send(b"a")
    told.advertiser.interestGained(b"a", b"q", 1)
    told.advertiser.interestGained(b"b", b"", 1)
    assert told.take() == [b"A- A\r\n", b"A+ A\r\n", b"RS+ A a q 1\r\n"]


def test_refusedBefore() -> None:
    """
    An account that was refused when it was unknown is announced again with its first interest.
    """
    told = Told(isRefused=True)
    told.advertiser.interestGained(b"a", b"", 1)
    assert told.take() == [b"A+ A\r\n"]


def test_subjects() -> None:
    """A subject is refused once, and wanted again with interest in it or in a matching pattern."""
    told = Told()
    told.advertiser.interestGained(b"other", b"", 1)
    for subject in (b"a.1", b"a.1", b"a.2", b"b"):
        told.send(subject)
    assert told.take() == [b"RS- A a.1\r\n", b"RS- A a.2\r\n", b"RS- A b\r\n"]
    told.advertiser.interestGained(b"a.*", b"", 1)
    told.advertiser.interestGained(b"b", b"", 1)
    told.advertiser.interestGained(b"c", b"", 1)
    assert told.take() == [b"RS+ A a.*\r\n", b"RS+ A b\r\n"]
    told.send(b"a.1")
    assert told.take() == [b"RS- A a.1\r\n"]


def test_afterPulls() -> None:
    """
    After an account has pulled messages of streams, reply subjects that lose their interest are
    refused. Otherwise the inbox of a client that is gone would get a message.
    """
    told = Told()
    told.subscribe(b"other")
    told.subscribe(b"inbox.0").cancel()
    assert told.take() == []
    told.account.gateways.hasPulled = True
    twice = [told.subscribe(b"inbox.1"), told.subscribe(b"inbox.*")]
    told.subscribe(b"inbox.2").cancel()
    twice[0].cancel()
    assert told.take() == []
    twice[1].cancel()
    told.subscribe(b"inbox.1").cancel()
    again = told.subscribe(b"inbox.1")
    assert told.take() == [b"RS- A inbox.1\r\n", b"RS+ A inbox.1\r\n"]
    again.cancel()
    assert told.take() == [b"RS- A inbox.1\r\n"]


def test_switch() -> None:
    """
    After too many refusals all interest is sent, in nats-server's lines, and later each change.
    """
    told = Told(switchAfter=2)
    told.advertiser.interestGained(b"want", b"", 1)
    told.advertiser.interestGained(b"group", b"q", 1)
    told.take()
    for number in range(5):
        told.send(b"x.%d" % number)
    assert told.take() == [
        b"RS- A x.0\r\n",
        b"RS- A x.1\r\n",
        START,
        b"RS+ A want\r\n",
        COMPLETE,
    ]
    told.advertiser.interestGained(b"more", b"", 1)
    told.advertiser.interestLost(b"want", b"")
    assert told.take() == [b"RS+ A more\r\n", b"RS- A want\r\n"]
    figures = told.advertiser.figures()
    assert (figures["mode"], figures["switched"], figures["switches"]) == ("interest-only", 7.0, 1)
    assert told.advertiser.interests() == [(b"more", b""), (b"group", b"q")]


def test_tellAll() -> None:
    """All interest may be sent at once, but only once, and a refused account is wanted again."""
    told = Told()
    told.send(b"a")
    told.advertiser.sendAll(1.0)
    told.advertiser.sendAll(2.0)
    told.advertiser.interestGained(b"a", b"", 1)
    assert told.take() == [b"A- A\r\n", START, COMPLETE, b"RS+ A a\r\n"]
    assert told.advertiser.figures()["switched"] == 1.0


def test_mostRefused() -> None:
    """A subject whose refusal was forgotten is refused once more."""
    told = Told(mostRefused=2)
    told.advertiser.interestGained(b"other", b"", 1)
    for subject in (b"a", b"b", b"c", b"c", b"a"):
        told.send(subject)
    assert told.take() == [b"RS- A a\r\n", b"RS- A b\r\n", b"RS- A c\r\n", b"RS- A a\r\n"]
    assert told.advertiser.figures()["no_interest"] == 2


#: What happens: somebody subscribes, unsubscribes, or something is sent.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("+"), patterns()),
        st.tuples(st.just("-"), st.integers(0, 5)),
        st.tuples(st.just("!"), literalSubjects()),
    ),
    max_size=30,
)


def understood(table: InterestTable, policy: SwitchingPolicy, line: bytes) -> InterestTable:
    """The interest table after a line."""
    name, _, rest = line[:-2].partition(b" ")
    if name in (b"A+", b"A-"):
        return policy.accountWanted(table, name == b"A+")
    if name == b"INFO":
        document = parseDocument(rest)
        assert accountOf(document) == b"A"
        return policy.listed(table, document.gateway_cmd == GatewayCommand.ALL_SUBS_COMPLETE)
    interest = splitInterest(rest) if name == b"RS+" else splitLost(rest)
    assert interest is not None
    change = policy.gained if name == b"RS+" else policy.lost
    return change(table, interest.pattern, interest.queue)


@given(STEPS, st.integers(0, 4))
def test_isUnderstood(steps: list[tuple[str, Any]], switchAfter: int) -> None:
    """
    A cluster that follows the lines sends every wanted message, in any mode and at any moment of a
    switch, and each unwanted subject at most once before it is refused.
    """
    told, policy = Told(switchAfter), SwitchingPolicy()
    table = policy.connected("HERE", "A", False)
    there: dict[bytes, None] = {}
    sent: list[bytes] = []
    for sign, what in steps:
        if sign == "+" and what not in there:
            there[what] = None
            told.advertiser.interestGained(what, b"", 1)
        elif sign == "-" and what < len(there):
            pattern = list(there)[what]
            del there[pattern]
            told.advertiser.interestLost(pattern, b"")
        elif sign == "!":
            wanted = any(matches(pattern, what) for pattern in there)
            isSent, _ = table.match(what)
            assert isSent or not wanted
            if isSent and not wanted:
                told.send(what)
                sent.append(what)
        for line in told.take():
            table = understood(table, policy, line)
            for pattern in there:
                tokens = [b"x" if token in (b"*", b">") else token for token in pattern.split(b".")]
                literal = b".".join(tokens)
                assert table.match(literal)[0], (line, pattern)
        if sign == "!" and sent and sent[-1] == what:
            assert not table.match(what)[0] or any(matches(entry, what) for entry in there)


class TestShares:
    """Many subscriptions are sent in shares of work."""

    COUNT = 5000

    def crowded(self) -> tuple[Told, list[Any]]:
        """Many subscriptions, and a new connection to another cluster."""
        told = Told(isBegun=False)
        subscriptions = [told.subscribe(b"a.%d" % number) for number in range(self.COUNT)]
        return told, subscriptions

    def known(self, lines: list[bytes]) -> set[bytes]:
        """
        The interest that the other cluster knows. No interest may end before it was announced.
        """
        known = set()
        for line in lines:
            sign, _, pattern, *_ = line.split()
            if sign == b"RS+":
                known.add(pattern)
            elif sign == b"RS-":
                known.remove(pattern)
        return known

    @pytest.mark.parametrize("switchesAt", [0, 1, 2, None])
    def test_completeAfterAll(self, switchesAt: int | None) -> None:
        """ALL_SUBS_COMPLETE follows the last line, also if the mode switches during the list."""
        told, subscriptions = self.crowded()
        told.begin()
        rounds = 0
        while told.soon and rounds != switchesAt:
            told.soon.pop(0)()
            rounds += 1
        told.advertiser.sendAll(1.0)
        assert COMPLETE not in told.lines
        assert told.advertiser.figures()["mode"] == "transitioning"
        for place in (0, self.COUNT // 2, self.COUNT - 1):
            subscriptions[place].cancel()
        told.subscribe(b"a.0")
        told.subscribe(b"new")
        told.finish()
        lines = told.take()
        assert (lines.count(START), lines.count(COMPLETE)) == (1, 1)
        listed = lines[lines.index(START) + 1 : lines.index(COMPLETE)]
        there = {subscription.pattern for subscription in told.account.subscriptions()}
        assert self.known(listed) == there
        assert lines[-1] == COMPLETE
        assert told.advertiser.figures()["mode"] == "interest-only"

    def test_accountIsKeptWhileListed(self) -> None:
        """An account is not refused before all of its interest was listed."""
        told, _ = self.crowded()
        told.begin()
        told.send(b"unwanted")
        told.finish()
        assert told.take() == [b"RS- A unwanted\r\n"]

    def test_end(self) -> None:
        """A connection that ends gets no more of the list."""
        told, _ = self.crowded()
        told.begin()
        told.finish()
        told.advertiser.sendAll(1.0)
        told.take()
        told.advertiser.end()
        told.finish()
        assert told.take() == []
