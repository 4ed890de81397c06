"""
Error texts for clients of NATS Streaming: those of nats-streaming-server 0.25.6, because clients
compare them, and then our own.
"""

from __future__ import annotations


class Refused(Exception):
    """A request cannot be granted; the text goes to the client."""


INVALID_CONNECTION_REQUEST = "stan: invalid connection request"
INVALID_CLIENT_ID = "stan: invalid clientID: only alphanumeric and `-` or `_` characters allowed"
ALREADY_REGISTERED = "stan: clientID already registered"
REPLACED = "client has been replaced or is no longer registered"

INVALID_PUBLISH_REQUEST = "stan: invalid publish request"
TOO_MANY_CHANNELS = "too many channels"
BEING_DELETED = "stan: channel is being deleted"
OTHER_CASE = (
    'rejecting channel "{0}" because channel "{1}" alreay exists (different cases not allowed)'
)

INVALID_SUBSCRIPTION_REQUEST = "stan: invalid subscription request"
CLIENT_ID_MISSING = "stan: clientID missing"
INVALID_ACK_WAIT = "stan: invalid ack wait time, should be >= 1s"
INVALID_MAX_IN_FLIGHT = "stan: invalid MaxInflight, should be >= 1"
INVALID_START = "stan: invalid start position"
INVALID_SUBJECT = "stan: invalid subject"
UNKNOWN_CLIENT_ID = "stan: unknown clientID"
INVALID_DURABLE_NAME = (
    "stan: durable name of a durable queue subscriber can't contain the character ':'"
)
DUPLICATE_DURABLE = "stan: duplicate durable registration"
TOO_MANY_SUBSCRIPTIONS = "too many subscriptions per channel"

INVALID_UNSUBSCRIBE_REQUEST = "stan: invalid unsubscribe request"
UNKNOWN_CHANNEL = "stan: unknown channel"
INVALID_SUBSCRIPTION = "stan: invalid subscription"
INVALID_CLOSE_REQUEST = "stan: invalid close request"

# Ours: nats-streaming-server has no permissions and no bound on what waits for its disk.

NOT_AUTHORIZED = "stan: not authorized"
TOO_MUCH_WAITS = "stan: too much waits to be stored, try again later"
INTERNAL = "stan: internal error"
