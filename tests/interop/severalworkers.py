"""
The tests that say nothing about a server of several workers.

With C{NATSBROKER_WORKERS=2} in the environment, all tests here start ours as two workers, but for
those in this list.
"""

from __future__ import annotations

from tests.interop.servers import WORKERS

__all__ = ["reasonAgainst"]

_REFUSED = "a server of several workers does not start with it: "

_DENIED = (
    "a member of a queue group at another worker that may not have a message is chosen as well, as"
    " between members of a cluster"
)

_LATENCY = "a responder at another worker is shown as one at another member of a cluster"

_PROCESS = "it kills, stops or measures one process, and several are the server"

_MEMBERS = "each worker is a member of the cluster, with a name, a port and routes of its own"

_TRACE = "a trace has a report of each worker that the message reaches, with a hop in between"

_LATER = "other workers learn a moment later that a client has subscribed or left"

_PLUGIN = "each worker asks the service, or looks at the file, and keeps the answer for itself"

NOT_APPLICABLE: dict[str, str] = {
    "workers/": "it starts several workers by itself",
    "auth/test_pluggable.py::TestHTTPS::test_login": _PLUGIN,
    "auth/test_pluggable.py::TestHtpasswd::test_login": _PLUGIN,
    "browser/test_livepage.py::test_overview": _MEMBERS + ", which are counted",
    "browser/test_livepage.py::test_links": _MEMBERS + ", which are counted",
    "cluster/test_classic.py": _REFUSED + "cluster.dialect",
    "cluster/test_links.py": _MEMBERS + "; workers find each other around a link that is cut",
    "cluster/test_mixed.py::test_restart": _MEMBERS + "; the next port may be taken by another",
    "cluster/test_mixed.py::test_quietLogs": "it looks at the logs of test_restart",
    "cluster/test_monitoring.py::test_sameValues": _MEMBERS + ", which are counted",
    "cluster/test_monitoring.py::test_varz": _MEMBERS + ", which are counted",
    "cluster/test_refusals.py::test_same[same name]": _MEMBERS,
    "cluster/test_settings.py::test_dedicated": _MEMBERS + ", which are counted",
    "cluster/test_settings.py::test_sameName": _MEMBERS,
    "gateways/test_modes.py::TestSending": (
        "each worker dials the other cluster, and the test plays one end of one connection"
    ),
    "gateways/test_settings.py::test_rejectedPeerGetsNatsServersError[ours": _MEMBERS,
    "jetstream/test_killed.py": _PROCESS + "; workers/ has kills of workers",
    "jetstream/test_databaserestarts.py": _PROCESS,
    "jetstream/test_takeover.py": _PROCESS,
    "jetstream/test_postgres.py::test_readersBesideWriters": _PROCESS,
    "mqtt/test_websockets.py::test_takenOver": (
        "a client at another worker does not take the place of one with its identifier"
    ),
    "stan/test_otherserver.py": _REFUSED + "streaming beside another server",
    "stan/test_restarts.py": _REFUSED + "streaming.jetstream_accounts",
    "stan/test_takeover.py": _PROCESS,
    "test_rows_natsbroker.py::test_row[ours-fast-39-": _DENIED,
    "test_rows_natsbroker.py::test_row[ours-pure-39-": _DENIED,
    "test_rows_natsbroker.py::test_row[ours-fast-52-split-at-every-byte": _LATER,
    "test_rows_natsbroker.py::test_row[ours-pure-52-split-at-every-byte": _LATER,
    "test_rows_natsbroker.py::test_row[ours-fast-60-an-event-has-two-blanks": _LATER,
    "test_rows_natsbroker.py::test_row[ours-pure-60-an-event-has-two-blanks": _LATER,
    "test_accounts.py::test_sameBytes[ours-fast-lane-latency": _LATENCY,
    "test_accounts.py::test_sameBytes[ours-fast-readable-latency": _LATENCY,
    "test_accounts.py::test_sameBytes[ours-pure-lane-latency": _LATENCY,
    "test_accounts.py::test_sameBytes[ours-pure-readable-latency": _LATENCY,
    "test_systemaccount.py::test_pages[/connz?state=all]": (
        "a leafnode has a number of its worker, so its place among clients is another one"
    ),
    "test_tracing.py::test_sameTraces[service": _TRACE,
    "test_tracing.py::test_sameTraces[stream": _TRACE,
    "test_tracing.py::test_sameTraces[no room": _TRACE,
    "test_tracing.py::test_links": _TRACE,
    "test_turns.py": _PROCESS,
}
"""Reasons, by the beginning of a test's name in this folder. The first one that fits counts."""


def reasonAgainst(test: str) -> str:
    """
    @param test: the name of a test, from this folder on.
    @return: the reason for which it is not run; empty if it is.
    """
    if not WORKERS:
        return ""
    return next((why for begin, why in NOT_APPLICABLE.items() if test.startswith(begin)), "")
