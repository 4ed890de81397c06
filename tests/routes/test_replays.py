"""
The recorded lines of gnatsd 1.4.1 and 0.9.4 on routes, which natsbroker sends too. Each row is a
transcript with a raw peer, or with one of two gnatsd, the one that we do not play.

A row with C{ours:} in it differs from gnatsd, for the reason that stands there.
"""

from __future__ import annotations

import pytest

from tests.routes.replays import Replay

ROWS = {
    "01 a new peer receives the interest": """
        sub p pre.exist
        sub q pre.q workers
        accept
        -> nothing
        <- HELLO
        => SUB pre.exist  {p}
        => SUB pre.q workers {q}
    """,
    "01 our clients subscribe": """
        accept
        <- HELLO
        sub foo foo
        -> SUB foo  {foo}
        sub bar bar G1
        -> SUB bar G1 {bar}
        <- MSG foo {foo} 5
        <- hello
        <- MSG foo {foo} INBOX.22 11
        <- Knock_Knock
        <- MSG foo {foo} 0
        <- ''
        got foo hello Knock_Knock ''
        <- MSG bar {bar} 5
        <- hello
        got bar hello
        got foo
        unsub foo
        -> UNSUB {foo}
        unsub bar
        -> UNSUB {bar}
    """,
    "01 the peer's clients subscribe": """
        accept
        <- HELLO
        <- SUB foo  RSID:3:1
        <- SUB bar G1 QRSID:3:2
        pub foo hello
        -> MSG foo RSID:3:1 5
        -> hello
        pub foo INBOX.22 Knock
        -> MSG foo RSID:3:1 INBOX.22 5
        -> Knock
        pub foo 0
        -> MSG foo RSID:3:1 1
        -> 0
        pub nobody x
        -> nothing
        pub bar hello
        -> MSG bar QRSID:3:2 5
        -> hello
        <- UNSUB RSID:3:1
        pub foo x
        -> nothing
        <- UNSUB QRSID:3:2
        pub bar x
        -> nothing
    """,
    "01 a maximum of our client": """
        accept
        <- HELLO
        sub m max.t
        max m 2
        -> SUB max.t  {m}
        <- MSG max.t {m} 1
        <- 0
        -> nothing
        <- MSG max.t {m} 1
        <- 1
        -> UNSUB {m}
        <- MSG max.t {m} 1
        <- 2
        got m 0 1
        sub late m1
        -> SUB m1  {late}
        <- MSG m1 {late} 1
        <- x
        max late 1
        -> UNSUB {late}
        got late x
    """,
    "01-094 a maximum that the peer tells": """
        accept
        <- HELLO
        <- SUB max.t  RSID:3:3
        <- UNSUB RSID:3:3 2
        pub max.t 0
        -> MSG max.t RSID:3:3 1
        -> 0
        pub max.t 1
        -> MSG max.t RSID:3:3 1
        -> 1
        <- UNSUB RSID:3:3
        pub max.t 2
        -> nothing
    """,
    "01 the client of a peer is lost": """
        accept
        <- HELLO
        <- SUB cl.one  RSID:3:5
        <- SUB cl.two Q QRSID:3:6
        <- SUB cl.*  RSID:3:7
        <- UNSUB QRSID:3:6
        <- UNSUB RSID:3:7
        pub cl.two x
        -> nothing
        pub cl.one x
        -> MSG cl.one RSID:3:5 1
        -> x
        <- UNSUB RSID:3:5
        pub cl.one x
        -> nothing
    """,
    "02 a wrong password": """
        node user=ruser password=s3cr3t
        accept
        <- CONNECT+{"user": "ruser", "pass": "wrong"}
        -> -ERR 'Authorization Violation'
        closed
    """,
    "02 silence": """
        node user=ruser password=s3cr3t
        accept
        wait 0.9
        open
        wait 0.2
        -> -ERR 'Authorization Timeout'  # 1.4.1 has it in lower case, the document as we
        closed
    """,
    "02 INFO before CONNECT": """
        node user=ruser password=s3cr3t
        accept
        <- INFO+{}
        -> -ERR 'Authorization Violation'
        closed
    """,
    "02 PING before CONNECT": """
        node user=ruser password=s3cr3t
        accept
        <- PING
        -> -ERR 'Authorization Violation'
        closed
    """,
    "02 CONNECT in lower case": """
        node user=ruser password=s3cr3t
        accept
        <- connect {"name":"PEER","user":"ruser","pass":"s3cr3t","auth_token":"x","protocol":7}
        <- INFO+{}
        <- PING
        -> PONG
        open
    """,
    "04 one message for all plain subscriptions": """
        accept
        <- HELLO
        sub a foo
        sub b foo
        sub c *
        -> SUB foo  {a}
        -> SUB *  {c}
        <- MSG foo {a} 1
        <- x
        got a x
        got b x
        got c x
        unsub a
        -> nothing
        unsub b
        -> UNSUB {a}
    """,
    "04 the same from us": """
        accept
        <- HELLO
        <- SUB foo  RSID:3:1
        <- SUB foo  RSID:3:2
        <- SUB foo  RSID:4:1
        pub foo x
        -> MSG foo RSID:3:1 1
        -> x
        <- UNSUB RSID:3:1
        pub foo x
        -> MSG foo RSID:3:2 1
        -> x
    """,
    "04 two groups, a plain one, and a group by a wildcard": """
        accept
        <- HELLO
        <- SUB job W QRSID:3:11
        <- SUB job V QRSID:3:13
        <- SUB job  RSID:3:14
        <- SUB * X QRSID:3:15
        pub job RE.PLY z
        -> MSG job RSID:3:14 RE.PLY 1
        -> z
        => MSG job QRSID:3:11 RE.PLY 1
        => z
        => MSG job QRSID:3:13 RE.PLY 1
        => z
        => MSG job QRSID:3:15 RE.PLY 1
        => z
    """,
    "04 the same to us": """
        accept
        <- HELLO
        sub w job W
        sub v job V
        sub p job
        sub x * X
        => SUB job W {w}
        => SUB job V {v}
        => SUB job  {p}
        => SUB * X {x}
        <- MSG job {p} RE.PLY 1
        <- z
        <- MSG job {w} RE.PLY 1
        <- z
        <- MSG job {v} RE.PLY 1
        <- z
        <- MSG job {x} RE.PLY 1
        <- z
        got p z
        got w z
        got v z
        got x z
    """,
    "04 the members of a group have their turns": """
        accept
        <- HELLO
        <- SUB job W QRSID:3:11
        <- SUB job W QRSID:3:12
        pub job 1
        -> MSG job QRSID:3:11 1
        -> 1
        pub job 2
        -> MSG job QRSID:3:12 1
        -> 2
        sub w job W
        -> SUB job W {w}
        pub job 3   # ours: a member here has it
        -> nothing
        got w 3
    """,
    "04 sids with colons": """
        accept
        <- HELLO
        <- SUB o1  RSID:3:a:b
        <- SUB o2 OQ QRSID:3:c:d
        pub o1 x
        -> MSG o1 RSID:3:a:b 1
        -> x
        pub o2 y
        -> MSG o2 QRSID:3:c:d 1
        -> y
    """,
    "05-1 INFO alone": """
        sub pre pre
        accept
        <- INFO+{}
        -> SUB pre  {pre}
        <- SUB hi RSID:1:1
        pub hi ok
        -> MSG hi RSID:1:1 2
        -> ok
    """,
    "05-2 CONNECT alone": """
        accept
        <- CONNECT+{}
        <- SUB hi RSID:1:1
        pub hi ok
        -> MSG hi RSID:1:1 2
        -> ok
    """,
    "05-3 neither": """
        sub pre pre
        accept
        <- SUB hi RSID:1:1
        -> -ERR 'Unknown Protocol Operation'  # ours: gnatsd serves nobody either, and stays silent
        closed
    """,
    "05-4 two names": """
        sub pre pre
        accept
        <- CONNECT+{"name": "NAMEONE"}
        <- INFO+{"server_id": "NAMETWO"}
        -> nothing
        closed  # ours: gnatsd ignores such a peer for as long as it likes
    """,
    "05-5 INFO before CONNECT": """
        sub pre pre
        accept
        <- INFO+{}
        <- CONNECT+{}
        -> SUB pre  {pre}
        open
    """,
    "05-6 a client on the wrong port": """
        accept
        <- CONNECT+{"lang": "python", "version": "1.0"}
        -> -ERR 'attempted to connect to route port'
        closed
    """,
    "05-7 an INFO with nothing in it": """
        sub pre pre
        accept
        <- INFO {"server_id":"MIN"}
        -> SUB pre  {pre}
        <- SUB hi RSID:1:1
        pub hi ok
        -> MSG hi RSID:1:1 2
        -> ok
    """,
    "05-8 sids that do not matter": """
        sub pre pre
        sub t t.*
        sub q q Q1
        accept
        <- HELLO
        => SUB pre  {pre}
        => SUB t.*  {t}
        => SUB q Q1 {q}
        <- MSG pre {pre} 2
        <- 8a
        <- MSG t.x RSID:99:99 2
        <- 8b
        <- MSG t.x RSID 2
        <- 8c
        <- MSG t.x 9 INBOX.34 2
        <- 8d
        <- MSG unknown.subject {pre} 2
        <- 8e
        got pre 8a
        got t 8b 8c 8d
        got q
    """,
    "05-9 sids that do": """
        sub pre pre
        sub q q Q1
        sub plain q
        accept
        <- HELLO
        => SUB pre  {pre}
        => SUB q Q1 {q}
        => SUB q  {plain}
        <- MSG q {q} 2
        <- 9a
        got q 9a
        got plain
        <- MSG pre {q} 2
        <- 9b
        got pre
        got q  # ours: gnatsd gives it to that member whatever it is subscribed to
        <- MSG q QRSID:999:3 2
        <- 9d
        <- MSG q QRSID 2
        <- 9e
        got q
        got plain
        <- MSG q {plain} 2
        <- 9f
        got plain 9f
        got q
    """,
    "05-10 PUB": """
        sub t t.*
        sub q q Q1
        sub pre pre
        accept
        <- HELLO
        => SUB t.*  {t}
        => SUB q Q1 {q}
        => SUB pre  {pre}
        <- PUB pre 3
        <- 10a
        got pre 10a
        <- PUB q 3
        <- 10b
        got q
        <- MSG q {q} 1
        <- x
        <- PUB pre 3
        <- 10c
        got q x
        got pre 10c
        <- PUB t.z RE.PLY 3
        <- 10d
        got t 10d
        <- SUB own RSID:5:5
        <- SUB ownq G QRSID:5:6
        <- PUB own 1
        <- x
        <- PUB ownq 1
        <- x
        <- MSG own RSID:1:1 1
        <- x
        -> nothing
    """,
    "05-11 case and blanks": """
        sub pre pre
        accept
        <- HELLO
        -> SUB pre  {pre}
        <- sub\\tlower\\t\\tRSID:1:9
        <- sUb up  g  QRSID:1:10\x20
        <- ping
        -> PONG
        pub lower x
        -> MSG lower RSID:1:9 1
        -> x
        pub up y
        -> MSG up QRSID:1:10 1
        -> y
        <- unsub \\t RSID:1:9
        <- msg   pre\\t{pre}   1
        <- m
        got pre m
        pub lower x
        -> nothing
        <- SUB lf RSID:1:11\\nPING\\n
        -> PONG
        pub lf x
        -> MSG lf RSID:1:11 1
        -> x
    """,
    "05-12 a sid twice, and one that is unknown": """
        accept
        <- HELLO
        <- SUB d1 RSID:1:1
        <- SUB d2 RSID:1:1
        pub d1 x
        -> MSG d1 RSID:1:1 1
        -> x
        pub d2 x
        -> nothing
        <- UNSUB RSID:9:9
        <- UNSUB RSID:1:1 2
        pub d1 0
        -> MSG d1 RSID:1:1 1
        -> 0
        pub d1 1
        -> nothing
        <- SUB d1 RSID:1:1
        pub d1 z
        -> MSG d1 RSID:1:1 1
        -> z
    """,
    "05-13 verbose": """
        sub pre pre
        accept
        <- CONNECT+{"verbose": true}
        -> +OK
        <- INFO+{}
        -> SUB pre  {pre}
        <- SUB v RSID:1:1
        -> +OK
        <- UNSUB RSID:1:1
        -> +OK
        <- MSG pre {pre} 1
        <- x
        -> +OK
        <- PUB pre 1
        <- y
        -> +OK
        <- PING
        -> PONG
        got pre x y
    """,
    "05-14 subjects that are none": """
        sub t t.*
        accept
        <- HELLO
        -> SUB t.*  {t}
        <- SUB a..b RSID:1:1
        <- SUB foo. RSID:1:2
        <- SUB >.x RSID:1:3
        <- PING
        -> -ERR 'Invalid Subject'
        -> -ERR 'Invalid Subject'
        -> -ERR 'Invalid Subject'
        -> PONG
        <- MSG t.* {t} 1
        <- x
        <- MSG t..x {t} 1
        <- x
        <- PING
        -> PONG
        got t x
    """,
    "05-15 +OK": """
        accept
        <- HELLO
        <- +OK
        <- PING
        -> PONG
    """,
    "05-15 Invalid Subject": """
        accept
        <- HELLO
        <- -ERR 'Invalid Subject'
        <- PING
        -> PONG  # ours, as the document says; gnatsd closes for any -ERR
        open
    """,
    "05-15 another error": """
        accept
        <- HELLO
        <- -ERR anything
        -> nothing
        closed
    """,
    "05-16 larger than clients may send": """
        sub pre pre
        accept
        <- HELLO
        -> SUB pre  {pre}
        <- MSG pre {pre} 11
        <- hello_world
        <- PUB pre 11
        <- hello_world
        got pre hello_world hello_world
    """,
    "05-18 a client": """
        accept
        <- CONNECT {"verbose":false,"pedantic":false,"lang":"python","version":"2.0","protocol":1}
        -> -ERR 'attempted to connect to route port'
        closed
    """,
    "05-19 ourselves": """
        accept
        <- CONNECT+{"name": "ID-n1"}
        <- INFO+{"server_id": "ID-n1"}
        -> nothing
        closed
    """,
    "05-20 the same peer twice": """
        accept X
        accept Y
        <- HELLO
        <- @Y HELLO
        closed Y
        open X
        <- PING
        -> PONG
    """,
    "06-3 a peer that answers no PING": """
        accept
        <- HELLO
        wait 6
        -> PING
        -> PING
        -> -ERR 'Stale Connection'
        closed
    """,
    "06-4 the INFO for clients that comes with the first PONG": """
        accept
        <- HELLO
        <- PING
        -> PONG
        <- INFO+{"port": 18101, "client_id": 4}
        <- SUB hi RSID:1:1
        pub hi ok
        -> MSG hi RSID:1:1 2
        -> ok
        open
    """,
    "09 permissions": """
        node import=imp.>,both.* export=exp.>,both.*
        sub a imp.a
        sub b exp.a
        sub c both.x
        sub d other
        accept
        <- HELLO
        => SUB imp.a  {a}
        => SUB both.x  {c}
        -> nothing
        <- SUB exp.a  RSID:3:1
        <- SUB imp.a  RSID:3:3
        <- SUB other  RSID:3:4
        <- SUB both.y  RSID:3:5
        pub exp.a x
        -> MSG exp.a RSID:3:1 1
        -> x
        pub imp.a x
        pub other x
        -> nothing
        got a x
        got d x
        <- MSG other {a} 1
        <- y
        got d y
        unsub d
        -> nothing
    """,
    "11 a server since 2.0": """
        accept
        <- CONNECT+{"headers": true, "cluster": "C1", "lnoc": true}
        <- INFO+{"proto": 2, "headers": true, "cluster": "C1"}
        -> -ERR 'Rejecting connection, routes speak the classic dialect here'  # ours: gnatsd joins
        closed
    """,
    "11 its operations": """
        accept
        <- HELLO
        <- RS+ $G onv2
        -> -ERR 'Unknown Protocol Operation'
        closed
    """,
    "13-1 a member of the group is gone, and another here": """
        sub one q W
        sub two q W
        accept
        <- HELLO
        -> SUB q W QRSID:1:1
        -> SUB q W QRSID:1:2
        unsub one
        -> UNSUB QRSID:1:2
        <- MSG q QRSID:1:2 1
        <- a
        got two a
    """,
    "13-2 the others of the group are elsewhere": """
        sub one q W
        accept X
        <- HELLO
        -> SUB q W {one}
        unsub one
        -> UNSUB {one}
        <- SUB q W QRSID:7:7
        <- MSG q {one} 1
        <- 0
        -> MSG q QRSID:7:7 1
        -> 0
    """,
    "14 what only servers may say, to the oldest": """
        accept
        <- CONNECT+{}
        <- INFO+{"proto": 0, "version": "0.9.4"}
        <- SUB > RSID:1:1
        pub _SYS.foo x
        -> nothing
        pub SYS.foo x
        -> MSG SYS.foo RSID:1:1 1
        -> x
    """,
    "14 the same to others": """
        sub s _SYS.foo
        accept
        <- HELLO
        -> SUB _SYS.foo  {s}  # ours: 1.4.1 tells of no such interest
        <- SUB _SYS.> RSID:1:1
        pub _SYS.foo x
        -> MSG _SYS.foo RSID:1:1 1
        -> x
        <- MSG _SYS.foo {s} 1
        <- y
        got s x y
    """,
    "16-1 the syntax line of the document": """
        accept
        <- HELLO
        <- SUB a RSID:5:1
        <- UNSUB 1 RSID:5:1
        pub a x
        -> nothing  # ours: gnatsd takes it for nothing
    """,
    "16-2 sids of the other kind": """
        accept
        <- HELLO
        <- SUB qa G RSID:5:2
        <- SUB qb QRSID:5:3
        pub qa x
        -> MSG qa RSID:5:2 1
        -> x
        pub qb y
        -> MSG qb QRSID:5:3 1
        -> y
    """,
    "16-3 sids of any kind": """
        accept
        <- HELLO
        <- SUB s1 RSID:abc:def
        <- SUB s2 G QRSID:zz:yy
        <- SUB s3 9
        pub s1 x
        -> MSG s1 RSID:abc:def 1
        -> x
        pub s2 y
        -> MSG s2 QRSID:zz:yy 1
        -> y
        pub s3 z
        -> MSG s3 9 1
        -> z
    """,
    "16-5 a maximum that is reached already": """
        accept
        <- HELLO
        <- SUB dsp  RSID:5:9
        pub dsp x
        -> MSG dsp RSID:5:9 1
        -> x
        <- UNSUB RSID:5:9 1
        pub dsp y
        -> nothing
    """,
    "17 a second INFO": """
        accept
        <- HELLO
        <- INFO+{}
        <- PING
        -> PONG
        open
    """,
}

