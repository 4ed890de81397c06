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
    """The path of modules without the archives of the PySpark that is on it in another form too."""
    found = PathFinder.find_spec("pyspark", [each for each in path if not each.endswith(".zip")])
    if found is None or found.origin is None:
        return list(path)
    archives = Path(found.origin).parent / "python" / "lib"
    return [each for each in path if Path(each).parent != archives]


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
