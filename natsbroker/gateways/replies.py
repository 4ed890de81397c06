"""
The names of clusters and servers in mapped reply subjects, as nats-server hashes them.
"""

from __future__ import annotations

from hashlib import sha256

from natsbroker.wire.mapped import NEW, OLD, splitMapped

_DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def newHash(name: str) -> bytes:
    """
    The six letters for the name of a cluster, or for the id of a server.
    """
    digest = sha256(name.encode("utf-8", "surrogateescape")).digest()
    return bytes(_DIGITS[byte % len(_DIGITS)] for byte in digest[:6])


def oldHash(name: str) -> bytes:
    """
    The four letters for a cluster before NATS 2.1.
    """
    return sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:4].encode("ascii")


class ReplyNames:
    """
    The reply prefixes of one broker.

    @ivar prefix: the broker puts it in front of reply subjects.
    @ivar oldPrefix: the same for clusters from before NATS 2.1.
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
        The beginnings of mapped subjects that belong to our cluster.
        """
        return self.prefix[: len(NEW) + 7], self.oldPrefix

    @staticmethod
    def answersOf(cluster: str) -> tuple[bytes, ...]:
        """
        The beginnings of mapped subjects that belong to another cluster.
        """
        return b"%b%b." % (NEW, newHash(cluster)), b"%b%b." % (OLD, oldHash(cluster))

    def destination(self, subject: bytes) -> tuple[bytes, bytes] | None:
        """
        Split a mapped subject.

        @return: the hash of the server of our cluster that mapped it, empty if that is us or not
            known, and the original subject; C{None} if the subject is not of our cluster.
        """
        prefix, rest = splitMapped(subject)
        if not prefix.startswith(self.answers):
            return None
        if prefix in (self.prefix, self.oldPrefix):
            return b"", rest
        return prefix[len(NEW) + 7 : -1], rest
