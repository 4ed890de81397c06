"""
The console script: nats-server's command line around a broker.
"""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import replace
from typing import Any

from twisted.logger import globalLogBeginner

from natsbroker.broker import Broker
from natsbroker.config.model import Settings
from natsbroker.hosting.logs import LineLog


def run(argv: Any = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-a", default="0.0.0.0")
    parser.add_argument("-p", type=int, default=4222)
    parser.add_argument("-D", action="store_true")
    parser.add_argument("-c")
    options = parser.parse_args(argv)
    settings = Settings()
    if options.c:
        import os

        from natsbroker.config.build import buildFile

        settings = buildFile(options.c, os.environ).settings
    settings = replace(settings, host=options.a, port=options.p)
    from twisted.internet import reactor as _r

    reactor: Any = _r
    globalLogBeginner.beginLoggingTo(
        [LineLog(sys.stderr.write, replace(settings.logging, debug=options.D))],
        redirectStandardIO=False,
    )
    broker = Broker(settings, reactor=reactor)
    broker.startService()

    def stop(*_: Any) -> None:
        reactor.callFromThread(lambda: broker.stopService().addBoth(lambda _: reactor.stop()))

    reactor.callWhenRunning(lambda: [signal.signal(s, stop) for s in (2, 15)])
    reactor.run(installSignalHandlers=True)
