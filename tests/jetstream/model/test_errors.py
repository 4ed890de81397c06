"""
The errors of the API.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import natsbroker
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import ErrorRow, JetStreamError

_ROWS = {name: row for name, row in vars(errors).items() if isinstance(row, ErrorRow)}
_USED = re.compile(r"\berrors\.([A-Z][A-Z_0-9]+)\b")


def test_causesAreUnique() -> None:
    """Each cause has its own number."""
    numbers = [row.err_code for row in _ROWS.values()]
    assert len(numbers) > 200
    assert len(set(numbers)) == len(numbers)


def test_used() -> None:
    """Every error that the package raises by its name is in the table of errors."""
    texts = [path.read_text("utf-8") for path in Path(natsbroker.__file__).parent.rglob("*.py")]
    used = {
        name
        for text in texts
        if "from natsbroker.jetstream.model import errors\n" in text
        for name in _USED.findall(text)
    }
    assert len(used) > 100
    assert used <= _ROWS.keys()


def test_missing() -> None:
    """An unknown error is an AttributeError with its name."""
    with pytest.raises(AttributeError, match="there is no error ZORK"):
        _ = errors.ZORK


def test_toJSON() -> None:
    """An error is encoded in the order of the wire."""
    error = errors.STREAM_NOT_FOUND()
    assert list(error.toJSON().items()) == [
        ("code", 404),
        ("err_code", 10059),
        ("description", "stream not found"),
    ]


def test_arguments() -> None:
    """The fields of an error's text are filled in. Braces in the inserted values stay."""
    error = errors.STREAM_EXTERNAL_API_OVERLAP(prefix="$JS.{subject}", subject=7)
    assert error.description == "stream external api prefix $JS.{subject} must not overlap with 7"
    assert str(error) == error.description


def test_withoutCause() -> None:
    """An error without a number or a text leaves the key out of the JSON."""
    assert JetStreamError(500, 0, "").toJSON() == {"code": 500}
