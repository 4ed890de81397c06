"""
Makes C{twistd natsbroker} known to Twisted.

C{twistd} imports this file at every start, whatever it is asked to run, so it names
L{natsbroker.tap} and must never import it nor anything else of the package.
"""

from twisted.application.service import ServiceMaker

natsbroker = ServiceMaker(
    "natsbroker",
    "natsbroker.tap",
    "A message broker for NATS clients.",
    "natsbroker",
)
