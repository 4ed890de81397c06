"""
What requests say.
"""

from __future__ import annotations

import pytest

from natsbroker.export.questions import LARGEST, RequestFields
from natsbroker.export.texts import Refusal


def test_reads() -> None:
    """Numbers, texts and words, or what holds without them."""
    question = RequestFields(b'{"n": 5, "t": "\\u00e9", "w": ["a"]}', ("n", "t", "w", "m"))
    assert question.number("n") == 5
    assert question.number("m", default=7) == 7
    assert question.text("t") == "é"
    assert question.text("m", "x") == "x"
    assert question.words("w", ("a", "b")) == {"a"}
    assert question.words("m", ("a", "b")) == {"a", "b"}
    assert ("n" in question, "m" in question) == (True, False)


def test_nothing() -> None:
    """No payload is no fields."""
    assert "n" not in RequestFields(b"", ("n",))


@pytest.mark.parametrize("value", ["true", "1.0", "-1", str(LARGEST + 1), '"1"', "null", "NaN"])
def test_noNumber(value: str) -> None:
    """What is no whole number in its bounds is refused."""
    question = RequestFields(b'{"n": %b}' % value.encode(), ("n",))
    with pytest.raises(Refusal, match="n must be a whole number from 0 to 9223372036854775807"):
        question.number("n")


@pytest.mark.parametrize("value", ["1", "null", '["a"]', '"\\ud800"'])
def test_noText(value: str) -> None:
    """So is what is no text."""
    question = RequestFields(b'{"t": %b}' % value.encode(), ("t",))
    with pytest.raises(Refusal, match="t must be a text"):
        question.text("t")
