"""
Tests of L{natsbroker.auth.operator.folders}.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from natsbroker.auth.nkeys import NkeyError
from natsbroker.auth.operator.folders import Deletion, FolderError, TokenFolder
from natsbroker.auth.operator.tokens import LONGEST
from tests.auth.operator.chain import KeyPair

ONE, TWO = KeyPair("A").key, KeyPair("A").key


class TestSaving:
    """What is kept."""

    def test_saved(self, tmp_path: Path) -> None:
        """A JWT is in a file of its own that is named after the account, and nothing else is."""
        folder = TokenFolder(str(tmp_path / "a" / "b"))
        assert folder.save(ONE, "jwt") is True
        assert [each.name for each in (tmp_path / "a" / "b").iterdir()] == [f"{ONE}.jwt"]
        assert (tmp_path / "a" / "b" / f"{ONE}.jwt").read_text() == "jwt"
        assert (folder[ONE], ONE in folder, list(folder), len(folder)) == ("jwt", True, [ONE], 1)

    def test_private(self, tmp_path: Path) -> None:
        """Folder and files are for their owner alone."""
        TokenFolder(str(tmp_path / "jwt")).save(ONE, "jwt")
        assert (tmp_path / "jwt").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "jwt" / f"{ONE}.jwt").stat().st_mode & 0o777 == 0o600

    def test_again(self, tmp_path: Path) -> None:
        """The same JWT again is no change, another one is."""
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
        """What is no account's key never becomes part of a path (CVE-2022-28357)."""
        (tmp_path / "jwt").mkdir()
        (tmp_path / "x.jwt").write_text("outside")
        folder = TokenFolder(str(tmp_path / "jwt"), deletion=Deletion.REMOVED)
        with pytest.raises(NkeyError):
            folder.save(name, "jwt")
        with pytest.raises(NkeyError):
            folder.delete(name)
        assert name not in folder
        assert sorted(each.name for each in tmp_path.rglob("*")) == ["jwt", "x.jwt"]

    def test_limit(self, tmp_path: Path) -> None:
        """A folder that is full takes no other account, but changes of those that it has."""
        folder = TokenFolder(str(tmp_path), limit=1)
        folder.save(ONE, "jwt")
        with pytest.raises(FolderError):
            folder.save(TWO, "jwt")
        assert folder.save(ONE, "other") is True

    def test_digest(self, tmp_path: Path) -> None:
        """The digest is that of nats-server: all hashes, whatever their order."""
        folder = TokenFolder(str(tmp_path))
        assert folder.digest == bytes(32)
        folder.save(ONE, "a")
        folder.save(TWO, "b")
        one, two = hashlib.sha256(b"a").digest(), hashlib.sha256(b"b").digest()
        assert folder.digest == bytes(a ^ b for a, b in zip(one, two, strict=True))


class TestReading:
    """What is there already."""

    def test_onlyJWTs(self, tmp_path: Path) -> None:
        """Files that are none of ours are neither read nor touched."""
        (tmp_path / f"{ONE}.jwt").write_text(" jwt\n")
        (tmp_path / "README.jwt").write_text("x")
        (tmp_path / f"{TWO}.jwt.deleted").write_text("x")
        (tmp_path / f"{TWO}.jwt").mkdir()
        folder = TokenFolder(str(tmp_path))
        assert {account: folder[account] for account in folder} == {ONE: "jwt"}
        assert len(list(tmp_path.iterdir())) == 4

    @pytest.mark.parametrize("data", [b"", b"\xff\xfe", b" \n", b"x" * (LONGEST + 1)])
    def test_damaged(self, data: bytes, tmp_path: Path) -> None:
        """A file that cannot be understood is left alone."""
        file = tmp_path / f"{ONE}.jwt"
        file.write_bytes(data)
        folder = TokenFolder(str(tmp_path))
        assert len(folder) == 0
        assert file.read_bytes() == data

    def test_again(self, tmp_path: Path) -> None:
        """Reading again tells what others changed."""
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
        """A folder that cannot be made is an error at the beginning."""
        (tmp_path / "file").touch()
        with pytest.raises(OSError):
            TokenFolder(str(tmp_path / "file"))


class TestDeleting:
    """What shall be no more."""

    def test_refused(self, tmp_path: Path) -> None:
        """Unless it is allowed, nothing is deleted."""
        folder = TokenFolder(str(tmp_path))
        folder.save(ONE, "jwt")
        with pytest.raises(FolderError):
            folder.delete(ONE)
        assert folder[ONE] == "jwt"

    @pytest.mark.parametrize(
        ("deletion", "left"), [(Deletion.RENAMED, [f"{ONE}.jwt.deleted"]), (Deletion.REMOVED, [])]
    )
    def test_deleted(self, deletion: Deletion, left: list[str], tmp_path: Path) -> None:
        """A file is renamed, or removed, as the settings say."""
        folder = TokenFolder(str(tmp_path), deletion=deletion)
        folder.save(ONE, "jwt")
        assert folder.delete(ONE) is True
        assert folder.delete(ONE) is False
        assert (ONE in folder, [each.name for each in tmp_path.iterdir()]) == (False, left)
