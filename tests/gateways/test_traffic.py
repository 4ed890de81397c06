"""
Two clusters of one broker each, with connections in both directions.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from natsbroker.gateways.policies import InterestOnlyPolicy, OptimisticPolicy, SwitchingPolicy
from natsbroker.gateways.traffic import GatewayTraffic
from natsbroker.links.gatewayreplies import GatewayDependencies, ReplyNames
from natsbroker.wire.serverinfo import parseDocument
from tests.routes.crossings import Town, Wire
from tests.support import Recorder


class Pair:
    """
    Two clusters, connected to each other.
    """

    def __init__(self, one: Any, other: Any) -> None:
        self.towns = [Town(one), Town(other)]
        for number, name in enumerate(("HERE", "THERE")):
            town, policy = self.towns[number], (one, other)[number]
            town.traffic = GatewayTraffic(
                GatewayDependencies(
                    name,
                    cast(Any, town),
                    policy,
                    ReplyNames(name, f"ID-{name}"),
                    lambda server, account: None,
                    lambda: 1.0,
                )
            )
        self.wires: list[tuple[Wire, Wire]] = []
        for number, name in enumerate(("THERE", "HERE")):
            out = self.towns[number].leaving(
                gateway=name, gateway_iom=(one, other)[1 - number].tellsAll
            )
            into = self.towns[1 - number].arriving(
                gateway=("HERE", "THERE")[number], gateway_iom=(one, other)[number].tellsAll
            )
            self.wires.append((out, into))
        self.settle()

    def settle(self) -> None:
        """Carry all output to the other end."""
        for _ in range(6):
            for out, into in self.wires:
                into.send(out.take())
                said = into.take()
                for line in said.splitlines(True):
                    if line.startswith(b"INFO "):
                        assert out.traffic.commanded(parseDocument(line[5:]))
                    else:
                        out.send(line)


POLICIES = [OptimisticPolicy, InterestOnlyPolicy, SwitchingPolicy]


@pytest.mark.parametrize("one", POLICIES)
@pytest.mark.parametrize("other", POLICIES)
def test_bothWays(one: Any, other: Any) -> None:
    """Subscribers receive messages, and former ones do not, with any two policies."""
    pair = Pair(one(), other())
    for number in (0, 1):
        here, there = pair.towns[number], pair.towns[1 - number]
        for _ in range(2):
            heard, member = Recorder(), Recorder()
            subscriptions = [
                there.bus().subscribe(b"a.*", heard),
                there.bus().subscribe(b"g", member, queue=b"q"),
            ]
            pair.settle()
            for subject in (b"a.1", b"b", b"g", b"a.1"):
                here.publish(subject)
                pair.settle()
            assert (len(heard.got), len(member.got)) == (2, 1)
            for subscription in subscriptions:
                subscription.cancel()
            pair.settle()
            here.publish(b"a.1")
            pair.settle()
            assert len(heard.got) == 2


@pytest.mark.parametrize("policy", POLICIES)
def test_request(policy: Any) -> None:
    """
    A request is answered, although the other cluster does not know the requestor's new
    subscription.
    """
    pair = Pair(policy(), policy())
    here, there = pair.towns
    there.bus().subscribe(b"service", Recorder(lambda m: there.publish(m.reply, body=b"yes")))
    pair.settle()
    for number in range(3):
        inbox, answers = b"_INBOX.%d" % number, Recorder()
        # The other cluster has not heard of the subscription when the request is published.
        here.bus().subscribe(inbox, answers)
        out, into = pair.wires[0]
        here.publish(b"service", inbox)
        into.send(out.take())
        pair.settle()
        assert answers.bodies == [b"yes"]


def test_oldPeer() -> None:
    """A peer that supports only the old reply prefix gets requests with that one."""
    town = Town()
    wire = town.leaving(gateway_nrp=False)
    town.bus().subscribe(b"r", Recorder())
    town.publish(b"a", b"r")
    assert wire.take().startswith(b"RMSG A a $GR.")
