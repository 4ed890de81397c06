"""
The smallest server: a broker on one port of this machine.

Run it with the port that clients connect to, 4222 by default, and end it with Ctrl-C::

    python examples/smallest.py 4222

Then, in another terminal, with any NATS client::

    nats --server nats://127.0.0.1:4222 sub greet
    nats --server nats://127.0.0.1:4222 pub greet hello

(C{twistd natsbroker} is the same with all the options and a configuration file.)
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from natsbroker import Broker
from natsbroker.config.model import Settings


async def main(reactor: Any, port: str = "4222") -> None:
    """
    Serve until the process ends.

    @param port: for clients; 0 for any that is free.
    """
    broker = Broker(Settings(host="127.0.0.1", port=int(port) or -1), reactor=reactor)
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    print("listening on {}:{}".format(*broker.clientAddress()), flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
