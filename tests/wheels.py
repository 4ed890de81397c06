"""
Builds what is uploaded for a release: a source distribution, a pure wheel, and for each platform a
wheel with the compiled lane for the Python that runs this. C{tox run -m wheels} calls it for every
Python of the machine; the folder is an argument::

    python -m tests.wheels dist

The C compiler for the other platforms is Zig's, from PyPI: it has the headers and symbols of each C
library and version. Each extension is compiled with the headers of its Python on this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]

SOURCES = (
    "setup.cfg",
    "setup.py",
    "pyproject.toml",
    "pyspark_natsbroker.py",
    "README.md",
    "LICENSE",
    "MANIFEST.in",
)
"""The files at the top that a build of the package needs."""


@dataclass(frozen=True)
class Platform:
    """
    @ivar tag: the tag in the names of wheels.
    @ivar target: Zig's name of the machine and its C library.
    @ivar suffix: the suffix of extension modules that CPython looks for on that platform.
    """

    tag: str
    target: str
    suffix: str

    @property
    def machine(self) -> str:
        """The number of the machine in an ELF header."""
        return {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}[self.suffix.partition("-")[0]]

    @property
    def isMusl(self) -> bool:
        return self.suffix.endswith("musl")


LIBRARIES = {False: {"libc.so.6", "libpthread.so.0"}, True: {"libc.so"}}
"""The names under which glibc and musl are loaded; musl takes "libc.so" for itself."""

PLATFORMS = (
    Platform("manylinux_2_17_x86_64", "x86_64-linux-gnu.2.17", "x86_64-linux-gnu"),
    Platform("manylinux_2_17_aarch64", "aarch64-linux-gnu.2.17", "aarch64-linux-gnu"),
    Platform("musllinux_1_2_x86_64", "x86_64-linux-musl", "x86_64-linux-musl"),
    Platform("musllinux_1_2_aarch64", "aarch64-linux-musl", "aarch64-linux-musl"),
)

_MACHINE = re.compile(r"^#define (HAVE_GCC_ASM_FOR_\w+|HAVE_BUILTIN_ATOMIC\w*) .*$", re.M)
"""The machine's part of a configured C{pyconfig.h}. Its sizes are those of all 64-bit Linux."""

_PLATFORM_TAG = re.compile(r'following\s+platform\s+tag:\s+"([^"]+)"')


class Unbuilt(Exception):
    """A wheel is not valid."""


def portableHeaders(folder: Path) -> Path:
    """
    @return: a copy of this Python's headers in C{folder}, without facts about this machine.
    @raise Unbuilt: if this is not a 64-bit Linux. Only the headers of such a system fit the other
        platforms.
    """
    paths = sysconfig.get_paths()
    if not sys.platform.startswith("linux") or sysconfig.get_config_var("SIZEOF_VOID_P") != 8:
        raise Unbuilt("wheels for Linux are built on Linux with 64 bits")
    headers = Path(shutil.copytree(paths["include"], folder / "include"))
    # Debian's include/pyconfig.h only chooses the one of the machine.
    config = Path(sysconfig.get_config_h_filename()).read_text("utf-8")
    (headers / "pyconfig.h").write_text(_MACHINE.sub("", config), "utf-8")
    return headers


def variablesOf(platform: Platform, headers: Path) -> dict[str, str]:
    """
    @return: the environment in which setuptools compiles for C{platform}.
    """
    compiler = f"{sys.executable} -m ziglang cc -target {platform.target}"
    abi = f"{sys.implementation.cache_tag}-{platform.suffix}"
    return {
        "CC": f"{compiler} -I{headers} -fno-sanitize=undefined",
        "CFLAGS": "-O3 -g0",
        "LDSHARED": f"{compiler} -shared -Wl,-s",
        "SETUPTOOLS_EXT_SUFFIX": f".{abi}.so",
    }


