"""
natsbroker: a NATS-compatible broker as a Twisted framework.

This module promises the version number and imports nothing, so that any part
of the package can be loaded without the rest.
"""

__version__ = "0.1.0"
