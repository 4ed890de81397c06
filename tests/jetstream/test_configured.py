"""
From the settings to the service.
"""

from __future__ import annotations

from pathlib import Path

from natsbroker.config.build import buildText
from natsbroker.config.model import JetStream
from natsbroker.jetstream.configured import limitsIn, storeDirectory


def test_directory(tmp_path: Path) -> None:
    """Streams are in a folder of their own under C{store_dir}."""
    assert storeDirectory(JetStream(store_dir=str(tmp_path))) == str(tmp_path / "jetstream")
    assert storeDirectory(JetStream()).endswith("natsbroker/jetstream")


def test_accounts() -> None:
    """Accounts have JetStream if they say so; without accounts everybody has it."""
    assert list(limitsIn(buildText("jetstream: enabled", {}).settings)) == ["$G"]
    text = """
        jetstream {}
        accounts {
            A { jetstream: enabled }
            B { jetstream { max_store: 10, max_streams: 2, store_max_stream_bytes: 5 } }
            C {}
        }
    """
    limits = limitsIn(buildText(text, {}).settings)
    assert sorted(limits) == ["A", "B"]
    assert limits["A"].max_streams == -1
    assert (limits["B"].max_storage, limits["B"].max_streams) == (10, 2)
    assert limits["B"].storage_max_stream_bytes == 5
