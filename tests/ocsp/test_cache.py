"""
Tests for L{natsbroker.ocsp.cache}.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from natsbroker.config.ocsp import OCSPCache
from natsbroker.ocsp.cache import AnswerCache
from tests.server.support import logLines


def test_file(tmp_path: Path) -> None:
    """A cache in a file is read again after a restart."""
    settings = OCSPCache("local", str(tmp_path / "rc"))
    cache = AnswerCache(settings)
    cache.load()
    cache.put("a", b"\x00answer", False)
    cache.put("b", b"revoked", True)
    cache.save()
    (path,) = (tmp_path / "rc").iterdir()
    again = AnswerCache(settings)
    again.load()
    assert again.get("a") == b"\x00answer" and not again.isRevoked("a")
    assert again.get("b") == b"revoked" and again.isRevoked("b")
    path.unlink()
    again.save()
    assert not path.exists()
    again.drop("a")
    again.save()
    assert path.exists() and again.get("a") is None


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": ["?", false]}', "[" * 100000])
def test_damaged(text: str, tmp_path: Path) -> None:
    """A damaged cache file is reported in the log, and the cache starts empty."""
    settings = OCSPCache("local", str(tmp_path))
    (tmp_path / "natsbroker-ocsp.json").write_text(text)
    cache = AnswerCache(settings)
    with logLines() as lines:
        cache.load()
    assert any("Unable to load OCSP peer cache" in line for line in lines)
    assert cache.get("a") is None


def test_unwritable(tmp_path: Path) -> None:
    """A cache whose file cannot be written reports that in the log, and nothing fails."""
    (tmp_path / "rc").write_text("a file")
    cache = AnswerCache(OCSPCache("local", str(tmp_path / "rc")))
    cache.put("a", b"x", False)
    with logLines() as lines:
        cache.save()
    assert any("Unable to save OCSP peer cache" in line for line in lines)


def test_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache in memory writes no file. A cache of the kind C{none} remembers nothing."""
    monkeypatch.chdir(tmp_path)
    memory, nothing = AnswerCache(OCSPCache()), AnswerCache(OCSPCache("none"))
    for cache in (memory, nothing):
        cache.load()
        cache.put("a", b"x", True)
        cache.save()
    assert memory.get("a") == b"x" and nothing.get("a") is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("isKept", [True, False])
def test_preserve(isKept: bool) -> None:
    """With C{preserve_revoked}, an answer that a certificate is revoked is never dropped."""
    cache = AnswerCache(OCSPCache(preserve_revoked=isKept))
    cache.put("a", b"x", True)
    cache.put("b", b"x", False)
    cache.drop("a")
    cache.drop("b")
    assert (cache.get("a") is not None) == isKept and cache.get("b") is None
