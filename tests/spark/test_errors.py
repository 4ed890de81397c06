"""
Errors pass between processes.
"""

from __future__ import annotations

import pickle

import pytest

from natsbroker.spark import errors

KINDS = [value for value in vars(errors).values() if isinstance(value, type)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not errors.ApiError])
def test_travels(kind: type[Exception]) -> None:
    """An error keeps its text and type when it is pickled."""
    error = kind("what happened")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (type(error), "what happened")
    assert isinstance(copy, errors.DataSourceError)


def test_apiErrorKeepsItsNumber() -> None:
    """A pickled error of the API keeps its number."""
    copy = pickle.loads(pickle.dumps(errors.ApiError("stream not found", 10059)))
    assert (str(copy), copy.code) == ("stream not found", 10059)
