"""
Tests of L{natsbroker.auth.operator.exchangeclaims}.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.auth.fields import FieldError, Fields
from natsbroker.auth.operator.exchangeclaims import (
    ExportClaim,
    readExports,
    readImports,
    readMappings,
)
from natsbroker.config.settings.accounts import (
    SINGLETON,
    Latency,
    MappingDestination,
    ServiceExport,
    ServiceImport,
    StreamImport,
    SubjectMapping,
)
from tests.auth.operator.chain import Account, KeyPair, Operator, claimsOf, token

OPERATOR = Operator()
EXPORTER, IMPORTER = Account(OPERATOR), Account(OPERATOR)


def fieldsOf(**members: Any) -> Fields:
    """
    An object of JSON.
    """
    return Fields.parse(json.dumps(members).encode())


def activation(
    signer: KeyPair = EXPORTER,
    about: str = IMPORTER.key,
    **nats: Any,
) -> str:
    """
    An activation token for the importer's stream C{a.>}.
    """
    given = {"subject": "a.>", "kind": "stream", **nats}
    return token(signer, claimsOf("activation", signer, about, given))


class TestExports:
    """Exports of an account."""

    def test_export(self) -> None:
        """An export is read with all its fields."""
        (export,) = readExports(
            fieldsOf(
                exports=[
                    {
                        "subject": "svc.*.x",
                        "type": "service",
                        "token_req": True,
                        "revocations": {"*": 5},
                        "response_type": "Singleton",
                        "response_threshold": 7,
                        "service_latency": {"sampling": 50, "results": "lat"},
                        "account_token_position": 2,
                        "allow_trace": True,
                    }
                ]
            )
        )
        service = ServiceExport("svc.*.x", None, 2, SINGLETON, 7e-9, Latency("lat", 50), True)
        assert export == ExportClaim(service, True, {"*": 5})

    @pytest.mark.parametrize(
        "changes",
        [
            {"subject": ""},
            {"subject": "a..b"},
            {"subject": None},
            {"type": "other"},
            {"type": None},
            {"response_type": "Many"},
            {"type": "stream", "response_type": "Stream"},
            {"type": "stream", "response_threshold": 1},
            {"response_threshold": -1},
            {"service_latency": {"sampling": 101, "results": "x"}},
            {"service_latency": {"sampling": -1, "results": "x"}},
            {"service_latency": {"sampling": "often", "results": "x"}},
            {"service_latency": {"sampling": 1, "results": "x.*"}},
            {"service_latency": {"sampling": 1}},
            {"account_token_position": 1},
            {"account_token_position": 3},
            {"account_token_position": -1},
            {"account_token_position": 2**62},
            {"revocations": ["x"]},
        ],
    )
    def test_invalidExport(self, changes: dict[str, Any]) -> None:
        """A JWT with an invalid export is refused."""
        entry = {"subject": "a.*", "type": "service", **changes}
        with pytest.raises(FieldError):
            readExports(fieldsOf(exports=[entry]))

    def test_noneAmongThem(self) -> None:
        """A JWT with an export that is C{null} is refused."""
        with pytest.raises(FieldError):
            readExports(fieldsOf(exports=[None]))

    def test_covering(self) -> None:
        """Two exports of the same type may not overlap. Exports of different types may."""
        stream, service = (
            {"subject": "a.>", "type": "stream"},
            {"subject": "a.b", "type": "service"},
        )
        assert len(readExports(fieldsOf(exports=[stream, service]))) == 2
        with pytest.raises(FieldError):
            readExports(fieldsOf(exports=[stream, {**service, "type": "stream"}]))
        with pytest.raises(FieldError):
            readExports(fieldsOf(exports=[stream, stream]))


class TestImports:
    """Imports of an account."""

    def read(self, **changes: Any) -> Any:
        """
        Read one import of the stream C{a.b}.
        """
        entry = {"subject": "a.b", "type": "stream", "account": EXPORTER.key, **changes}
        (imported,) = readImports(fieldsOf(imports=[entry]), IMPORTER.key)
        return imported

    def test_imports(self) -> None:
        """An import is read with all its fields."""
        imported = self.read(local_subject="b.c", share=True, allow_trace=True, token=activation())
        assert imported.wanted == StreamImport(EXPORTER.key, "a.b", "b.c", True)
        assert imported.activation.subject == IMPORTER.key
        service = self.read(type="service", local_subject="b.c", share=True)
        assert service.wanted == ServiceImport(EXPORTER.key, "a.b", "b.c", True)

    @pytest.mark.parametrize(
        "changes",
        [
            {"subject": ""},
            {"subject": "a..b"},
            {"type": ""},
            {"account": ""},
            {"account": None},
            {"to": "a", "local_subject": "b"},
            {"to": "a..b"},
            {"local_subject": "b..c"},
            {"token": "x"},
            {"token": 1},
        ],
    )
    def test_invalidImport(self, changes: dict[str, Any]) -> None:
        """A JWT with an invalid import is refused."""
        with pytest.raises(FieldError):
            self.read(**changes)

    def test_activations(self) -> None:
        """An import is activated by a token of the exporter, or of one of its signing keys."""
        signed = activation(EXPORTER.signing, issuer_account=EXPORTER.key)
        for text in (activation(), signed, activation(subject="a.b")):
            assert self.read(token=text).activation.subject == IMPORTER.key

    @pytest.mark.parametrize(
        "other",
        [
            activation(about=EXPORTER.key),
            activation(about=Account(OPERATOR).key),
            activation(about=""),
            activation(kind="service"),
            activation(kind=""),
            activation(subject="b.>"),
            activation(subject="a.b.c"),
            activation(subject="a"),
            activation(subject=""),
            activation(subject=None),
            activation(EXPORTER.signing),
            activation(IMPORTER),
            activation(EXPORTER.signing, issuer_account=IMPORTER.key),
            activation(IMPORTER, issuer_account=IMPORTER.key),
            IMPORTER.user(KeyPair("U")),
        ],
    )
    def test_activationsOfOthers(self, other: str) -> None:
        """A token for another account, type or subject, or of another exporter, is refused
        (CVE-2021-3127)."""
        with pytest.raises(FieldError):
            self.read(token=other)

    def test_serviceSubject(self) -> None:
        """The activation token of a service import in the old form is for the subject in C{to}."""
        given = {"type": "service", "to": "a.b", "subject": "x"}
        self.read(**given, token=activation(kind="service"))
        with pytest.raises(FieldError):
            self.read(type="service", subject="x", token=activation(kind="service"))


class TestMappings:
    """Subject mappings of an account."""

    def test_mappings(self) -> None:
        """
        Mappings are read with their weights; a destination without a weight has the full weight.
        """
        places = [{"subject": "b", "weight": 40}, {"subject": "c", "cluster": "X"}]
        assert readMappings(fieldsOf(mappings={"a.*": places})) == (
            SubjectMapping("a.*", (MappingDestination("b", 40), MappingDestination("c", 100, "X"))),
        )

    @pytest.mark.parametrize(
        "mappings",
        [
            {"a..b": []},
            {"": []},
            {"a": {}},
            {"a": [{"subject": "b", "weight": 101}]},
            {"a": [{"subject": "b", "weight": -1}]},
            {"a": [None]},
            [],
        ],
    )
    def test_invalidMapping(self, mappings: Any) -> None:
        """A JWT with an invalid mapping is refused."""
        with pytest.raises(FieldError):
            readMappings(fieldsOf(mappings=mappings))
