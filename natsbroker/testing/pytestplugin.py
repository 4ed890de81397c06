"""
Fixtures for programs that use NATS; pytest finds them wherever the package is installed. Nothing is
imported before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from natsbroker.testing.memory import MemoryBroker
    from natsbroker.testing.process import BrokerProcess
    from natsbroker.testing.warm import WarmProcess

__all__ = ["memoryBroker", "natsbroker", "natsbrokerFactory", "natsbrokerWarm", "pytest_addoption"]

_START_TIMEOUT = "natsbroker_start_timeout"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        _START_TIMEOUT, "seconds that a natsbroker process may take to be ready", "string"
    )


@pytest.fixture(scope="session")
def natsbrokerWarm() -> Iterator[WarmProcess | None]:
    """The process of this session that forks brokers; C{None} where that does not work."""
    from natsbroker.testing.warm import CAN_FORK, WarmProcess

    if not CAN_FORK:
        yield None
        return
    with WarmProcess() as warm:
        yield warm


@pytest.fixture
def natsbrokerFactory(
    pytestconfig: pytest.Config, natsbrokerWarm: WarmProcess | None
) -> Iterator[Callable[..., BrokerProcess]]:
    """
    Starts brokers, with the arguments of L{natsbroker.testing.process.startBroker}: those of the
    C{natsbroker} command, C{environment} and C{patience}. They end with the test.
    """
    from natsbroker.testing.process import PATIENCE, startBroker

    configured = float(pytestconfig.getini(_START_TIMEOUT) or PATIENCE)
    started: list[BrokerProcess] = []

    def start(*arguments: Any, patience: float = configured, **others: Any) -> BrokerProcess:
        others.setdefault("warm", natsbrokerWarm)
        started.append(startBroker(*arguments, patience=patience, **others))
        return started[-1]

    yield start
    for broker in started:
        broker.stop()


@pytest.fixture
def natsbroker(natsbrokerFactory: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker on embedded defaults; its C{url} is what a client connects to."""
    return natsbrokerFactory()


@pytest.fixture
def memoryBroker() -> Iterator[MemoryBroker]:
    """A broker without sockets, whose clock the test moves."""
    from natsbroker.testing.memory import MemoryBroker

    broker = MemoryBroker()
    yield broker
    broker.stop()
