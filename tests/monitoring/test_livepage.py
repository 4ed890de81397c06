"""Tests for L{natsbroker.monitoring.livepage}."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest

from natsbroker.monitoring.livepage import POLICY
from tests.monitoring.staging import Stage, monitoring

FOLDER = Path(str(files("natsbroker.monitoring"))) / "live"

#: The files of uPlot 1.6.32, as its package on npm has them.
UPLOT = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uPlot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


def served() -> list[Path]:
    """
    The files that a browser may load.
    """
    return [path for path in FOLDER.iterdir() if path.suffix in (".css", ".js", ".svg")]


class TestPage:
    """The document."""

    def test_pageIsServed(self) -> None:
        """The page comes as HTML, with a policy that allows its own origin only."""
        response = Stage().get("/live")
        assert response.status == 200
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        assert response.headers["content-security-policy"] == POLICY
        assert "'unsafe" not in POLICY and "http" not in POLICY and "*" not in POLICY
        assert response.headers["x-content-type-options"] == "nosniff"

    def test_head(self) -> None:
        """HEAD has the length of the page, and no body."""
        response = Stage().get("/live", "HEAD")
        assert response.body == b""
        length = int(response.headers["content-length"])
        assert length == len((FOLDER / "index.html").read_bytes())

    def test_linked(self) -> None:
        """The index links to the page, and not to its files."""
        index = Stage().get("/").body
        assert b'href="/live"' in index
        assert b"main.js" not in index

    def test_basePath(self) -> None:
        """With a base path, the page and its files are available only below that path."""
        stage = Stage(monitoring(http_base_path="/mon"))
        for path in ("/live", "/live/main.js"):
            assert stage.get(f"/mon{path}").status == 200
            assert stage.get(path).status == 404

    def test_otherPagesKeepTheirPolicy(self) -> None:
        """The policy of the other pages lets a browser load nothing."""
        assert Stage().get("/varz").headers["content-security-policy"] == "default-src 'none'"


class TestFiles:
    """The files that the page loads."""

    @pytest.mark.parametrize("path", served(), ids=lambda path: path.name)
    def test_filesAreServed(self, path: Path) -> None:
        """Each file comes with its type, under the same policy."""
        kind = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}[path.suffix]
        response = Stage().get(f"/live/{path.name}")
        assert (response.status, response.body) == (200, path.read_bytes())
        assert response.headers["content-type"].partition(";")[0] == kind
        assert response.headers["content-security-policy"] == POLICY

    @pytest.mark.parametrize(
        "path",
        [
            *("/live/", "/live/nope.js", "/live/uPlot.LICENSE", "/live//main.js", "/livemain.js"),
            *(
                "/live/../model.py",
                "/live/%2e%2e/model.py",
                "/live/live/main.js",
                "/x/live/main.js",
            ),
        ],
    )
    def test_unknownFile(self, path: str) -> None:
        """A path that is not exactly that of a file is not found."""
        assert Stage().get(path).status == 404

    def test_noOtherPlace(self) -> None:
        """The page's own files load nothing from other hosts, and make no HTML from text."""
        for path in [*FOLDER.glob("*.js"), *FOLDER.glob("*.css"), FOLDER / "index.html"]:
            text = path.read_text("utf-8")
            if not path.name.startswith("uPlot"):
                assert not re.search(r"https?:|//\w+\.", text), path.name
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
                assert word not in text, (path.name, word)

    def test_everyFileIsUsed(self) -> None:
        """The scripts and the page name every file of the folder, and no other."""
        sources = [path for path in FOLDER.iterdir() if path.suffix in (".js", ".html")]
        texts = "".join(path.read_text("utf-8") for path in sources if "uPlot" not in path.name)
        named = set(re.findall(r"""["'](?:\./|live/)([\w.]+\.(?:js|css|svg))["']""", texts))
        assert named == {path.name for path in served()}


class TestLibrary:
    """uPlot, which comes with the package."""

    @pytest.mark.parametrize("name", UPLOT)
    def test_digest(self, name: str) -> None:
        """The files are those of the release, unchanged."""
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == UPLOT[name]

    def test_version(self) -> None:
        """The script names its release, and the licence allows its use."""
        first = (FOLDER / "uPlot.iife.min.js").read_text("utf-8").partition("\n")[0]
        assert first == "/*! https://github.com/leeoniya/uPlot (v1.6.32) */"
        assert (FOLDER / "uPlot.LICENSE").read_text("utf-8").startswith("The MIT License (MIT)")
