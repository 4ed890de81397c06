"""The worker that dials the remotes of leafnodes, and the next one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from natsbroker.config.settings.leafnodes import Leafnodes
from natsbroker.workers.messages import (
    ReloadPlanned,
    RemotesLeft,
    UseRemotes,
)
from natsbroker.workers.slots import PAUSE
from tests.workers.support import Make, World

REMOTES = "leafnodes { remotes [ { url: 'nats://127.0.0.1:77' } ] }"


class TestRemotes:
    """The one worker that dials the remotes of leafnodes."""

    def last(self, world: World) -> dict[int, bool]:
        """The pids of workers that were ever asked to dial or not, with what holds."""
        for process in world.started:
            if process.channel.fileno() >= 0:
                process.read()
        return {
            process.pid: message.isDialling
            for process in world.started
            for message in process.said
            if isinstance(message, UseRemotes)
        }

    def test_first(self, make: Make) -> None:
        world = make(REMOTES).start()
        assert self.last(world) == {100: True}

    def test_next(self, make: Make) -> None:
        """Another one dials when a worker has ended, and goes on when that is back."""
        world = make(REMOTES).start()
        world.started[0].end("signal 9")
        assert self.last(world) == {100: True, 101: True}
        world.reactor.advance(PAUSE)
        world.ready(world.started[2])
        assert self.last(world) == {100: True, 101: True}

    def test_noneLeft(self, make: Make) -> None:
        """Without any worker the first that is ready dials."""
        world = make(REMOTES).start()
        for process in list(world.started):
            process.end("signal 9")
        world.reactor.advance(PAUSE)
        world.ready(world.started[3])
        assert self.last(world)[103] and 102 not in self.last(world)

    def test_upgrade(self, make: Make) -> None:
        """Another worker dials when the one that leaves has hung up, and not before."""
        world = make(REMOTES, 3).start()
        world.supervisor.upgrade()
        first = world.started[0]
        assert self.last(world) == {100: False}
        world.started[1].end("signal 9")
        assert self.last(world) == {100: False}
        world.say(first, RemotesLeft())
        assert self.last(world) == {100: False, 102: True}
        world.say(first, RemotesLeft())
        assert self.last(world) == {100: False, 102: True}

    def test_endsMeanwhile(self, make: Make) -> None:
        """Another worker dials when the one that should hang up has ended instead."""
        world = make(REMOTES).start()
        world.supervisor.upgrade()
        world.started[0].end("signal 9")
        assert self.last(world) == {100: False, 101: True}

    def test_reload(self, make: Make) -> None:
        """Remotes that are removed and added again are dialled, also if a worker ended between."""
        world = make(REMOTES).start()
        block = world.settings.leafnodes
        self.reload(world, Leafnodes())
        world.started[0].end("signal 9")
        world.reactor.advance(PAUSE)
        world.ready(world.started[2])
        self.reload(world, block)
        assert True in {pid: value for pid, value in self.last(world).items() if pid > 100}.values()

    def reload(self, world: World, block: Leafnodes | None) -> None:
        world.supervisor.reload(replace(world.settings, leafnodes=block))
        for process in world.started:
            if process.channel.fileno() >= 0:
                process.read()
                world.say(process, ReloadPlanned())
        assert world.settings.leafnodes == block

    def test_lameDuck(self, make: Make) -> None:
        """A server that leaves has its hub to the end."""
        world = make(REMOTES).start()
        world.supervisor.lameDuck()
        world.started[0].end()
        assert self.last(world) == {100: True}

    @pytest.mark.parametrize("text", ["", "leafnodes { port: -1 }"])
    def test_none(self, make: Make, text: str) -> None:
        world = make(text).start()
        assert self.last(world) == {}
