"""
The old names of public modules that have moved; each works for one more release.
"""

from __future__ import annotations

import sys
from typing import Any

MOVED = {
    "natsbroker.client.conversation": "natsbroker.client.protocol",
    "natsbroker.client.pipe": "natsbroker.client.transports",
    "natsbroker.client.transportend": "natsbroker.client.transports",
    "natsbroker.config.gateway": "natsbroker.gateways.settings",
    "natsbroker.config.leafnodes": "natsbroker.leafnodes.settings",
    "natsbroker.config.streaming": "natsbroker.streaming.settings",
    "natsbroker.peernames": "natsbroker.connections.peernames",
    "natsbroker.requests": "natsbroker.accounts.requests",
    "natsbroker.spark.jobs.archivejob": "natsbroker.spark.jobs.archive.job",
    "natsbroker.spark.jobs.decodejob": "natsbroker.spark.jobs.decode.job",
    "natsbroker.spark.jobs.interestjob": "natsbroker.spark.jobs.traffic.interestjob",
    "natsbroker.spark.jobs.replayjob": "natsbroker.spark.jobs.replay.job",
    "natsbroker.spark.jobs.replaysources": "natsbroker.spark.jobs.replay.sources",
    "natsbroker.spark.jobs.tiering": "natsbroker.spark.jobs.archive.tiering",
    "natsbroker.spark.jobs.trafficjob": "natsbroker.spark.jobs.traffic.job",
    "natsbroker.spark.jobs.verifyjob": "natsbroker.spark.jobs.archive.verify",
    "natsbroker.spark.source": "natsbroker.spark.datasource.source",
    "natsbroker.stan": "natsbroker.streaming",
    "natsbroker.store": "natsbroker.storage",
    "natsbroker.testing.gatewaycontracts": "natsbroker.testing.contracts.gateways",
    "natsbroker.testing.leasecontracts": "natsbroker.testing.contracts.leases",
    "natsbroker.testing.storecontracts": "natsbroker.testing.contracts.stores",
}
"""New names by old names. A package stands for its modules too."""


class MovedFinder:
    """
    Imports a module under its old name as the same module object, with a C{DeprecationWarning}.
    It comes first in C{sys.meta_path}: other finders would load the modules of a package that has
    moved a second time.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """
        @return: a spec if the module, or a package that it is in, has moved.
        """
        new = newName(name)
        if new is None:
            return None
        from importlib.machinery import ModuleSpec

        # importlib.abc.Loader would satisfy mypy, and take longer to import than this module.
        loader: Any = self
        return ModuleSpec(name, loader, loader_state=new)

    def create_module(self, spec: Any) -> Any:
        """
        Import the module under its new name.
        """
        import warnings
        from importlib import import_module

        module = import_module(spec.loader_state)
        warnings.warn(f"{spec.name} is now {spec.loader_state}", DeprecationWarning, stacklevel=2)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: Any) -> None:
        """
        Restore the module's own spec, which the import system has just replaced.
        """
        module.__spec__ = self._spec


def newName(name: str) -> str | None:
    """
    @return: the name under which a module is now; C{None} if it has not moved.
    """
    if not name.startswith("natsbroker."):
        return None
    for old, new in MOVED.items():
        if name == old or name.startswith(old + "."):
            return new + name[len(old) :]
    return None


def install() -> None:
    """
    Add the finder, once in a process.
    """
    if not any(type(each).__name__ == MovedFinder.__name__ for each in sys.meta_path):
        sys.meta_path.insert(0, MovedFinder())
