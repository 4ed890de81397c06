"""The messages between the parent and its workers."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from natsbroker.workers import messages
from natsbroker.workers.channel import FrameDecoder
from tests.workers.support import frameOf

KINDS = [kind for kind in vars(messages).values() if isinstance(kind, type) and is_dataclass(kind)]


@pytest.mark.parametrize("kind", KINDS)
def test_passed(kind: Any) -> None:
    """A message of each kind is received as it was sent, with each field."""
    sent = kind(*range(len(fields(kind))))
    assert FrameDecoder().received(frameOf(sent)) == [(sent, ())]
