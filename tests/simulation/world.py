"""Three brokers in a cluster, their clients, the network between them, and its faults."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from random import Random
from typing import NamedTuple

from natsbroker.broker import Broker
from natsbroker.config.model import Settings
from natsbroker.server.configuration.build import buildText
from natsbroker.server.identity import ServerKeys
from natsbroker.testing.simulation.clock import SimulatedClock
from natsbroker.testing.simulation.connection import Wire
from natsbroker.testing.simulation.network import Host, Network
from tests.simulation.people import Person

__all__ = ["BROKERS", "CLASSIC_CHOICES", "World"]

#: The numbers of the brokers.
BROKERS = (1, 2, 3)

CLIENTS, ROUTES = 4222, 6222

#: How long it takes until all is well again, in seconds: until a silent peer is given up, an
#: attempt to dial has ended, and the next one is made.
RECOVERY = 12.0


class Choice(NamedTuple):
    """
    A choice of a cluster's settings.

    @ivar blocks: what each broker's C{cluster} block says.
    @ivar account: which account everybody is in: classic routes carry the global one alone.
    @ivar copies: how often a message may be sent from one broker to another: on a classic route
        once for all who are subscribed without a group, and once for each queue group.
    """

    blocks: tuple[str, str, str]
    account: str = "A"
    copies: int = 1


#: The set-ups in which the classic dialect is spoken.
CLASSIC_CHOICES = (
    Choice(("dialect: classic",) * 3, "$G", 3),
    Choice(("dialect: auto", "dialect: classic", "dialect: auto"), "$G", 3),
    Choice(("dialect: classic", "dialect: auto, pool_size: -1", "dialect: auto"), "$G", 3),
)

#: All set-ups.
CHOICES = (
    Choice(("pool_size: -1",) * 3),
    Choice(("pool_size: 3",) * 3),
    Choice(("pool_size: 2, accounts: [A]",) * 3),
    Choice(("dialect: auto",) * 3),
    *CLASSIC_CHOICES,
)

ACCOUNTS = """
accounts { A { users: [ { user: a, password: a } ] } }
no_auth_user: a
"""

CONFIG = """
server_name: n%(number)d
listen: "10.0.0.%(number)d:4222"
fast_lane: false
ping_interval: "1s", ping_max: 2
%(accounts)s
cluster {
    name: C, listen: "10.0.0.%(number)d:6222", ping_interval: "1s", connect_retries: 1000
    %(block)s
    authorization { user: r, password: r, timeout: 2 }
    routes: [%(routes)s]
}
"""

_TOKEN = re.compile(rb"<(\d+):(\d+)>")


def address(number: int) -> str:
    """The address of a broker."""
    return f"10.0.0.{number}"


@cache
def settingsFor(number: int, choice: Choice, isMeshed: bool) -> Settings:
    """
    The settings of one broker.

    @param isMeshed: whether everybody knows everybody; if not, all know the first.
    """
    known = [broker for broker in BROKERS if broker != number and (isMeshed or broker == 1)]
    routes = ", ".join(f'"nats-route://r:r@{address(broker)}:6222"' for broker in known)
    text = CONFIG % {
        "number": number,
        "accounts": ACCOUNTS if choice.account == "A" else "",
        "block": choice.blocks[number - 1],
        "routes": routes,
    }
    return buildText(text, {}).settings


class World:
    """
    @cvar numbers: those of all brokers, whether they run or not.
    @ivar brokers: those that run, by number.
    @ivar people: everybody there has ever been, by number.
    @ivar troubles: when brokers could not hear each other: begin, end, and the two of them.
    @ivar sent: how often a message was sent, by message, sender and receiver.
    """

    numbers: tuple[int, ...] = BROKERS

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.clock = SimulatedClock()
        self.network = Network(self.clock, self.random)
        self.network.latency = self.random.choice([0.0001, 0.005, 0.05])
        self.network.largest = self.random.choice([1 << 16, 1000, 50])
        self._choose()
        self.brokers: dict[int, Broker] = {}
        self.people: dict[int, Person] = {}
        self.troubles: list[tuple[float, float | None, frozenset[int]]] = []
        self.sent: Counter[tuple[tuple[int, int], str, str]] = Counter()
        self.network.watch = self._watch
        self._hosts: dict[int, Host] = {}
        for number in self.numbers:
            self.start(number)

    def _choose(self) -> None:
        """Choose the settings of the cluster."""
        self.choice = self.random.choice(CHOICES)
        self.isMeshed = self.random.random() < 0.5

    @property
    def account(self) -> str:
        """The account of all clients."""
        return self.choice.account

    @property
    def copies(self) -> int:
        """The number of times that a message may be sent from one broker to another."""
        return self.choice.copies

    def neighbours(self, number: int) -> tuple[int, ...]:
        """The numbers of the other members of a broker's cluster."""
        return tuple(peer for peer in self.numbers if peer != number)

    def settingsOf(self, number: int) -> Settings:
        """The settings of a broker."""
        return settingsFor(number, self.choice, self.isMeshed)

    @property
    def settle(self) -> float:
        """The longest time until all brokers know of a change."""
        return 0.2 + 40 * self.network.latency

    def _watch(self, wire: Wire, data: bytes) -> None:
        if wire.target.getHost().port == ROUTES or wire.source.getHost().port == ROUTES:
            self._count(wire, data)

    def _count(self, wire: Wire, data: bytes) -> None:
        hosts = wire.source.host.address, wire.target.host.address
        for token in _TOKEN.findall(data):
            self.sent[(int(token[0]), int(token[1])), hosts[0], hosts[1]] += 1

    @property
    def trace(self) -> str:
        """A digest of what happened, which tells runs apart."""
        return self.network.trace

    def advance(self, amount: float) -> None:
        """Let time pass."""
        self.clock.advance(amount)

    def drop(self, person: Person) -> None:
        """Reset the connection of a client."""
        self.network.reset(person.host.address)

    def restore(self) -> None:
        """Undo what was done to the process around. That is nothing here."""

    def close(self) -> None:
        """Stop everybody in good order."""
        for number in list(self.brokers):
            self.stop(number)

    # Brokers.

    def start(self, number: int) -> None:
        """Start a broker that does not run."""
        if number in self.brokers:
            return
        host = self._hosts[number] = self.network.host(address(number))
        broker = Broker(
            self.settingsOf(number),
            reactor=host,
            random=Random(self.random.random()),
            keys=ServerKeys(self.random.randbytes),
        )
        self.brokers[number] = broker
        broker.startService()

    def kill(self, number: int) -> None:
        """Stop a broker without an orderly end."""
        if self.brokers.pop(number, None) is not None:
            self._hosts[number].die()
            self._troubled(number)

    def stop(self, number: int) -> None:
        """Let a broker stop in good order."""
        broker = self.brokers.pop(number, None)
        if broker is not None:
            self._troubled(number)
            host = self._hosts[number]
            broker.stopService().addBoth(lambda _: host.die())
            self.advance(1.0)
            if host.isAlive:
                raise AssertionError(f"broker {number} does not stop")

    def _troubled(self, number: int) -> None:
        for other in self.numbers:
            if other != number:
                self.begin(number, other)

    # Trouble.

    def begin(self, one: int, other: int) -> None:
        """Note that two brokers cannot reach each other from now on."""
        self.troubles.append((self.clock.seconds(), None, frozenset((one, other))))

    def hold(self, one: int, other: int, bothWays: bool) -> None:
        """Hold all data from one broker to another, or both ways."""
        self.begin(one, other)
        self.network.hold(address(one), address(other))
        if bothWays:
            self.network.hold(address(other), address(one))

    def cut(self, one: int, other: int) -> None:
        """Reset the connections between two brokers."""
        self.begin(one, other)
        self.network.reset(address(one), address(other))

    def slit(self) -> None:
        """Do nothing: only super-clusters have modes to switch."""

    def hang(self, number: int) -> None:
        """Have a broker do nothing for a while. None here does."""

    def resume(self) -> None:
        """Have brokers go on that did nothing."""

    def upgrade(self) -> None:
        """Start one worker after another again. There is none here."""

    def heal(self) -> None:
        """End all faults, and wait until everything works again."""
        self.network.heal()
        for number in self.numbers:
            self.start(number)
        self.advance(RECOVERY)
        now = self.clock.seconds()
        self.troubles = [(since, until or now, pair) for since, until, pair in self.troubles]

    def isApart(self, one: int, other: int, since: float, until: float) -> bool:
        """Whether a fault may have separated clients of two brokers at some time."""
        return one != other and self.wasTroubled(one, other, since, until)

    def mayOvertake(self, one: int, other: int, since: float, until: float) -> bool:
        """
        Whether messages between two brokers may have taken different paths: never in a single
        cluster.
        """
        return False

    def handOvers(self, key: tuple[int, int], broker: int) -> int:
        """
        The number of times that brokers other than the publisher's sent a message to a broker, as
        when a queue group has lost its last member.
        """
        home = address(self.people[key[0]].broker)
        return sum(
            self.sent[key, address(number), address(broker)]
            for number in self.numbers
            if address(number) != home
        )

    def wasTroubled(self, one: int, other: int, since: float, until: float) -> bool:
        """Whether two brokers could not reach each other at some time."""
        pair = frozenset((one, other))
        return any(
            pair == trouble and begin <= until and (end is None or end >= since)
            for begin, end, trouble in self.troubles
        )

    # People.

    def welcome(self, broker: int) -> None:
        """Add a client."""
        number = len(self.people) + 1
        host = self.network.host(f"10.1.{number >> 8}.{number & 255}")
        person = self.people[number] = Person(number, broker, host)
        person.dial(address(broker), CLIENTS)

    def here(self) -> list[Person]:
        """The connected clients."""
        return [person for person in self.people.values() if person.isHere]