def build(sources: Path, output: Path, *options: str, **variables: str) -> Path:
    """
    @return: the file that C{python -m build} makes of C{sources}, moved to C{output}.
    """
    with tempfile.TemporaryDirectory() as made:
        command = (sys.executable, "-m", "build", "--no-isolation", "--outdir", made, *options)
        subprocess.run([*command, str(sources)], env={**os.environ, **variables}, check=True)
        (path,) = Path(made).iterdir()
        return Path(shutil.copy(path, output))


def buildCompiled(sources: Path, output: Path, platform: Platform, headers: Path) -> Path:
    """
    @return: the wheel for C{platform}, after a check of its modules.
    """
    shutil.rmtree(sources / "build", ignore_errors=True)
    option = f"--config-setting=--build-option=--plat-name={platform.tag}"
    wheel = build(sources, output, "--wheel", option, **variablesOf(platform, headers))
    checkModules(wheel, len(list((sources / "natsbroker" / "_accel").glob("*.pyx"))), platform)
    checkTag(wheel, platform)
    return wheel


def checkModules(wheel: Path, count: int, platform: Platform) -> None:
    """
    @raise Unbuilt: if C{wheel} does not have C{count} modules that a Python of C{platform} can
        load. Modules are optional in setup.py, so that one that cannot be compiled does not stop a
        build.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(f"-{platform.suffix}.so")]
        for name in names:
            for fault in faultsOf(PurePosixPath(name), archive.read(name), platform):
                raise Unbuilt(f"{wheel.name}: {name} {fault}")
    if len(names) != count:
        raise Unbuilt(f"{wheel.name} has {len(names)} extension modules, not {count}")


def faultsOf(path: PurePosixPath, module: bytes, platform: Platform) -> Iterator[str]:
    """
    @return: the reasons why a Python of C{platform} could not load this module.
    """
    # Of auditwheel; the tests that only want SOURCES do without.
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    elf = ELFFile(BytesIO(module))
    dynamic = elf.get_section_by_name(".dynamic")
    symbols = elf.get_section_by_name(".dynsym")
    assert isinstance(dynamic, DynamicSection) and isinstance(symbols, SymbolTableSection)
    machine = elf.header["e_machine"]
    if machine != platform.machine:
        yield f"is for the machine {machine}, not {platform.machine}"
    tags = dynamic.iter_tags("DT_NEEDED")
    needed = {tag.needed for tag in tags}  # type: ignore[attr-defined]
    if unknown := needed - LIBRARIES[platform.isMusl]:
        yield f"needs {', '.join(sorted(unknown))}"
    if platform.isMusl and elf.get_section_by_name(".gnu.version_r"):
        yield "has symbols with versions, which musl does not have"
    initializer = f"PyInit_{path.name.partition('.')[0]}"
    defined = {
        symbol.name for symbol in symbols.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF"
    }
    if initializer not in defined:
        yield f"has no {initializer}"


def checkTag(wheel: Path, platform: Platform) -> None:
    """
    @raise Unbuilt: if auditwheel finds symbols that C{platform} does not have. It knows only the
        symbols of glibc.
    """
    if platform.isMusl:
        return
    command = (sys.executable, "-m", "auditwheel", "show", str(wheel))
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    tag = _PLATFORM_TAG.search(shown)
    if tag is None or _version(tag[1]) > _version(platform.tag):
        raise Unbuilt(f"{wheel.name} is not of its platform:\n{shown}")


def _version(tag: str) -> tuple[int, ...]:
    numbers = re.match(r"manylinux_(\d+)_(\d+)_", tag)
    return tuple(map(int, numbers.groups())) if numbers else (sys.maxsize,)


def main(output: Path) -> None:
    """
    Fill C{output}. Compiled wheels are built from the source distribution, which shows that it is
    complete.
    """
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive = build(ROOT, output, "--sdist")
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        sources = folder / archive.name.removesuffix(".tar.gz")
        build(sources, output, "--wheel", NATSBROKER_NO_EXTENSIONS="1")
        headers = portableHeaders(folder)
        for platform in PLATFORMS:
            print(buildCompiled(sources, output, platform, headers), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve())
