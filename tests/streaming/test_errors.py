"""
Error texts for clients, and their documentation.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from natsbroker.config.flags import STREAMING_FLAGS
from natsbroker.streaming import errors

TOPIC = Path(__file__).resolve().parents[2] / "docs" / "topics" / "streaming.md"

TEXTS = {name: text for name, text in vars(errors).items() if name.isupper()}

#: Flags whose feature is not there; the topic names the features.
REFUSED = {
    "ns", "ft_group", "clustered", "cluster_node_id", "cluster_bootstrap", "cluster_peers",
    "cluster_log_path", "encrypt", "encryption_cipher", "encryption_key", "secure",
    "tls_client_cert", "tls_client_key", "tls_client_cacert",
}  # fmt: skip


def words(text: str) -> str:
    """A text without line ends."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", TEXTS)
def test_errors(name: str) -> None:
    """The documentation lists every error that a client may get."""
    text = TEXTS[name].format("FOO", "foo")
    assert f"`{text}`" in words(TOPIC.read_text("utf-8"))


@pytest.mark.parametrize(
    "names", [flag.names for flag in STREAMING_FLAGS if flag.names[0] not in REFUSED]
)
def test_flags(names: tuple[str, ...]) -> None:
    """The documentation names every flag, in every spelling."""
    topic = TOPIC.read_text("utf-8")
    assert [name for name in names if f"-{name}`" not in topic] == []
