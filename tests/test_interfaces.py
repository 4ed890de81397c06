"""
Our own classes provide the interfaces that they declare.
"""

from __future__ import annotations

import pydoc
from typing import Any

import pytest
from zope.interface.interface import InterfaceClass
from zope.interface.verify import verifyObject

from natsbroker import interfaces
from natsbroker.accounts.registry import BuiltInRouter
from natsbroker.auth.authenticator import Authenticator
from natsbroker.config.model import Settings
from natsbroker.testing.memory import MemoryBroker
from tests.support import (
    BatchRecorder,
    LinkRecorder,
    Recorder,
    RunRecorder,
    WatchRecorder,
    World,
)


def providers() -> list[Any]:
    """
    @return: interfaces, each with an object of ours that provides it.
    """
    broker = MemoryBroker(Settings())
    wire = World().client()
    wire.ask(b"SUB foo 1\r\n")
    pairs: list[tuple[InterfaceClass, Any]] = [
        (interfaces.IAuthorizer, Authenticator()),
        (interfaces.IAuthorizer, broker.broker.clientContext.authorizer),
        (interfaces.IBrokerHost, broker.broker),
        (interfaces.IMessageBus, broker.bus()),
        (interfaces.ISubjectRouter, BuiltInRouter(10)),
        (interfaces.ISubscriber, wire.session),
        (interfaces.IOutboxSubscriber, wire.session),
        (interfaces.ISubscriber, Recorder()),
        (interfaces.IBatchSubscriber, BatchRecorder()),
        (interfaces.IRunSubscriber, RunRecorder()),
        (interfaces.ILinkSubscriber, LinkRecorder()),
        (interfaces.IInterestWatcher, WatchRecorder()),
    ]
    return [
        pytest.param(*pair, id=f"{pair[0].__name__}-{type(pair[1]).__name__}") for pair in pairs
    ]


@pytest.mark.parametrize(("interface", "provider"), providers())
def test_provides(interface: InterfaceClass, provider: Any) -> None:
    """The object declares the interface and has all its members."""
    assert verifyObject(interface, provider)


def test_extensions() -> None:
    """An interface that has more methods for the same purpose extends the smaller one."""
    assert interfaces.IBatchSubscriber.extends(interfaces.ISubscriber)
    assert interfaces.IRunSubscriber.extends(interfaces.ISubscriber)
    assert interfaces.IOutboxSubscriber.extends(interfaces.ISubscriber)
    assert not interfaces.ILinkSubscriber.extends(interfaces.ISubscriber)


def test_help() -> None:
    """C{help(natsbroker.interfaces)} shows every interface with its methods and attributes."""
    text = pydoc.plain(pydoc.render_doc(interfaces))
    exported = [getattr(interfaces, name) for name in interfaces.__all__]
    contracts = [value for value in exported if isinstance(value, InterfaceClass)]
    assert len(contracts) > 30
    for contract in contracts:
        for member in contract.names():
            assert f" {member}" in text, (contract.__name__, member)
