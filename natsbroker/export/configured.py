"""
Composition of the export service from the settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from natsbroker.export.service import ExportService
from natsbroker.interfaces import IBrokerHost, IMessageBus
from natsbroker.storage.stores import monotonicOf, wallClockOf


def exportServiceFor(
    host: IBrokerHost, bus: IMessageBus, maxPayload: Callable[[], int] | None = None
) -> ExportService:
    """
    @param maxPayload: of the server that C{bus} leads to; by default this broker's.
    """
    reactor = host.reactor
    # What jobs take is counted in the processor's time, so that a busy machine does not slow them.
    worked = time.process_time if reactor.seconds is time.time else monotonicOf(reactor)
    largest = maxPayload or (lambda: int(host.settings.max_payload))
    return ExportService(bus, reactor, worked, wallClockOf(reactor), largest)
