"""
The order in which the addresses of a remote are dialled.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from nacl.signing import VerifyKey

from natsbroker.auth.nkeys import decodeSignature
from natsbroker.config.addresses import RemoteURL
from natsbroker.config.settings.leafnodes import RemoteLeaf
from natsbroker.leafnodes.remote import LeafRemote
from natsbroker.wire.nkeys import Role, decodeKey
from tests.leafnodes.keys import SEED

A, B, C = RemoteURL("a.example", 1, "u", "p"), RemoteURL("10.0.0.2", 2), RemoteURL("10.0.0.3", 3)


def remote(*urls: RemoteURL, shuffled: bool = False, seed: int = 1) -> LeafRemote:
    """A remote to dial."""
    return LeafRemote(
        RemoteLeaf(tuple(map(_text, urls)), no_randomize=not shuffled), None, Random(seed)
    )


def _text(url: RemoteURL) -> str:
    login = f"{url.user}:{url.password}@" if url.user else ""
    return f"nats://{login}{url}"


def test_turns() -> None:
    """Addresses are dialled in turn."""
    target = remote(A, B, C)
    assert [target.next() for _ in range(4)] == [A, B, C, A]
    single = remote(A)
    assert [single.next() for _ in range(2)] == [A, A]


def test_dialledAddressInLog() -> None:
    """The log has the dialled address without the login."""
    target = remote(A, B)
    names = [
        f'as leafnode to remote server "{address}"' for address in ("a.example:1", "10.0.0.2:2")
    ]
    for name in names:
        target.next()
        assert str(target) == name


def test_shuffled() -> None:
    """The order of addresses is random by default."""
    firsts = {remote(A, B, C, shuffled=True, seed=seed).next() for seed in range(20)}
    assert firsts == {A, B, C}


def test_learned() -> None:
    """An announced address is dialled before those of the settings, each once."""
    target = remote(A)
    target.next()
    target.learn([C, RemoteURL("a.example", 1)])
    assert target.urls == [C, A] and target.next() == C
    target.learn([])
    assert target.urls == [A]


def test_login() -> None:
    """An announced address without a user uses the login of the settings."""
    target = remote(A)
    target.next()
    target.learn([C])
    target.next()
    assert target.login() == RemoteURL("10.0.0.3", 3, "u", "p")
    plain = remote(B)
    plain.next()
    assert plain.login() == B


def test_nameForCertificate() -> None:
    """A certificate is checked for the dialled host name, or for the first known one."""
    target = remote(A, B)
    assert target.next() == A and target.name == "a.example"
    assert target.next() == B and target.name == "a.example"
    bare = remote(B)
    assert bare.next() == B and bare.name == "10.0.0.2"
    bare.learn([RemoteURL("b.example", 5)])
    assert bare.next() and bare.name == "b.example"


def test_delay() -> None:
    """A delay applies to the next attempt only."""
    target = remote(A)
    target.delay = 30.0
    assert (target.takeDelay(), target.takeDelay()) == (30.0, 0.0)


class TestCredentials:
    """The signature in a remote's CONNECT."""

    def remote(self, **more: str) -> LeafRemote:
        """A remote with credentials."""
        return LeafRemote(RemoteLeaf(("h",), **more), None, Random(1))  # type: ignore[arg-type]

    def test_noCredentials(self) -> None:
        """Without credentials no signature is sent."""
        assert self.remote().credentials("n") == {}

    def test_key(self) -> None:
        """A seed signs the nonce."""
        said = self.remote(nkey=SEED).credentials("nonce")
        key = VerifyKey(decodeKey(said["nkey"], Role.USER))
        assert key.verify(b"nonce", decodeSignature(said["sig"])) == b"nonce"

    def test_credentials(self, tmp_path: Path) -> None:
        """The seed in a credentials file, which also has a JWT, signs the nonce."""
        path = tmp_path / "u.creds"
        path.write_text(
            "-----BEGIN NATS USER JWT-----\nJ.W.T\n------END NATS USER JWT------\n\nimportant\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
        )
        said = self.remote(credentials=str(path)).credentials("nonce")
        assert said["jwt"] == "J.W.T" and "nkey" not in said and said["sig"]

    @pytest.mark.parametrize(
        "text", [None, "nothing", "---a---\nx\n---b---\n---c---\ny\n---d---\n"]
    )
    def test_badCredentials(self, tmp_path: Path, text: str | None) -> None:
        """An unreadable credentials file is named in an error without any of its content."""
        path = tmp_path / "u.creds"
        if text is not None:
            path.write_text(text)
        with pytest.raises(ValueError, match=r"u\.creds"):
            self.remote(credentials=str(path)).credentials("nonce")
