"""
What the doctor finds.
"""

from __future__ import annotations

import importlib.metadata
import io
import os
from typing import Any

import pytest

from natsbroker.spark import doctor


def test_healthy(spark: Any) -> None:
    """Everything is named, and was tried: a query in the JVM and one in a worker."""
    out = io.StringIO()
    assert doctor.examine(out, lambda: spark)
    text = out.getvalue()
    assert f"pyspark: {importlib.metadata.version('pyspark')}" in text
    assert "Query:   Spark" in text
    assert "found 499500" in text
    assert f"PyArrow {importlib.metadata.version('pyarrow')}" in text
    assert text.endswith("Spark can be used.\n")


def test_noPackage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is not installed is named, with what installs it; nothing is tried then."""

    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    out = io.StringIO()
    assert not doctor.examine(out)
    for name in ("pyspark", "pyarrow"):
        assert f"{name}: not installed: pip install 'natsbroker[spark]'" in out.getvalue()


def test_oldPackage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that lacks what is used is refused."""
    versions = {"pyspark": "4.1.9", "pyarrow": "18.0.0"}
    monkeypatch.setattr(importlib.metadata, "version", versions.__getitem__)
    out = io.StringIO()
    assert not doctor.examine(out)
    assert "pyspark: 4.1.9\n         which is too old, 4.2 or later is needed" in out.getvalue()


def test_noJava(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong JAVA_HOME is said to be wrong."""
    monkeypatch.setitem(os.environ, "NATSBROKER_JAVA_HOME", "/nowhere")
    out = io.StringIO()
    assert not doctor.examine(out)
    assert "Java:    NATSBROKER_JAVA_HOME is /nowhere, where there is no" in out.getvalue()


def test_queryFails(monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    """A session that cannot be had is a failure with its first line."""

    def make() -> Any:
        raise RuntimeError("JVM exited\nand more")

    out = io.StringIO()
    assert not doctor.examine(out, make)
    assert out.getvalue().endswith("Query:   failed: JVM exited\n")
