"""
The program that starts Spark's Python workers on one machine: C{pyspark.daemon} from the installed
package. From Spark's archive each process compiles the sources again, which takes 0.65 of its 0.8
processor seconds.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path


def withoutArchives(path: Sequence[str]) -> list[str]:
    """The path of modules without the archives of a PySpark that is also on it as a directory."""
    spec = PathFinder.find_spec("pyspark", [entry for entry in path if not entry.endswith(".zip")])
    if spec is None or spec.origin is None:
        return list(path)
    archives = Path(spec.origin).parent / "python" / "lib"
    return [entry for entry in path if Path(entry).parent != archives]


@cache
def freezeModules() -> None:
    """
    Leave loaded modules out of garbage collections. PySpark's daemon does one after each task,
    which takes 30 milliseconds for all modules: longer than a small task.
    """
    gc.freeze()


if __name__ == "__main__":
    sys.path[:] = withoutArchives(sys.path)
    from pyspark.daemon import manager

    manager()
