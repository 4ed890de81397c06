"""
Configurations and scenarios for NATS Streaming clients.
"""

from __future__ import annotations

from tests.interop.stan.programs import Line

STORES = {"memory": "store: memory", "lmdb": 'store: file, dir: "$DIR/channels"'}


CONFIG = """
streaming {
    %s
    store_limits {
        max_channels: 60
        channels {
            "limits.few.*"   { max_msgs: 3 }
            "limits.small.*" { max_bytes: 3500 }
            "limits.one.*"   { max_subs: 1 }
            "limits.short.*" { max_age: "1s" }
            "idle.>"         { max_inactivity: "3s" }
        }
    }
}
"""


THREE: list[Line] = [[1, "1", 0], [2, "2", 0], [3, "3", 0]]  # type: ignore[list-item]


#: Scenario and what it prints, whatever the client and the store.
TOGETHER: dict[str, list[Line]] = {
    "publish": [{"acks": 500, "errors": []}, {"inOrder": True}],
    "starts": [
        {"start": "all", "got": [1, 2, 3, 4, 5, 6]},
        {"start": "first", "got": [1, 2, 3, 4, 5, 6]},
        {"start": "sequence", "got": [2, 3, 4, 5, 6]},
        {"start": "last", "got": [5, 6]},
        {"start": "time", "got": [4, 5, 6]},
        {"start": "new", "got": [6]},
    ],
    "durable": [
        {"got": THREE},
        {"twice": "stan: duplicate durable registration"},
        {"resumed": [[3, "3", 1], [4, "4", 0]]},
        {"fresh": [*THREE, [4, "4", 0]]},
    ],
    "queue": [{"eachOnce": True, "shared": True}],
    "queueLeave": [{"all": [1, 2, 3, 4]}, {"inherited": True, "again": [1, 1]}],
    "durableQueue": [
        {"got": THREE[:2]},
        {"resumed": [[2, "2", 1], [3, "3", 0]]},
        {"fresh": THREE},
    ],
    "redelivery": [
        {
            "got": [
                [1, "1", 0], [2, "2", 0], [1, "1", 1], [2, "2", 1], [1, "1", 2], [2, "2", 2],
            ]
        },
        {"then": [3]},
    ],
    "inFlight": [
        {"got": [*THREE, [4, "4", 0]], "quiet": True},
        {"then": [[5, "5", 0], [6, "6", 0]], "quiet": True},
    ],
    "refused": [
        {"duplicate": "stan: clientID already registered"},
        {
            "clientID": "stan: invalid clientID: only alphanumeric and `-` or `_` "
            "characters allowed"
        },
        {"publish": "stan: invalid publish request"},
        {"subscribe": "stan: invalid subject"},
        {"start": "stan: invalid ack wait time, should be >= 1s"},
        {"inFlight": "stan: invalid MaxInflight, should be >= 1"},
        {"close": "stan: invalid subscription"},
        {"gone": "stan: unknown clientID"},
    ],
    "replaced": [
        {"publish": "stan: invalid publish request"},
        {"lost": "client has been replaced or is no longer registered"},
    ],
    "limits": [
        {"few": [3, 4, 5]},
        {"small": ["c", "d", "e"]},
        {"one": "too many subscriptions per channel"},
        {"short": "gone"},
    ],
    "idle": [{"got": THREE[:2]}],
}  # fmt: skip
