"""
Which addresses other machines cannot reach.

This module promises an answer without asking anybody.  It must never know what listens.
"""

from __future__ import annotations

import ipaddress

__all__ = ["isLoopback"]


def isLoopback(host: str) -> bool:
    """
    Tell whether a listener on a host is out of reach for other machines.
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
