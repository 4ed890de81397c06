"""
The extension modules, and nothing else: all other facts about the package are in setup.cfg.

Every C{natsbroker/_accel/*.pyx} becomes an optional extension module. Without Cython, without a
C compiler, or with C{NATSBROKER_NO_EXTENSIONS=1} in the environment, the package is built without
them; L{natsbroker.hot} then chooses the pure Python names and only speed is lost.

To build them in place, for work in a checkout::

    python setup.py build_ext --inplace
"""

from __future__ import annotations

import os
import sys
from glob import glob

from setuptools import Extension, setup


def extensionModules() -> list[Extension]:
    """
    @return: one optional extension per Cython source; no extension at all when they are switched
        off or Cython is not there.
    @raise Cython.Compiler.Errors.CompileError: a source that Cython refuses is a defect of ours
        and stops the build; only a missing or failing C compiler is forgiven.
    """
    sources = sorted(glob("natsbroker/_accel/*.pyx"))
    if os.environ.get("NATSBROKER_NO_EXTENSIONS") == "1" or not sources:
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        print("natsbroker: no Cython, so no extension modules are built", file=sys.stderr)
        return []
    flags = [] if os.name == "nt" or "-O" in os.environ.get("CFLAGS", "") else ["-O3"]
    modules: list[Extension] = cythonize(
        [
            Extension(
                os.path.splitext(source)[0].replace("/", "."),
                [source],
                extra_compile_args=flags,
            )
            for source in sources
        ],
        language_level=3,
    )
    for module in modules:
        module.optional = True
    return modules


setup(ext_modules=extensionModules())
