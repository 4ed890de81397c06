"""
Cases 18, 53 and 65: accepted logins, their users, and the effect of a second CONNECT.
"""

from __future__ import annotations

from tests.conformance.rows import VIOLATION, Deviation, Row, ends, stays
from tests.conformance.steps import Finish
from tests.conformance.tables.permissions import FREE, USERS, login
from tests.conformance.transcripts import Alive, Closed, Expect, Info, Open, Send, Wait

ONE_USER = "authorization { user: u, password: p, timeout: 0.5 }\n"
TOKEN = "authorization { token: s3cret }\n"
GUEST = """
authorization { users: [ { user: guest, password: g }, { user: u, password: p } ] }
no_auth_user: guest
"""

BAD_LOGINS = {
    "no credentials": b'CONNECT {"verbose":false}\r\n',
    "wrong password": b'CONNECT {"verbose":false,"user":"u","pass":"x"}\r\n',
    "no password": b'CONNECT {"verbose":false,"user":"u"}\r\n',
    "empty password": b'CONNECT {"verbose":false,"user":"u","pass":""}\r\n',
    "unknown user": b'CONNECT {"verbose":false,"user":"x","pass":"p"}\r\n',
    "user as token": b'CONNECT {"verbose":false,"auth_token":"p"}\r\n',
    "verbose without credentials": b"CONNECT {}\r\n",
}

LOGINS = [
    Row(
        53, "INFO says so", (Open(info=Info({"auth_required": True}, absent=("nonce",))),), ONE_USER
    ),
    *(
        Row(53, f"{sent.split()[0].decode()} first", ends(sent, VIOLATION), ONE_USER)
        for sent in (
            b"PING\r\n",
            b"SUB foo 1\r\n",
            b"PUB foo 0\r\n\r\n",
            b"UNSUB 1\r\n",
            b"PONG\r\n",
        )
    ),
    Row(53, "unknown word first", ends(b"FOO\r\n", VIOLATION), ONE_USER),
    *(Row(53, name, ends(sent, VIOLATION), ONE_USER) for name, sent in BAD_LOGINS.items()),
    Row(53, "good login", stays(b'CONNECT {"verbose":false,"user":"u","pass":"p"}\r\n'), ONE_USER),
    Row(
        53,
        "keys in any case",
        stays(b'CONNECT {"verbose":false,"USER":"u","Pass":"p"}\r\n'),
        ONE_USER,
    ),
    Row(
        53,
        "verbose good login",
        stays(b'CONNECT {"user":"u","pass":"p"}\r\nPING\r\n', b"+OK\r\nPONG\r\n"),
        ONE_USER,
    ),
    Row(
        53,
        "silence",
        (Open(), Wait(0.5), Expect(b"-ERR 'Authentication Timeout'\r\n"), Closed()),
        ONE_USER,
    ),
    Row(
        53,
        "half a CONNECT",
        (Send(b"CONNECT {"), Wait(0.5), Expect(b"-ERR 'Authentication Timeout'\r\n"), Closed()),
        ONE_USER,
    ),
    Row(53, "good token", stays(b'CONNECT {"verbose":false,"auth_token":"s3cret"}\r\n'), TOKEN),
    Row(53, "bad token", ends(b'CONNECT {"verbose":false,"auth_token":"x"}\r\n', VIOLATION), TOKEN),
    Row(
        53,
        "token as user",
        ends(b'CONNECT {"verbose":false,"user":"s3cret"}\r\n', VIOLATION),
        TOKEN,
    ),
    Row(
        53,
        "token as password",
        ends(b'CONNECT {"verbose":false,"user":"s3cret","pass":"s3cret"}\r\n', VIOLATION),
        TOKEN,
    ),
    Row(
        53,
        "bcrypt password",
        stays(b'CONNECT {"verbose":false,"user":"hashed","pass":"s3cret"}\r\n'),
        USERS,
    ),
    Row(
        53,
        "bcrypt password of a client that sends no more",
        (
            Send(b'CONNECT {"verbose":false,"user":"hashed","pass":"s3cret"}\r\n'),
            Send(b"SUB foo 1\r\nPUB foo 1\r\na\r\nPING\r\n"),
            Finish(),
            Expect(b"MSG foo 1 1\r\na\r\nPONG\r\n"),
            Closed(),
        ),
        USERS,
    ),
    Row(
        53,
        "wrong bcrypt password",
        ends(b'CONNECT {"verbose":false,"user":"hashed","pass":"S3cret"}\r\n', VIOLATION),
        USERS,
    ),
    Row(
        53,
        "two clients of two users hear each other",
        (
            Send(FREE + b"SUB foo 1\r\n"),
            Alive(),
            Send(login("w") + b"PUB foo 1\r\na\r\n", "w"),
            Alive("w"),
            Expect(b"MSG foo 1 1\r\na\r\n"),
            Alive(),
        ),
        USERS,
    ),
    Row(
        65,
        "INFO of a server with a guest user",
        (Open(info=Info(absent=("auth_required",))), Alive()),
        GUEST,
    ),
    Row(
        65,
        "guest is verbose until CONNECT",
        stays(
            b"PING\r\nSUB foo 1\r\nPUB foo 1\r\na\r\n",
            b"PONG\r\n+OK\r\n+OK\r\nMSG foo 1 1\r\na\r\n",
        ),
        GUEST,
    ),
    Row(65, "guest CONNECT", stays(b'CONNECT {"verbose":false}\r\n'), GUEST),
    Row(
        65,
        "login in place of guest",
        stays(b'CONNECT {"verbose":false,"user":"u","pass":"p"}\r\n'),
        GUEST,
    ),
    Row(
        65,
        "wrong login in place of guest",
        ends(b'CONNECT {"verbose":false,"user":"u","pass":"x"}\r\n', VIOLATION),
        GUEST,
    ),
]

