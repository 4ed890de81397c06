"""
Whether somebody may be there now: source networks, and times of the day.

Pure functions; whatever cannot be understood is not there and not now.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import ip_address

from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.terms import networkOf, zoneOf

__all__ = ["isFrom", "validUntil"]


def isFrom(host: str, sources: Iterable[str]) -> bool:
    """
    Whether an address lies in one of some networks.

    @param host: the address of the peer itself; anything that is no address lies in none.
    @param sources: networks; none of them for anywhere.
    """
    networks = list(sources)
    if not networks:
        return True
    try:
        address = ip_address(host)
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in networkOf(each) for each in networks)
    except (FieldError, ValueError):
        return False


def validUntil(times: Iterable[tuple[str, str]], zone: str, now: float) -> float:
    """
    When the time of the day ends in which a moment lies.

    @param times: beginnings and ends, as C{15:04:05}; a range that ends before it begins goes on
        over midnight. None of them is for always.
    @param zone: the name of the time zone that they are meant in; empty for the machine's.
    @param now: the moment, in seconds since the epoch.
    @return: seconds since the epoch, the latest if several ranges hold the moment: infinity for
        always, and minus infinity if no range holds it.
    """
    ranges = list(times)
    if not ranges:
        return math.inf
    try:
        today = datetime.fromtimestamp(now, zoneOf(zone))
        return max(_end(today, start, end, now) for start, end in ranges)
    except (FieldError, ValueError, OverflowError, OSError):
        return -math.inf


def _end(today: datetime, start: str, end: str, now: float) -> float:
    begins, ends = _at(today, start), _at(today, end)
    if begins <= ends:
        return ends if begins <= now < ends else -math.inf
    if now < ends:
        return ends
    return _at(today + timedelta(days=1), end) if begins <= now else -math.inf


def _at(day: datetime, time: str) -> float:
    hour, minute, second = map(int, time.split(":"))
    return day.replace(hour=hour, minute=minute, second=second, microsecond=0, fold=0).timestamp()
