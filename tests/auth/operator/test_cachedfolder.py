"""
Tests of L{natsbroker.auth.operator.cachedfolder}.
"""

from __future__ import annotations

from pathlib import Path

from twisted.internet.task import Clock

from natsbroker.auth.operator.cachedfolder import LIMIT, CachedFolder
from tests.auth.operator.chain import Account, KeyPair, Operator

ONE, TWO, THREE = (KeyPair("A").key for _ in range(3))
ACCOUNT = Account(Operator())


class World:
    """
    A folder and the time.
    """

    def __init__(self, path: Path, limit: int = 0, ttl: float = 0.0) -> None:
        self.clock = Clock()
        self.folder = CachedFolder(str(path), limit, ttl, self.clock.seconds)


def test_limit(tmp_path: Path) -> None:
    """When it is full, the account that was not asked for longest makes room."""
    folder = World(tmp_path, limit=2).folder
    folder.save(ONE, "1")
    folder.save(TWO, "2")
    assert folder[ONE] == "1"
    folder.save(THREE, "3")
    assert set(folder) == {ONE, THREE}
    assert {each.stem for each in tmp_path.iterdir()} == {ONE, THREE}
    folder.save(ONE, "another")
    assert set(folder) == {ONE, THREE}


def test_defaultLimit(tmp_path: Path) -> None:
    """Without a limit there is nats-server's."""
    folder = World(tmp_path).folder
    assert (folder._most, LIMIT) == (LIMIT, 1000)


def test_ttl(tmp_path: Path) -> None:
    """What nobody asks for is removed in time; being asked for begins the time anew."""
    world = World(tmp_path, ttl=10.0)
    world.folder.save(ONE, "1")
    world.folder.save(TWO, "2")
    world.clock.advance(9)
    assert world.folder[ONE] == "1"
    world.folder.expire()
    assert len(world.folder) == 2
    world.clock.advance(1)
    world.folder.expire()
    assert list(world.folder) == [ONE]
    assert not (tmp_path / f"{TWO}.jwt").exists()


def test_expired(tmp_path: Path) -> None:
    """Without a time, what has expired is removed, and what is no JWT."""
    world = World(tmp_path)
    world.folder.save(ACCOUNT.key, ACCOUNT.jwt(exp=100))
    world.folder.save(ONE, "none")
    world.folder.save(TWO, ACCOUNT.jwt())
    world.clock.advance(99)
    world.folder.expire()
    assert set(world.folder) == {ACCOUNT.key, TWO}
    world.clock.advance(1)
    world.folder.expire()
    assert list(world.folder) == [TWO]


def test_readAgain(tmp_path: Path) -> None:
    """What lies in the folder already is there, and what others removed is not."""
    World(tmp_path).folder.save(ONE, "1")
    world = World(tmp_path, limit=1, ttl=5.0)
    assert world.folder[ONE] == "1"
    (tmp_path / f"{ONE}.jwt").unlink()
    assert world.folder.read() == {ONE}
    world.clock.advance(5)
    world.folder.expire()
    world.folder.save(TWO, "2")
    assert list(world.folder) == [TWO]
