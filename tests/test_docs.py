"""
The documentation is executed, and its references are checked.
"""

from __future__ import annotations

import doctest
import io
import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.documents import FENCE, blocksOf

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "natsbroker"

LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)(?:\s+\"[^\"]*\")?\)")
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#+\s+(?P<text>.+?)\s*#*$", re.M)


def proseOf(document: str) -> str:
    """
    @return: C{document} without its fenced blocks and code spans.
    """
    return CODE.sub("", FENCE.sub("", document))


def linksOf(document: str) -> list[str]:
    """
    @return: the targets of all links in C{document} that stay inside the project.
    """
    targets = [link["target"] for link in LINK.finditer(proseOf(document))]
    return [target for target in targets if not re.match(r"[a-z][a-z0-9+.-]*:", target)]


def anchorsOf(document: str) -> set[str]:
    """
    @return: the fragment of every heading, as Markdown hosts make them: lower case, blanks to
        hyphens, other punctuation dropped.
    """
    headings = [heading["text"].lower() for heading in HEADING.finditer(FENCE.sub("", document))]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def brokenLinks(path: Path, document: str) -> list[str]:
    """
    @return: the links of C{document}, read from C{path}, that lead nowhere.
    """
    broken = []
    for link in linksOf(document):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        text = target.read_text("utf-8") if target.is_file() and anchor else ""
        if not target.exists() or (anchor and anchor not in anchorsOf(text)):
            broken.append(link)
    return broken


def missingFiles(document: str) -> list[str]:
    """
    @return: the source files in code spans of C{document} that do not exist, without those that the
        document tells the reader to write.
    """
    written = {block.file for block in blocksOf(document)}
    named = re.findall(r"`((?:[\w.-]+/)+[\w-]+\.(?:pyx?|pxi))`", FENCE.sub("", document))
    return [
        path
        for path in named
        if path not in written and not (ROOT / path).exists() and not (PACKAGE / path).exists()
    ]


def examplesOf(name: str, document: str) -> doctest.DocTest:
    """
    @return: all C{>>>} examples of C{document} as one test, which share their names.
    """
    parser = doctest.DocTestParser()
    examples = []
    for block in blocksOf(document):
        for example in parser.get_examples(block.text, name):
            example.lineno += block.line
            examples.append(example)
    return doctest.DocTest(examples, {"__name__": "__main__"}, name, name, 0, document)


def run(test: doctest.DocTest) -> str:
    """
    @return: the failures of C{test}, or C{""}.
    """
    report = io.StringIO()
    runner = doctest.DocTestRunner(
        verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    result = runner.run(test, out=report.write)
    return report.getvalue() if result.failed else ""


def documents() -> list[Path]:
    """
    @return: every Markdown document of the project.
    """
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    for folder in ("examples", "benchmarks", "tests"):
        pages += ROOT.glob(f"{folder}/*.md")
    return sorted(pages)


def named(paths: list[Path]) -> list[object]:
    """
    @return: C{paths} as test parameters, named by their paths in the project.
    """
    return [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in paths]


@pytest.mark.parametrize("path", named(documents()))
class TestDocuments:
    """Each document by itself."""

    def test_examplesRun(self, path: Path) -> None:
        """The examples of a document have the shown results."""
        assert run(examplesOf(path.name, path.read_text("utf-8"))) == ""

    def test_examplesAreFenced(self, path: Path) -> None:
        """Examples are in fenced blocks, where they are found and run."""
        assert ">>>" not in proseOf(path.read_text("utf-8"))

    def test_linksLead(self, path: Path) -> None:
        """Links inside the project lead to existing files and headings."""
        assert brokenLinks(path, path.read_text("utf-8")) == []

    def test_filesExist(self, path: Path) -> None:
        """Source files that the text names exist, at the top or inside the package."""
        assert missingFiles(path.read_text("utf-8")) == []


def test_everyPageIsReachable() -> None:
    """Every page under docs is reached from the index by following links."""
    pages = set((ROOT / "docs").rglob("*.md"))
    seen: set[Path] = set()
    waiting = [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in pages and page not in seen:
            seen.add(page)
            links = linksOf(page.read_text("utf-8"))
            waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links]
    assert sorted(page.relative_to(ROOT).as_posix() for page in pages - seen) == []


def test_readmeCommandIsWhatRunsInCI() -> None:
    """README's second command is the one that continuous integration runs."""
    readme = (ROOT / "README.md").read_text("utf-8")
    start, check = [block.text.strip() for block in blocksOf(readme) if block.kind == "sh"][:2]
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    commands = [line for line in script.splitlines() if line and not line.startswith("#")]
    assert commands[-1] == f"exec {check}"
    for command in (start, check):
        interpreter, option, module = command.split()
        assert (interpreter, option) == ("python3", "-m")
        assert find_spec(module) is not None


def test_readmeFigures() -> None:
    """The figures in README are those of the page on performance."""
    page = (ROOT / "docs" / "topics" / "performance.md").read_text("utf-8")
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    (row,) = re.findall(r"^\| 1 to 1, 128 B \| ([\d.]+) \|.*\| ([\d.]+) \|$", page, re.M)[:1]
    compiled, pure = (f"{float(ratio):.1f}" for ratio in row)
    assert f"{compiled} times as many messages of 128 bytes as nats-server" in readme
    assert f"{pure} times as many in pure Python" in readme


def test_workflowRunsCI() -> None:
    """The workflow of the code host runs the script of continuous integration, and nothing else."""
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    # Without an "if" the job runs for every change, and "on" is a truth to YAML.
    assert "if" not in job and {"push", "pull_request"} <= workflow[True].keys()


PAGE = """# A Page: with *marks*

See [this](#a-page-with-marks), [that](missing.md), [home](https://example.com/x) and
[bad](#nowhere), not `[code](code.md)`.

```python
>>> answer = 6 * 7
```

Then, in the same session:

```python
>>> answer
{}
```
"""


class TestReaderItself:
    """The checks of documents themselves, on an invented page."""

    def test_rightExamplePasses(self) -> None:
        """Examples of one document share their names, and pass if they print the shown output."""
        assert run(examplesOf("page", PAGE.format("42"))) == ""

    def test_wrongExampleFails(self) -> None:
        """An example that prints something else is reported with its line."""
        report = run(examplesOf("page", PAGE.format("43")))
        assert "Got:" in report
        assert "line 13" in report

    def test_brokenLinks(self, tmp_path: Path) -> None:
        """Links to missing files and headings are reported, and others are not."""
        page = tmp_path / "page.md"
        page.write_text(PAGE, "utf-8")
        assert brokenLinks(page, PAGE) == ["missing.md", "#nowhere"]

    def test_missingFiles(self) -> None:
        """Source files that do not exist are reported, and others are not."""
        text = "`wire/decoder.py`, `tests/test_docs.py`, `docs/x.md`, `wire/nothing.py`"
        assert missingFiles(text) == ["wire/nothing.py"]
