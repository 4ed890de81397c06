"""
natsbroker: a NATS-compatible broker as a Twisted framework. This module holds the version numbers,
and loads the two names of a first program when they are asked for. It imports nothing by itself, so
that any part of the package can be loaded without the rest.
"""

TYPE_CHECKING = False
"""Type checkers take a variable of this name for true."""

if TYPE_CHECKING:
    from natsbroker.broker import Broker as Broker
    from natsbroker.embedding import serving as serving
else:

    def __getattr__(name):
        if name == "Broker":
            from natsbroker.broker import Broker as value
        elif name == "serving":
            from natsbroker.embedding import serving as value
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return value


__version__ = "0.1.0"

#: The release of nats-server whose behaviour we match, as INFO and C{/varz} show it in C{version}:
#: clients switch features off for less. Our own version stands in a field of its own.
NATS_VERSION = "2.15.1"

#: The level of JetStream's API in that release, as INFO and answers of the API show it: clients
#: refuse what needs a higher one.
API_LEVEL = 5