GUESTS = [
    Row(65, "empty user is the guest", stays(b'CONNECT {"verbose":false,"user":""}\r\n'), GUEST),
    *(
        Row(
            65,
            f"{key} alone is no guest",
            ends(b'CONNECT {"verbose":false,"%s":"x"}\r\n' % key.encode(), VIOLATION),
            GUEST,
        )
        for key in ("pass", "auth_token")
    ),
    Row(
        65,
        "CONNECT of a guest is the second one",
        stays(
            b'SUB foo 1\r\nCONNECT {"verbose":false}\r\nPUB foo 0\r\n\r\n'
            b"SUB foo 1\r\nPUB foo 1\r\na\r\n",
            b"+OK\r\nMSG foo 1 1\r\na\r\n",
        ),
        GUEST,
    ),
    Row(
        65,
        "PING of a guest is the first one",
        stays(b'PING\r\nCONNECT {"verbose":false,"protocol":1}\r\nPING\r\n', b"PONG\r\nPONG\r\n"),
        GUEST,
    ),
    Row(
        65,
        "INFO after the first PING of a guest that said CONNECT",
        stays(
            b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n',
            b"PONG\r\n",
            Info({"connect_info": True, "remote_account": "$G"}),
        ),
        GUEST,
    ),
    Row(
        65,
        "login after being the guest",
        stays(b'PING\r\nCONNECT {"verbose":false,"user":"u","pass":"p"}\r\n', b"PONG\r\n"),
        GUEST,
    ),
    Row(
        65,
        "wrong login after being the guest",
        ends(
            b'PING\r\nCONNECT {"verbose":false,"user":"u","pass":"x"}\r\n', b"PONG\r\n" + VIOLATION
        ),
        GUEST,
    ),
    Row(
        65,
        "a guest stays one with a token",
        stays(b'CONNECT {"verbose":false}\r\nCONNECT {"auth_token":"x"}\r\n'),
        GUEST,
        deviation=Deviation(
            "wrong credentials are refused after a CONNECT without any",
            ends(b'CONNECT {"verbose":false}\r\nCONNECT {"auth_token":"x"}\r\n', VIOLATION),
        ),
    ),
    Row(
        18,
        "second CONNECT keeps the credentials that it does not name",
        stays(
            b'CONNECT {"verbose":false,"user":"u","pass":"p"}\r\nSUB foo 1\r\n'
            b'CONNECT {"echo":true}\r\nPUB foo 0\r\n\r\n'
        ),
        ONE_USER,
    ),
    Row(
        18,
        "second CONNECT with another user's name and the old password",
        ends(
            b'CONNECT {"verbose":false,"user":"u","pass":"p"}\r\nCONNECT {"user":"x"}\r\n',
            VIOLATION,
        ),
        ONE_USER,
    ),
]

#: Every user of an account hears only that account.
ACCOUNTS = """
accounts {
    A { users: [ { user: a, password: a } ] }
    B { users: [ { user: b, password: b } ] }
}
"""

ISOLATION = [
    Row(
        53,
        "accounts are apart",
        (
            Send(login("a") + b"SUB > 1\r\n"),
            Alive(),
            Send(login("b") + b"SUB > 1\r\nPUB foo 1\r\nb\r\n", "b"),
            Expect(b"MSG foo 1 1\r\nb\r\n", on="b"),
            Alive("b"),
            Alive(),
        ),
        ACCOUNTS,
    ),
    Row(
        53,
        "remote_account names the account",
        stays(
            login("a", more=',"protocol":1') + b"PING\r\n",
            b"PONG\r\n",
            Info({"connect_info": True, "remote_account": "A"}),
        ),
        ACCOUNTS,
    ),
]

ROWS = [*LOGINS, *GUESTS, *ISOLATION]
