"""
Rules for every test: its markers, the examples that Hypothesis tries, and logged failures.

A test that ends with a L{Failure} in Twisted's log, without having fetched it with the
C{flushLoggedErrors} fixture, fails and shows the traceback. Tests of C{twisted.trial} use trial's
own rule, which is the same. The package's pytest fixtures are available whether or not the package
is installed.
"""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import _pytest.unittest
import pytest
from hypothesis import settings
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from tests.postgresql import postgres, postgresOfClass
from tests.reach import INTEROP, POSTGRES, ROOT, SPARK
from tests.support import Names, using

__all__ = ["postgres", "postgresOfClass"]

# The tests' helpers check with asserts too. Those of a rewritten module count with python -O.
pytest.register_assert_rewrite(
    *(
        f"tests.{path.stem}"
        for path in Path(__file__).parent.iterdir()
        if path.stem.isidentifier() and f"tests.{path.stem}" not in sys.modules
    )
)

FlushLoggedErrors = Callable[..., list[Failure]]

NOT_UNIT = tuple(ROOT / place for place in (INTEROP, SPARK, POSTGRES))
"""Directories without unit tests."""

REALTIME = (
    ROOT / INTEROP,
    *(
        ROOT / SPARK / name
        for name in (
            "test_archivekilling.py",
            "test_connection.py",
            "test_killing.py",
            "test_localcluster.py",
            "test_pushing.py",
            "test_streaming.py",
        )
    ),
)
"""Directories and files whose tests depend on how soon other programs and clocks act."""

NOT_REALTIME = tuple(
    ROOT / INTEROP / name
    for name in (
        "auth/differential",
        "test_differential.py",
        "test_rows_natsbroker.py",
        "test_rows_real_server.py",
        "test_typecheckers.py",
    )
)
"""Those among them that compare answers, whenever these come."""

NOT_UNIT_FIXTURES = frozenset({"postgres", "postgresOfClass"})

SHIPPED_PLUGIN = "natsbroker.testing.pytestplugin"

# No test is judged by how long it took. All checks together repeat the same examples, so that what
# they find belongs to the change, and half as many as a run of pytest by hand, which looks for new
# ones.
_SAME = bool(os.environ.get("CI") or os.environ.get("NATSBROKER_SAME_EXAMPLES"))
settings.register_profile(
    "natsbroker",
    settings(settings.default, deadline=None, derandomize=_SAME, max_examples=50 if _SAME else 100),
)
settings.register_profile("unit", settings(settings.get_profile("natsbroker"), max_examples=20))
settings.load_profile("natsbroker")

# A shell starts what it puts into the background with SIGINT ignored, and programs that tests start
# would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """
    Load the shipped pytest plugin from the source tree where no installed package announced it,
    and spare each test a slow look-up.
    """
    # What is collected stays: until it is all there, looking for garbage only takes time.
    gc.disable()
    if config.getoption("markexpr") == "unit":
        settings.load_profile("unit")
    # pytest looks up Twisted's version for each test, in a file that it parses each time: 2 ms.
    lookUp = getattr(_pytest.unittest, "_get_twisted_version", None)
    if lookUp is not None:
        _pytest.unittest._get_twisted_version = functools.cache(lookUp)
    if config.pluginmanager.has_plugin("natsbroker"):
        return
    if importlib.util.find_spec(SHIPPED_PLUGIN) is not None:
        config.pluginmanager.register(importlib.import_module(SHIPPED_PLUGIN), "natsbroker")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With C{-m unit}, ignore the directories whose tests need further packages."""
    elsewhere = collection_path in NOT_UNIT and config.getoption("markexpr") == "unit"
    return True if elsewhere else None


def pytest_collection_finish() -> None:
    """Keep the garbage collector from visiting all collected tests again and again."""
    _freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """
    Freeze the remaining objects at the end of each module too. A broker that a test leaves stays in
    memory, because the compiled subscriptions in it are not visited. The objects of the module's
    fixtures are gone by then.
    """
    result = yield
    if nextitem is not None and nextitem.path != item.path:
        _freeze()
    return result


def _freeze() -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """
    Mark as C{unit} every test that its directory, its fixtures or a mark do not exclude, and as
    C{realtime} the tests in certain directories.
    """
    for item in items:
        places = {item.path, *item.path.parents}
        if places.intersection(REALTIME) and not places.intersection(NOT_REALTIME):
            item.add_marker("realtime")
        if not (
            places.intersection(NOT_UNIT)
            or item.get_closest_marker("slow")
            or NOT_UNIT_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        ):
            item.add_marker("unit")


@implementer(ILogObserver)
class FailureCollector:
    """
    Keeps every L{Failure} that is logged.

    @ivar failures: those that no test has flushed, oldest first.
    """

    def __init__(self) -> None:
        self.failures: list[Failure] = []

    def __call__(self, event: LogEvent) -> None:
        failure = event.get("log_failure", event.get("failure"))  # the second: twisted.python.log
        if isinstance(failure, Failure):
            self.failures.append(failure)

    def flush(self, *types: type[BaseException]) -> list[Failure]:
        """
        @param types: the exceptions to fetch; all of them by default.
        @return: the failures fetched, which no longer fail the test.
        """
        wanted = types or (BaseException,)
        flushed = [failure for failure in self.failures if isinstance(failure.value, wanted)]
        self.failures = [failure for failure in self.failures if failure not in flushed]
        return flushed


@pytest.fixture(autouse=True)
def flushLoggedErrors(request: pytest.FixtureRequest) -> Iterator[FlushLoggedErrors]:
    """
    @return: a function of exception types, like trial's method of this name: it returns the
        failures of those types that were logged so far, which no longer fail the test.
    """
    collector = FailureCollector()
    globalLogPublisher.addObserver(collector)
    try:
        yield collector.flush
    finally:
        globalLogPublisher.removeObserver(collector)
    if collector.failures and not isinstance(request.instance, SynchronousTestCase):
        traces = "\n".join(failure.getTraceback() for failure in collector.failures)
        pytest.fail(f"{len(collector.failures)} failure(s) logged and not flushed:\n{traces}")


@pytest.fixture
def implementation(names: Names) -> Iterator[Names]:
    """Use the implementation of the hot names under test."""
    with using(names):
        yield names