#: What ends a connection, and what is said for it: as 0.9.4 and the document have it. 1.4.1 says
#: nothing where these say C{Parser Error}.
WRONG = {
    "FOO bar": "Unknown Protocol Operation",
    "RS+ foo": "Unknown Protocol Operation",
    "SUB": "Unknown Protocol Operation",
    "SUB only": "Parser Error",
    "SUB a b c d": "Parser Error",
    "UNSUB a b c": "Parser Error",
    "MSG foo RSID:1:1": "Parser Error",
    "MSG foo RSID:1:1 abc": "Parser Error",
    "MSG foo RSID:1:1 -1": "Parser Error",
    "MSG pre RSID:2:1 2\\r\\nabcdef": "Unknown Protocol Operation",
    "PUB foo": "Parser Error",
    "INFO not-json": "Parser Error",
    "CONNECT {bad": "Parser Error",
    "HMSG foo RSID:1:1 1 1": "Unknown Protocol Operation",
    "SUB " + "a" * 5000 + " RSID:1:1": "Maximum Control Line Exceeded",
}


@pytest.mark.parametrize("row", ROWS)
def test_replay(row: str) -> None:
    """A replayed conversation has the recorded lines."""
    Replay().run(ROWS[row])


@pytest.mark.parametrize("line", WRONG, ids=lambda line: line[:40])
def test_malformedLines(line: str) -> None:
    """A malformed line is answered, and ends the connection."""
    Replay().run(f"""
        accept
        <- HELLO
        <- {line}
        -> -ERR '{WRONG[line]}'
        closed
    """)
