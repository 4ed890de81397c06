"""
Whose mapped reply subjects are: names of clusters and servers as they stand in them.

The same letters as nats-server's, so that either finds the way back to the other.
"""

from __future__ import annotations

from hashlib import sha256

from natsbroker.wire.mapped import NEW, OLD, splitMapped

__all__ = ["ReplyNames", "newHash", "oldHash"]

_DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def newHash(name: str) -> bytes:
    """
    The six letters that stand for a cluster by its name, or for a server by its id.
    """
    digest = sha256(name.encode("utf-8", "surrogateescape")).digest()
    return bytes(_DIGITS[byte % len(_DIGITS)] for byte in digest[:6])


def oldHash(name: str) -> bytes:
    """
    The four letters that stood for a cluster before NATS 2.1.
    """
    return sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:4].encode("ascii")


class ReplyNames:
    """
    One broker's part in mapped reply subjects.

    @ivar prefix: in front of reply subjects that it maps.
    @ivar oldPrefix: the same, for clusters from before NATS 2.1.
    """

    def __init__(self, cluster: str, server: str) -> None:
        """
        @param cluster: the name of our gateway.
        @param server: our id.
        """
        self.prefix = b"%b%b.%b." % (NEW, newHash(cluster), newHash(server))
        self.oldPrefix = b"%b%b." % (OLD, oldHash(cluster))

    @property
    def answers(self) -> tuple[bytes, ...]:
        """
        How mapped subjects begin that belong to our cluster.
        """
        return self.prefix[: len(NEW) + 7], self.oldPrefix

    @staticmethod
    def answersOf(cluster: str) -> tuple[bytes, ...]:
        """
        How mapped subjects begin that belong to another cluster.
        """
        return b"%b%b." % (NEW, newHash(cluster)), b"%b%b." % (OLD, oldHash(cluster))

    def destination(self, subject: bytes) -> tuple[bytes, bytes] | None:
        """
        Where a mapped subject leads that somebody sent us.

        @return: the hash of the server of our cluster that mapped it, or no bytes if that is us or
            nobody knows, and the subject itself; C{None} if it is not of our cluster.
        """
        prefix, rest = splitMapped(subject)
        if not prefix.startswith(self.answers):
            return None
        if prefix in (self.prefix, self.oldPrefix):
            return b"", rest
        return prefix[len(NEW) + 7 : -1], rest
