"""
Requests of the NATS Streaming protocol as the frames that carry them.
"""

from __future__ import annotations

from tests.conformance.streamingwire import Value

DISCOVER, PINGS = "_STAN.discover.test-cluster", "_STAN.discover.test-cluster.pings"


PUBLISH, SUBSCRIBE = "_STAN.pub.test-cluster", "_STAN.sub.test-cluster"


UNSUBSCRIBE, SUB_CLOSE = "_STAN.unsub.test-cluster", "_STAN.subclose.test-cluster"


CLOSE = "_STAN.close.test-cluster"


CONFIG = 'streaming {}; ping_interval: "24h"'


Request = dict[int, Value | str]


#: ConnectRequest: client id, heartbeat inbox, protocol, connection id.
ME: Request = {1: "me", 2: "me.beats", 3: 1, 4: b"connection"}


#: SubscriptionRequest: client id, subject, inbox, maxInFlight, ackWaitInSecs, startPosition First.
FOO: Request = {1: "me", 2: "foo", 4: "me.foo", 5: 10, 6: 30, 10: 4}
