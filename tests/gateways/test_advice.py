"""
Advice that changes the gateway interest policy of an account.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.gateways.advice import MOST, AdvisedPolicy, PolicyAdvice
from natsbroker.gateways.policies import InterestOnlyPolicy, OptimisticPolicy, SwitchingPolicy
from natsbroker.testing.contracts.gateways import gatewayPolicyTests
from natsbroker.testing.transport import MemoryTransport
from tests.gateways.edges import Edge
from tests.support import Recorder

TestAdvisedSwitching = gatewayPolicyTests(lambda: AdvisedPolicy(SwitchingPolicy()))
TestAdvisedOptimistic = gatewayPolicyTests(lambda: AdvisedPolicy(OptimisticPolicy()))


class Times:
    """A policy with advice, and a clock."""

    def __init__(self, policy: SwitchingPolicy | InterestOnlyPolicy) -> None:
        self.now = 100.0
        self.policy = AdvisedPolicy(policy, lambda: self.now)

    def decisions(self, gateway: str = "b", account: str = "A") -> tuple[bool, list[bool]]:
        """
        Whether a cluster that does not announce all interest gets all interest at once, and after
        which numbers of refusals.
        """
        policy = self.policy
        later = [policy.switches(gateway, account, count) for count in (0, 5, 1000)]
        return policy.introduces(gateway, account, False), later


def test_interestOnly() -> None:
    """
    With the advice interest-only, all interest of the account is sent to that cluster at once,
    until the advice expires.
    """
    times = Times(SwitchingPolicy())
    usual = (False, [False, False, True])
    assert times.decisions() == usual
    times.policy.advise(PolicyAdvice("A", "b", "interest-only", 110.0))
    assert times.decisions() == (True, [True, True, True])
    assert times.decisions("c") == times.decisions("b", "B") == usual
    times.now = 110.0
    assert times.decisions() == usual
    assert times.policy.advice() == []


def test_optimistic() -> None:
    """With the advice optimistic, only refusals are sent, for ever or up to a number."""
    times = Times(SwitchingPolicy())
    times.policy.advise(PolicyAdvice("A", "b", "optimistic", 110.0))
    assert times.decisions() == (False, [False, False, False])
    times.policy.advise(PolicyAdvice("A", "b", "optimistic", 110.0, 5))
    assert times.decisions() == (False, [False, True, True])
    times.now = 111.0
    assert times.decisions() == (False, [False, False, True])


def test_promises() -> None:
    """A policy that has promised to announce all interest does so, whatever the advice."""
    times = Times(InterestOnlyPolicy())
    times.policy.advise(PolicyAdvice("A", "b", "optimistic", 110.0))
    assert times.policy.tellsAll
    assert times.decisions()[0]
    other = Times(SwitchingPolicy())
    other.policy.advise(PolicyAdvice("A", "b", "optimistic", 110.0))
    assert other.policy.introduces("b", "A", True)


def test_withdrawn() -> None:
    """Advice that is withdrawn or has expired has no effect."""
    times = Times(SwitchingPolicy())
    times.policy.advise(PolicyAdvice("A", "b", "interest-only", 110.0))
    assert times.policy.withdraw("b", "A")
    assert not times.policy.withdraw("b", "A")
    assert not times.decisions()[0]
    times.policy.advise(PolicyAdvice("A", "b", "interest-only", 110.0))
    times.now = 111.0
    assert not times.policy.withdraw("b", "A")


def test_bounded() -> None:
    """The number of advices is limited. Expired advice makes room, and a replacement needs none."""
    times = Times(SwitchingPolicy())
    for number in range(MOST):
        times.policy.advise(PolicyAdvice(f"A{number}", "b", "optimistic", 110.0))
    with pytest.raises(ValueError, match="advice about 1000 others"):
        times.policy.advise(PolicyAdvice("more", "b", "optimistic", 120.0))
    times.policy.advise(PolicyAdvice("A7", "b", "interest-only", 120.0))
    with pytest.raises(ValueError, match="until is in the past"):
        times.policy.advise(PolicyAdvice("A8", "b", "interest-only", 100.0))
    times.now = 115.0
    times.policy.advise(PolicyAdvice("more", "b", "optimistic", 120.0))
    assert [advice.account for advice in times.policy.advice()] == ["A7", "more"]


CLIENT = b'CONNECT {"verbose":false,"user":"s","pass":"s"}\r\n'

SYSTEM = (
    "accounts { A { users: [{user: a, password: a}] }, S { users: [{user: s, password: s}] } }\n"
    "system_account: S\n"
    'services { traffic { interval: "1s" } }'
)


class Desk:
    """
    A broker with one subscription, another cluster that sends messages, and a client that gives
    advice.
    """

    def __init__(self) -> None:
        self.host = Edge("interest { plugin: switching }", more=SYSTEM).start()
        self.recorder = Recorder()
        self.host.broker.bus("A").subscribe(b"wanted.>", self.recorder)
        self.peer: MemoryTransport = self.host.peer(gateway_iom=False)
        self.client = self.host.client(CLIENT)
        self.client.ask(b"SUB _INBOX.1 1\r\n")
        self.heard()

    def heard(self) -> bytes:
        """The lines sent to the other cluster since the last call."""
        self.host.settle()
        return self.peer.take()

    def sends(self, subject: bytes) -> bytes:
        """Send a message as the other cluster, and return the lines that answer it."""
        self.peer.send(b"RMSG A %b 2\r\nhi\r\n" % subject)
        return self.heard()

    def ask(self, verb: bytes, **fields: Any) -> dict[str, Any]:
        """Send a request to the broker."""
        payload = json.dumps(fields).encode() if fields else b""
        text = b"PUB $NB.API.GATEWAY.%b.A _INBOX.1 %d\r\n%b\r\n" % (verb, len(payload), payload)
        document: dict[str, Any] = json.loads(self.client.ask(text).split(b"\r\n")[1])
        return document

    def advise(self, mode: str, seconds: float, **more: Any) -> dict[str, Any]:
        """Give advice for the account and the other cluster."""
        until = f"1970-01-01T00:00:{int(self.host.reactor.seconds() + seconds):02d}Z"
        return self.ask(b"ADVISE", account="A", gateway="B", mode=mode, until=until, **more)

    def page(self) -> dict[str, Any]:
        """The monitoring row of the account and the other cluster."""
        answer: Any = self.host.broker.monitoring.answer("/gatewayz", {"acc_name": "A"})
        steps = answer.body
        text = steps if isinstance(steps, bytes) else b"".join(steps)
        (row,) = json.loads(text)["inbound_gateways"]["B"][0]["accounts"]
        return dict(row)


def test_interestOnlyByRequest() -> None:
    """
    With the advice interest-only, an existing connection gets all interest at once and shows that
    mode, and wanted messages still arrive.
    """
    desk = Desk()
    assert desk.sends(b"vain.1") == b"RS- A vain.1\r\n"
    assert "advice" not in desk.page()
    assert desk.advise("interest-only", 30)["advice"]["mode"] == "interest-only"
    told = desk.heard()
    assert b'"gateway_cmd":2' in told and b'"gateway_cmd":3' in told
    assert b"RS+ A wanted.>\r\n" in told
    row = desk.page()
    assert (row["interest_mode"], row["advice"]["mode"]) == ("Interest-Only", "interest-only")
    assert desk.sends(b"wanted.1") == desk.sends(b"vain.2") == b""
    assert [message.subject for message, _ in desk.recorder.got] == [b"wanted.1"]
    desk.host.advance(31)
    assert "advice" not in desk.page()


def test_otherAccounts() -> None:
    """With the advice interest-only, only interest in the advised account is sent."""
    desk = Desk()
    desk.advise("interest-only", 30)
    told = desk.heard()
    assert b'"gateway_cmd_payload":"QQ=="' in told
    assert b'"gateway_cmd_payload":"Uw=="' not in told


def test_newConnections() -> None:
    """Advice applies to later connections too, until it expires."""
    desk = Desk()
    desk.advise("interest-only", 20)
    desk.peer.hangUp()
    desk.host.settle()
    desk.peer = desk.host.peer(gateway_iom=False)
    assert desk.page()["interest_mode"] == "Interest-Only"
    desk.host.advance(21)
    desk.peer.hangUp()
    desk.host.settle()
    desk.peer = desk.host.peer(gateway_iom=False)
    assert desk.page()["interest_mode"] == "Optimistic"


def test_optimisticByRequest() -> None:
    """
    With the advice optimistic, refusals are sent up to the given number, and then all interest.
    """
    desk = Desk()
    desk.advise("optimistic", 30, max_no_interest=2)
    told = [desk.sends(b"vain.%d" % number) for number in range(3)]
    assert told[:2] == [b"RS- A vain.0\r\n", b"RS- A vain.1\r\n"]
    assert b"gateway_cmd" in told[2]


def test_withdrawnByRequest() -> None:
    """Withdrawn advice is not shown any more."""
    desk = Desk()
    desk.advise("optimistic", 30)
    assert len(desk.ask(b"ADVICE")["advice"]) == 1
    assert "withdrawn" in desk.ask(b"WITHDRAW", account="A", gateway="B")
    assert desk.ask(b"ADVICE")["advice"] == []
    assert desk.ask(b"ADVISE", account="A", gateway="A", mode="optimistic", until="")["error"]


def test_stopped() -> None:
    """A broker that has stopped answers no requests for advice."""
    desk = Desk()
    bus = desk.host.broker.bus("S")
    assert bus.hasInterest(b"$NB.API.GATEWAY.ADVICE.A")
    desk.host.broker.stopService()
    desk.host.advance(1)
    assert not bus.hasInterest(b"$NB.API.GATEWAY.ADVICE.A")
