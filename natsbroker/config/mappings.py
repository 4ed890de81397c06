"""
From what is said of a subject mapping to the mapping.

This module promises a mapping that works, or an error that says why there is none.  It must
never know whose mapping it is, or where it was said.
"""

from __future__ import annotations

from natsbroker.accounts.settings import SubjectMapping, bytesOf
from natsbroker.subjects.mapping import Destination, Mapping

__all__ = ["mappingFrom"]


def mappingFrom(said: SubjectMapping) -> Mapping:
    """
    Make the mapping.

    @raise InvalidMapping: if it makes no sense.
    """
    destinations = [
        Destination(bytesOf(each.dest), each.weight, bytesOf(each.cluster))
        for each in said.destinations
    ]
    return Mapping(bytesOf(said.source), destinations)
