"""
Tasks: how they connect, and what passes to workers.
"""

from __future__ import annotations

import pytest

from natsbroker.spark.datasource.tasks import peerOf
from natsbroker.spark.errors import OptionError
from natsbroker.spark.settings import readOptions

OPTIONS = {"servers": "h", "stream": "S"}


def test_peer() -> None:
    """Options determine the connection. Any option about TLS enables it."""
    assert not peerOf(readOptions(OPTIONS)).isTLS
    assert peerOf(readOptions({**OPTIONS, "tlsCa": "/ca"})).isTLS
    assert peerOf(readOptions({**OPTIONS, "user": "a", "password": "b"})).user == "a"
    with pytest.raises(OptionError, match="tlsKey needs tlsCert"):
        peerOf(readOptions({**OPTIONS, "tlsKey": "/k"}))


@pytest.mark.parametrize("other", ["token", "nkeySeedFile", "credentialsFile"])
def test_onePeerHasOneIdentity(other: str) -> None:
    """Two kinds of credentials exclude each other."""
    with pytest.raises(OptionError, match=f"user and {other} exclude each other"):
        peerOf(readOptions({**OPTIONS, "user": "a", other: "x"}))
