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

_SYSTEM = "$SYS answers and pages of several workers are tried in workers/"

_PARENT = "it kills or stops one process, and several are the server"

NOT_APPLICABLE: dict[str, str] = {
    "browser/": _REFUSED + "websocket",
    "cluster/": _REFUSED + "cluster",
    "gateways/": _REFUSED + "gateway",
    "leafnodes/": _REFUSED + "leafnodes",
    "websocket/": _REFUSED + "websocket",
    "workers/": "it starts several workers by itself",
    "auth/test_shared_folders.py": _REFUSED + "cluster",
    "auth/test_pluggable.py": _REFUSED + "authorization.plugin",
    "auth/test_connz.py": "rows of /connz say which worker a connection is on",
    "auth/test_operator_resolvers.py": _SYSTEM,
    "jetstream/test_deadpulls.py::test_members": _REFUSED + "cluster",
    "jetstream/test_deadpulls.py::test_clusters": _REFUSED + "gateway",
    "jetstream/test_deadpulls.py::test_leafnodes": _REFUSED + "leafnodes",
    "jetstream/test_domains.py::test_mirrorAcrossDomains": _REFUSED + "leafnodes",
    "jetstream/test_sources.py::test_behindLeafnode": _REFUSED + "leafnodes",
    "jetstream/test_sources.py::test_full": _REFUSED + "leafnodes",
    "jetstream/test_sources.py::test_namedConsumer": _REFUSED + "leafnodes",
    "jetstream/test_jsz.py": _SYSTEM,
    "jetstream/test_killed.py": _PARENT + "; workers/ has kills of workers",
    "jetstream/test_databaserestarts.py": _PARENT,
    "jetstream/test_takeover.py": _REFUSED + "cluster",
    "jetstream/test_postgres.py::test_readersBesideWriters": _PARENT,
    "jetstream/test_operator.py::test_operator[_changes]": "limits hold for each worker",
    "jetstream/test_operator.py::test_serverLimits": "max_mem and max_file hold for each worker",
    "stan/test_cluster.py": _REFUSED + "cluster",
    "stan/test_otherserver.py": _REFUSED + "streaming beside another server",
    "stan/test_restarts.py": _REFUSED + "streaming.jetstream_accounts",
    "stan/test_takeover.py": _PARENT,
    "test_rows_natsbroker.py::test_row[ours-fast-39-": _DENIED,
    "test_rows_natsbroker.py::test_row[ours-pure-39-": _DENIED,
    "test_accounts.py::test_sameBytes[ours-fast-lane-latency": _LATENCY,
    "test_accounts.py::test_sameBytes[ours-fast-readable-latency": _LATENCY,
    "test_accounts.py::test_sameBytes[ours-pure-lane-latency": _LATENCY,
    "test_accounts.py::test_sameBytes[ours-pure-readable-latency": _LATENCY,
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
