"""
The last messages of a channel, in memory: what subscribers are usually sent.

Promises: a message is encoded once, however many subscribers it goes to; memory is bounded however
long the channel is. A message that is not here may still be in the store.
Must never know: subscribers.
"""

from __future__ import annotations

from collections.abc import Iterable

from natsbroker.streaming.runs import StoredMessage

__all__ = ["Tail"]

#: How much of a channel is kept, in messages and in bytes of data.
MOST_MESSAGES = 2048
MOST_BYTES = 1 << 20


class Tail:
    """
    The last messages of one channel.
    """

    def __init__(self, mostMessages: int = MOST_MESSAGES, mostBytes: int = MOST_BYTES) -> None:
        self._messages: dict[int, StoredMessage] = {}
        self._bytes = 0
        self._mostMessages = mostMessages
        self._mostBytes = mostBytes
        self.get = self._messages.get

    def add(self, messages: Iterable[StoredMessage]) -> None:
        """
        Take messages with higher sequences than all before.
        """
        for message in messages:
            self._messages[message.sequence] = message
            self._bytes += message.size

    def following(self, sequence: int, most: int) -> list[StoredMessage]:
        """
        Messages that follow each other.

        @param sequence: where to begin.
        @param most: not more than so many.
        @return: none if already the first one is not here.
        """
        found = []
        for each in range(sequence, sequence + most):
            message = self.get(each)
            if message is None:
                break
            found.append(message)
        return found

    def trim(self) -> None:
        """
        Let go of what is too much. Called when a batch was delivered, so that whoever kept up finds
        all of it here.
        """
        messages = self._messages
        while messages and (len(messages) > self._mostMessages or self._bytes > self._mostBytes):
            message = messages.pop(next(iter(messages)))
            self._bytes -= message.size

    def __len__(self) -> int:
        return len(self._messages)
