"""
The text of files.
"""

from __future__ import annotations

from pathlib import Path

from natsbroker.config.files import readText


def test_readText(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 survive as surrogate escapes; line ends stay as they are."""
    path = tmp_path / "s.conf"
    path.write_bytes(b"a: \xff\r\n")
    assert readText(str(path)) == "a: \udcff\r\n"
