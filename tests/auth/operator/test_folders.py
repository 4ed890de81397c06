"""
Tests of L{natsbroker.auth.operator.folders}.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from natsbroker.auth.operator import folders
from natsbroker.auth.operator.folders import LIMIT, CachedFolder, Deletion, FolderError, TokenFolder
from natsbroker.auth.operator.tokens import LONGEST
from natsbroker.wire.nkeys import NkeyError
from tests.auth.operator.chain import Account, KeyPair, Operator

ONE, TWO = KeyPair("A").key, KeyPair("A").key


class TestSaving:
    """Saved JWTs."""

    def test_saved(self, tmp_path: Path) -> None:
        """A JWT is stored in a file that is named after the account, and no other file is left."""
        folder = TokenFolder(str(tmp_path / "a" / "b"))
        assert folder.save(ONE, "jwt") is True
        assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == [f"{ONE}.jwt"]
        assert (tmp_path / "a" / "b" / f"{ONE}.jwt").read_text() == "jwt"
        assert (folder[ONE], ONE in folder, list(folder), len(folder)) == ("jwt", True, [ONE], 1)

    def test_private(self, tmp_path: Path) -> None:
        """Only the owner can read the folder and its files."""
        TokenFolder(str(tmp_path / "jwt")).save(ONE, "jwt")
        assert (tmp_path / "jwt").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "jwt" / f"{ONE}.jwt").stat().st_mode & 0o777 == 0o600

    def test_sameJWTIsNoChange(self, tmp_path: Path) -> None:
        """Storing the same JWT again is no change. Storing another one is a change."""
        folder = TokenFolder(str(tmp_path))
        folder.save(ONE, "jwt")
        assert folder.save(ONE, "jwt") is False
        assert folder.save(ONE, "other") is True
        assert TokenFolder(str(tmp_path))[ONE] == "other"

    @pytest.mark.parametrize(
        "name",
        [
            "",
            ".",
            "..",
            "/",
            "/..",
            "../x",
            "x/../../y",
            "a\x00b",
            ONE + "/..",
            ONE[:-1],
            ONE.lower(),
            KeyPair("U").key,
            KeyPair("O").key,
            f"../{ONE}",
            f"{ONE}.jwt",
            "\\..\\x",
        ],
    )
    def test_namesThatAreNoKeys(self, name: str, tmp_path: Path) -> None:
        """A name that is not an account's key never becomes part of a path (CVE-2022-28357)."""
        (tmp_path / "jwt").mkdir()
        (tmp_path / "x.jwt").write_text("outside")
        folder = TokenFolder(str(tmp_path / "jwt"), deletion=Deletion.REMOVED)
        with pytest.raises(NkeyError):
            folder.save(name, "jwt")
        with pytest.raises(NkeyError):
            folder.delete(name)
        assert name not in folder
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["jwt", "x.jwt"]

    def test_limit(self, tmp_path: Path) -> None:
        """A full folder stores no new account, but stores changes of its accounts."""
        folder = TokenFolder(str(tmp_path), limit=1)
        folder.save(ONE, "jwt")
        with pytest.raises(FolderError):
            folder.save(TWO, "jwt")
        assert folder.save(ONE, "other") is True

    def test_digest(self, tmp_path: Path) -> None:
        """
        The digest of a folder combines the hashes of its JWTs in any order, as in nats-server.
        """
        folder = TokenFolder(str(tmp_path))
        assert folder.digest == bytes(32)
        folder.save(ONE, "a")
        folder.save(TWO, "b")
        one, two = hashlib.sha256(b"a").digest(), hashlib.sha256(b"b").digest()
        assert folder.digest == bytes(a ^ b for a, b in zip(one, two, strict=True))


class TestReading:
    """JWTs that are in the folder at the start."""

    def test_onlyJWTs(self, tmp_path: Path) -> None:
        """Files that are not JWTs of this folder are neither read nor changed."""
        (tmp_path / f"{ONE}.jwt").write_text(" jwt\n")
        (tmp_path / "README.jwt").write_text("x")
        (tmp_path / f"{TWO}.jwt.deleted").write_text("x")
        (tmp_path / f"{TWO}.jwt").mkdir()
        folder = TokenFolder(str(tmp_path))
        assert {account: folder[account] for account in folder} == {ONE: "jwt"}
        assert len(list(tmp_path.iterdir())) == 4

    @pytest.mark.parametrize("data", [b"", b"\xff\xfe", b" \n", b"x" * (LONGEST + 1)])
    def test_damaged(self, data: bytes, tmp_path: Path) -> None:
        """A file that is not text, or is empty or too long, is left unchanged."""
        file = tmp_path / f"{ONE}.jwt"
        file.write_bytes(data)
        folder = TokenFolder(str(tmp_path))
        assert len(folder) == 0
        assert file.read_bytes() == data

    def test_changesByOthers(self, tmp_path: Path) -> None:
        """A second read of the folder reports the files that other programs changed."""
        folder = TokenFolder(str(tmp_path))
        for account in (ONE, TWO):
            folder.save(account, "jwt")
        (tmp_path / f"{ONE}.jwt").write_text("other")
        (tmp_path / f"{TWO}.jwt").unlink()
        three = KeyPair("A").key
        (tmp_path / f"{three}.jwt").write_text("new")
        assert folder.read() == {ONE, TWO, three}
        assert folder.read() == set()

    def test_noFolder(self, tmp_path: Path) -> None:
        """A folder that cannot be created is an error at the start."""
        (tmp_path / "file").touch()
        with pytest.raises(OSError):
            TokenFolder(str(tmp_path / "file"))


