"""
Tests for L{natsbroker.ocsp.staples}, with responders in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from natsbroker.ocsp.fetching import Responders
from natsbroker.ocsp.responses import OCSPError, Status, readAnswer
from natsbroker.ocsp.staples import Staple
from tests.ocsp.authorities import NOW, REVOKED, authority, certified
from tests.ocsp.responders import FakeAgent
from tests.server.support import logLines

OURS = authority()

CERTIFICATE = certified(OURS).certificate


class Stapled:
    """A staple and its responder, with a count of revocations."""

    def __init__(self, folder: Path | None = None, isStrict: bool = True) -> None:
        self.clock = Clock()
        self.clock.advance(NOW.timestamp())
        self.agent = FakeAgent(OURS, self.clock.seconds)
        self.agent.known = [CERTIFICATE]
        self.ends = 0
        self.folder = folder
        self.isStrict = isStrict
        self.staple = self.another()

    def another(self) -> Staple:
        """Another stapler for the same listener, as after a restart."""
        responders = Responders(self.clock, lambda: self.agent)  # type: ignore[arg-type, return-value]
        return Staple(
            self.clock,
            responders,
            CERTIFICATE,
            OURS.certificate,
            (),
            "server.pem",
            self.folder,
            self.isStrict,
            self._end,
        )

    def _end(self) -> None:
        self.ends += 1

    def prepare(self) -> Any:
        """Get ready."""
        results: list[Any] = []
        ensureDeferred(self.staple.prepare()).addBoth(results.append)
        (result,) = results
        return result


def test_current() -> None:
    """A client is shown the responder's response."""
    stapled = Stapled()
    assert stapled.staple.current == b"" and stapled.prepare() is None
    answer = readAnswer(stapled.staple.current, CERTIFICATE, OURS.certificate)
    assert answer.status is Status.GOOD


def test_refresh() -> None:
    """A staple is fetched again after half of its validity, each time."""
    stapled = Stapled()
    stapled.prepare()
    first = stapled.staple.current
    stapled.clock.advance(1799)
    assert stapled.staple.current == first
    stapled.clock.advance(2)
    second = stapled.staple.current
    assert second and second != first
    stapled.clock.advance(1801)
    assert stapled.staple.current not in (b"", first, second)
    stapled.staple.stop()
    assert not stapled.clock.getDelayedCalls()


def test_silence() -> None:
    """While the responder is unreachable, the last response is stapled until it expires."""
    stapled = Stapled()
    stapled.prepare()
    stapled.agent.isDown = True
    with logLines() as lines:
        stapled.clock.advance(1801)
    assert any("Bad OCSP status update for certificate 'server.pem'" in line for line in lines)
    assert stapled.staple.current
    for _ in range(40):
        stapled.clock.advance(120)
    assert stapled.staple.current == b""
    stapled.agent.isDown = False
    stapled.clock.advance(121)
    assert stapled.staple.current


def test_noStart() -> None:
    """Without a valid response, the listener does not start, and the error has the reason."""
    stapled = Stapled()
    stapled.agent.isDown = True
    failed = stapled.prepare()
    assert isinstance(failed, Failure) and failed.check(OCSPError)
    assert failed.getErrorMessage().startswith(
        "bad OCSP status update for certificate at 'server.pem': "
    )
    stapled = Stapled()
    stapled.agent.status = REVOKED
    assert (
        stapled.prepare().getErrorMessage()
        == "found existing OCSP status for certificate at 'server.pem': revoked"
    )


@pytest.mark.parametrize("isStrict", [True, False])
def test_revoked(isStrict: bool) -> None:
    """
    If the certificate is revoked, a strict broker ends. Otherwise the response is shown to clients.
    """
    stapled = Stapled(isStrict=isStrict)
    stapled.prepare()
    stapled.agent.status = REVOKED
    with logLines() as lines:
        stapled.clock.advance(1801)
    assert stapled.ends == (1 if isStrict else 0)
    assert any("revoked" in line for line in lines)
    if not isStrict:
        answer = readAnswer(stapled.staple.current, CERTIFICATE, OURS.certificate)
        assert answer.status is Status.REVOKED


def test_folder(tmp_path: Path) -> None:
    """A response that was kept serves a start, while it counts."""
    stapled = Stapled(tmp_path / "ocsp")
    stapled.prepare()
    stapled.staple.stop()
    stapled.agent.isDown = True
    stapled.staple = stapled.another()
    assert stapled.prepare() is None and stapled.staple.current
    stapled.staple.stop()
    stapled.clock.advance(3601)
    stapled.staple = stapled.another()
    assert isinstance(stapled.prepare(), Failure)


def test_unwritable(tmp_path: Path) -> None:
    """A folder that cannot be written is reported in the log, and the listener starts."""
    (tmp_path / "ocsp").write_text("a file")
    stapled = Stapled(tmp_path / "ocsp")
    with logLines() as lines:
        assert stapled.prepare() is None and stapled.staple.current
    assert any("failed to write ocsp status" in line for line in lines)


def test_start() -> None:
    """If connections exist, as after a reload, the response comes as soon as possible."""
    stapled = Stapled()
    stapled.agent.waiting = []
    stapled.staple.start()
    assert stapled.staple.current == b""
    stapled.agent.release()
    assert stapled.staple.current
    stapled.staple.stop()
    stapled.agent.waiting = []
    stopped = stapled.another()
    stopped.start()
    stopped.stop()
    assert not stapled.clock.getDelayedCalls()
