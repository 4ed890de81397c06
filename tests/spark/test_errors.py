"""
Errors pass between processes.
"""

from __future__ import annotations

import pickle

import pytest

from natsbroker.spark import errors


@pytest.mark.parametrize("name", [each for each in errors.__all__ if each != "ApiError"])
def test_travels(name: str) -> None:
    """Each error comes out of a pickle as it went in, and belongs to the family."""
    error = getattr(errors, name)("what happened")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (type(error), "what happened")
    assert isinstance(copy, errors.DataSourceError)


def test_apiErrorKeepsItsNumber() -> None:
    """The server's number for the reason travels too, and is no part of the text."""
    copy = pickle.loads(pickle.dumps(errors.ApiError("stream not found", 10059)))
    assert (str(copy), copy.code) == ("stream not found", 10059)