class TestDeleting:
    """Deleted JWTs."""

    def test_deletingIsDisabled(self, tmp_path: Path) -> None:
        """A JWT is not deleted if the settings do not allow it."""
        folder = TokenFolder(str(tmp_path))
        folder.save(ONE, "jwt")
        with pytest.raises(FolderError):
            folder.delete(ONE)
        assert folder[ONE] == "jwt"

    @pytest.mark.parametrize(
        ("deletion", "left"), [(Deletion.RENAMED, [f"{ONE}.jwt.deleted"]), (Deletion.REMOVED, [])]
    )
    def test_deleted(self, deletion: Deletion, left: list[str], tmp_path: Path) -> None:
        """The file of a deleted JWT is renamed or removed, depending on the settings."""
        folder = TokenFolder(str(tmp_path), deletion=deletion)
        folder.save(ONE, "jwt")
        assert folder.delete(ONE) is True
        assert folder.delete(ONE) is False
        assert (ONE in folder, [path.name for path in tmp_path.iterdir()]) == (False, left)

    def test_slowDisk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A JWT is not found while its file is being deleted, however long the disk takes."""
        folder = TokenFolder(str(tmp_path), deletion=Deletion.RENAMED)
        folder.save(ONE, "jwt")
        known: list[bool] = []
        monkeypatch.setattr(folders, "syncDirectory", lambda path: known.append(ONE in folder))
        folder.delete(ONE)
        assert known == [False]

    @pytest.mark.parametrize("deletion", [Deletion.RENAMED, Deletion.REMOVED])
    def test_deletedByOthers(self, deletion: Deletion, tmp_path: Path) -> None:
        """A JWT whose file does not exist any more can be deleted too."""
        folder = TokenFolder(str(tmp_path), deletion=deletion)
        folder.save(ONE, "jwt")
        other = TokenFolder(str(tmp_path), deletion=deletion)
        assert other.delete(ONE) and folder.delete(ONE)
        assert ONE not in folder


THREE = KeyPair("A").key
ACCOUNT = Account(Operator())


class World:
    """A folder and its clock."""

    def __init__(self, path: Path, limit: int = 0, ttl: float = 0.0) -> None:
        self.clock = Clock()
        self.folder = CachedFolder(str(path), limit, ttl, self.clock.seconds)


def test_limit(tmp_path: Path) -> None:
    """
    When the folder is full, the account that was not requested for the longest time is removed.
    """
    folder = World(tmp_path, limit=2).folder
    folder.save(ONE, "1")
    folder.save(TWO, "2")
    assert folder[ONE] == "1"
    folder.save(THREE, "3")
    assert set(folder) == {ONE, THREE}
    assert {path.stem for path in tmp_path.iterdir()} == {ONE, THREE}
    folder.save(ONE, "another")
    assert set(folder) == {ONE, THREE}


def test_defaultLimit(tmp_path: Path) -> None:
    """Without a limit, nats-server's limit applies."""
    folder = World(tmp_path).folder
    assert (folder._most, LIMIT) == (LIMIT, 1000)


def test_ttl(tmp_path: Path) -> None:
    """
    A cached JWT that is not used is removed after its time to live, which begins again with each
    use.
    """
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
    """Without a time to live, a cache removes expired JWTs and files without a JWT."""
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
    """A cache uses the JWTs in its folder at a start, and forgets those that others removed."""
    World(tmp_path).folder.save(ONE, "1")
    world = World(tmp_path, limit=1, ttl=5.0)
    assert world.folder[ONE] == "1"
    (tmp_path / f"{ONE}.jwt").unlink()
    assert world.folder.read() == {ONE}
    world.clock.advance(5)
    world.folder.expire()
    world.folder.save(TWO, "2")
    assert list(world.folder) == [TWO]
