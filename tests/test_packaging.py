"""
The installed package: built once as a wheel and used from outside the checkout.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import natsbroker
from tests.wheels import SOURCES

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """
    Run C{command} outside the checkout, with C{variables} added to the environment.

    @raise AssertionError: if the command failed, with its output.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**environment, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def copyOfSources(target: Path) -> Path:
    """
    @return: C{target}, with the files that a clean checkout has for a build.
    """
    target.mkdir()
    for name in SOURCES:
        shutil.copy(ROOT / name, target)
    built = shutil.ignore_patterns("__pycache__", "*.so", "*.c", "dropin.cache")
    for name in ("natsbroker", "twisted"):
        shutil.copytree(ROOT / name, target / name, ignore=built)
    return target


def buildWheel(sources: Path, **variables: str) -> Path:
    """
    @return: the wheel built from C{sources}, with the build tools of this environment.
    """
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--no-index", "--wheel-dir", "wheels", ".", cwd=sources, **variables)
    (wheel,) = (sources / "wheels").glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    @return: a clean copy of the sources with a small Cython module instead of the lane.
    """
    target = copyOfSources(tmp_path_factory.mktemp("build") / "sources")
    compiled = target / "natsbroker" / "_accel"
    shutil.rmtree(compiled)
    compiled.mkdir()
    (compiled / "__init__.py").touch()
    (compiled / "probe.pyx").write_text("def answer():\n    return 42\n")
    return target


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    @return: a pure wheel of the package.
    """
    target = copyOfSources(tmp_path_factory.mktemp("pure") / "sources")
    return buildWheel(target, NATSBROKER_NO_EXTENSIONS="1")


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    @return: a directory with only the installed wheel.
    """
    target = tmp_path_factory.mktemp("installed")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    run(*pip, "--no-compile", "--target", str(target), str(wheel), cwd=target.parent)
    return target


def namesIn(wheel: Path) -> set[str]:
    """
    @return: the paths inside C{wheel}.
    """
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


class TestWheel:
    """The content of the wheel."""

    def test_holdsEveryModule(self, wheel: Path) -> None:
        """
        The wheel contains every module of the package, its type marker, the files of the live page
        and the plugin.
        """
        modules = {
            path.relative_to(ROOT).as_posix() for path in (ROOT / "natsbroker").rglob("*.py")
        }
        page = (ROOT / "natsbroker" / "monitoring" / "live").iterdir()
        modules |= {path.relative_to(ROOT).as_posix() for path in page}
        wanted = modules | {"natsbroker/py.typed", "twisted/plugins/natsbroker_plugin.py"}
        assert wanted - namesIn(wheel) == set()

    def test_holdsNothingElse(self, wheel: Path) -> None:
        """
        The wheel contains no tests, no build leftovers and no C{__init__} files in Twisted's
        namespace.
        """
        metadata = f"natsbroker-{natsbroker.__version__}.dist-info"
        tops = {name.partition("/")[0] for name in namesIn(wheel)}
        assert tops == {"natsbroker", "pyspark_natsbroker.py", "twisted", metadata}
        ours = {name for name in namesIn(wheel) if name.startswith("twisted/")}
        assert ours == {"twisted/plugins/natsbroker_plugin.py"}
        assert not [name for name in namesIn(wheel) if "__pycache__" in name]


class TestInstalled:
    """The commands and files of an installed wheel."""

    def test_twistdListsIt(self, installed: Path, tmp_path: Path) -> None:
        """C{twistd --help} lists the broker with its description."""
        script = (
            "import sys; root, target = sys.argv[1:3]; del sys.argv[1:3]\n"
            "sys.path[:] = [target] + [path for path in sys.path if path != root]\n"
            "from twisted.scripts.twistd import run; run()"
        )
        command = (sys.executable, "-c", script, str(ROOT), str(installed), "--help")
        shown = run(*command, cwd=tmp_path).stdout
        (line,) = (line for line in shown.splitlines() if line.split()[:1] == ["natsbroker"])
        assert "NATS" in line

    def test_announcesItsCommandAndPlugin(self, installed: Path) -> None:
        """The entry points of the console script and the pytest plugin lead to existing modules."""
        (metadata,) = installed.glob("natsbroker-*.dist-info")
        announced = (metadata / "entry_points.txt").read_text("utf-8")
        for line in ("natsbroker = natsbroker.main:run", "natsbroker = natsbroker.testing."):
            assert line in announced
        assert (installed / "bin" / "natsbroker").is_file()
        assert (installed / "natsbroker" / "main.py").is_file()
        assert (installed / "natsbroker" / "testing" / "pytestplugin.py").is_file()

    def test_commandRuns(self, installed: Path, tmp_path: Path) -> None:
        """The C{natsbroker} command and C{python -m natsbroker} both answer C{--version}."""
        variables = {"PYTHONPATH": str(installed)}
        script = run(str(installed / "bin" / "natsbroker"), "--version", cwd=tmp_path, **variables)
        module = run(sys.executable, "-m", "natsbroker", "--version", cwd=tmp_path, **variables)
        assert script.stdout == module.stdout != ""


class TestPlugin:
    """The file that every C{twistd} on the machine imports."""

    def test_importsNothingHeavy(self) -> None:
        """
        The plugin imports only C{ServiceMaker}, so that it does not slow down other uses of
        C{twistd}.
        """
        text = (ROOT / "twisted" / "plugins" / "natsbroker_plugin.py").read_text("utf-8")
        imports = [
            ast.unparse(node)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        assert imports == ["from twisted.application.service import ServiceMaker"]

    def test_directoryIsShared(self) -> None:
        """The plugin's directories have no C{__init__} file, which would hide Twisted's own."""
        assert list((ROOT / "twisted").rglob("__init__.py")) == []


class TestExtensions:
    """Extension modules, which are built where that is possible and are optional."""

    def test_compiled(self, sources: Path) -> None:
        """With Cython and a C compiler, each Cython source becomes an extension module."""
        if shutil.which(os.environ.get("CC", "cc")) is None:
            pytest.skip("no C compiler")
        pytest.importorskip("Cython")
        run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=sources)
        script = "from natsbroker._accel import probe; print(probe.answer())"
        assert run(sys.executable, "-c", script, cwd=sources).stdout == "42\n"

    def test_withoutCompiler(self, sources: Path) -> None:
        """A C compiler that fails leaves a wheel without extension modules."""
        pytest.importorskip("Cython")
        for built in (sources / "natsbroker" / "_accel").glob("*.so"):
            built.unlink()
        shutil.rmtree(sources / "build", ignore_errors=True)
        built = buildWheel(sources, CC="false")
        assert "natsbroker/__init__.py" in namesIn(built)
        assert not [name for name in namesIn(built) if name.endswith((".so", ".pyd"))]

    def test_withoutCython(self, sources: Path, tmp_path: Path) -> None:
        """A build without Cython reports that, and continues without extension modules."""
        hidden = tmp_path / "Cython"
        hidden.mkdir()
        (hidden / "__init__.py").write_text("raise ImportError('hidden by a test')\n")
        done = run(sys.executable, "setup.py", "--version", cwd=sources, PYTHONPATH=str(tmp_path))
        assert natsbroker.__version__ in done.stdout
        assert "no Cython" in done.stderr
