"""
Operation codes.
"""

from __future__ import annotations

from natsbroker.wire import ops
from natsbroker.wire.dialects import client
from natsbroker.wire.lines import HEAD, SKIP, STRIP


def codes() -> dict[str, int]:
    """
    @return: every operation code by its name in the module.
    """
    return {name: value for name, value in vars(ops).items() if type(value) is int}


def test_codesDiffer() -> None:
    """No two operations, and no marker of the line parser, have the same code."""
    values = [*codes().values(), HEAD, SKIP, STRIP]
    assert len(set(values)) == len(values)


def test_spellings() -> None:
    """Every operation on the wire has a spelling; faults and internal operations have none."""
    assert set(codes().values()) - set(ops.NAMES) == {ops.FAULT, ops.ANNOUNCED}
    assert ops.NAMES[ops.OK] == b"+OK"
    assert ops.NAMES[ops.ERR] == b"-ERR"


def test_dialectAgrees() -> None:
    """The client dialect reads every spelling in the table, except those of servers' lines."""
    read = {op: name for name, (op, _) in client.LINE_OPERATIONS.items()}
    read |= {op: name for name, op in client.BARE_OPERATIONS.items()}
    servers = {ops.MSG, ops.HMSG, ops.RMSG, ops.LMSG}
    servers |= {ops.RS_PLUS, ops.RS_MINUS, ops.LS_PLUS, ops.LS_MINUS, ops.A_PLUS, ops.A_MINUS}
    assert read | {op: ops.NAMES[op] for op in servers} == ops.NAMES
    assert not servers & set(read)
