"""Tests for L{natsbroker.jetstream.figures}."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail

from natsbroker.config.model import JetStream
from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.figures import JetStreamFigures
from natsbroker.jetstream.model.limits import AccountAllowance, JetStreamLimits
from natsbroker.steps import finish
from tests.jetstream.figurestage import FigureStage


def figuresOf(stage: FigureStage) -> JetStreamFigures:
    """
    The figures of a stage.
    """
    assert stage.figures is not None
    return stage.figures


class TestConfig:
    """The configuration in the figures."""

    def test_config(self) -> None:
        """The figures have the settings that take effect, and show that every write is synced."""
        stage = FigureStage(JetStream(enabled=True, max_memory_store=5, max_file_store=6))
        assert figuresOf(stage).config() == {
            "max_memory": 5,
            "max_storage": 6,
            "store_dir": "/data/jetstream",
            "sync_interval": 120_000_000_000,
            "sync_always": True,
            "compress_ok": True,
            "strict": True,
        }

    @pytest.mark.parametrize(("backend", "isAlways"), [("lmdb", False), ("postgres", True)])
    def test_interval(self, backend: str, isAlways: bool) -> None:
        """The sync interval is shown only for stores that use it."""
        stage = FigureStage(JetStream(enabled=True, backend=backend, sync_interval=2.5))
        shown = figuresOf(stage).config()
        assert shown["sync_interval"] == (120_000_000_000 if isAlways else 2_500_000_000)
        assert shown.get("sync_always", False) is isAlways

    def test_limits(self) -> None:
        """Limits are shown where there are some."""
        block = JetStream(
            enabled=True,
            max_ack_pending=5,
            duplicate_window=10.0,
            default_max_consumers=7,
            max_batch_timeout=2.0,
        )
        assert figuresOf(FigureStage(block)).limits() == {
            "max_ack_pending": 5,
            "max_duplicate_window": 10_000_000_000,
            "default_max_consumers": 7,
            "max_batch_timeout": 2_000_000_000,
        }
        assert figuresOf(FigureStage()).limits() == {"default_max_consumers": 1000}


class TestUsage:
    """The use of accounts."""

    def test_stats(self) -> None:
        """Usage and reservations are summed over accounts, requests too."""
        stage = FigureStage()
        stage.make(name="M", subjects=["m"], storage="memory", max_bytes=1000)
        stage.ask("STREAM.INFO.NONE")
        stats = figuresOf(stage).stats()
        assert stats["storage"] == stage.jetstream.streams["S"].size
        assert (stats["memory"], stats["reserved_memory"]) == (0, 1000)
        assert stats["api"] == {"level": 5, "total": 3, "errors": 1} | {
            "level": stats["api"]["level"]
        }

    def test_account(self) -> None:
        """The account's limit counts as reserved. Without a limit, the largest number is shown."""
        stage = FigureStage()
        row = figuresOf(stage).account(stage.jetstream)
        assert (row["reserved_memory"], row["reserved_storage"]) == (2**64 - 1, 2**64 - 1)
        limits = JetStreamLimits(max_memory=7, max_storage=8)
        stage.jetstream.allowance = AccountAllowance(limits)
        row = figuresOf(stage).account(stage.jetstream)
        assert (row["reserved_memory"], row["reserved_storage"]) == (7, 8)


class TestStreams:
    """The rows of streams."""

    def test_unreadable(self, monkeypatch: Any) -> None:
        """A stream that cannot be read is listed without its state."""
        stage = FigureStage()
        stream = stage.jetstream.streams["S"]

        def broken() -> Deferred[Any]:
            return fail(StoreError("damaged"))

        monkeypatch.setattr(stream, "firstRecord", broken)
        row = stage.wait(figuresOf(stage).stream(stream, "S1"))
        assert list(row) == ["name", "created", "cluster"]

    def test_origins(self) -> None:
        """The mirror or the sources of a stream are shown."""
        stage = FigureStage()
        stage.ask("STREAM.CREATE.MIR", {"name": "MIR", "mirror": {"name": "S"}})
        stage.ask("STREAM.CREATE.SRC", {"name": "SRC", "sources": [{"name": "S"}]})
        streams, figures = stage.jetstream.streams, figuresOf(stage)
        shown = {name: finish(figures.origins(stream)) for name, stream in streams.items()}
        assert shown["MIR"]["mirror"]["name"] == "S"
        assert [source["name"] for source in shown["SRC"]["sources"]] == ["S"]
        assert shown["S"] == {}
