"""
Cases 1 to 18: INFO, CONNECT, the names of operations, blanks and line ends.
"""

from __future__ import annotations

import re

from tests.conformance.rows import CON, UNKNOWN, VIOLATION, Row, ends, stays
from tests.conformance.transcripts import Alive, Closed, Expect, Info, Open, Send

ACCOUNTS = """
accounts {
    A { users: [ { user: a, password: a } ] }
    B { users: [ { user: b, password: b } ] }
}
"""

HI = b"MSG foo 1 2\r\nhi\r\n"

FIRST_INFO = Info(
    {
        "server_id": re.compile("[A-Z2-7]{56}"),
        "server_name": str,
        "version": re.compile(r"2\.\d+\.\d+.*"),
        "proto": 1,
        "host": "127.0.0.1",
        "port": int,
        "headers": True,
        "max_payload": 1048576,
        "client_id": int,
        "client_ip": "127.0.0.1",
    },
    absent=("auth_required", "tls_required", "tls_verify", "connect_info", "ldm", "nonce"),
)

CONNECTED_INFO = Info({"connect_info": True, "remote_account": "$G", "client_id": int})

#: Nothing that a client may say.
UNKNOWN_OPERATIONS = {
    "leading blank": b" PING\r\n",
    "leading tab": b"\tPING\r\n",
    "empty line": b"\r\n",
    "bare LF": b"\n",
    "unknown word": b"FOO\r\n",
    "a letter too few": b"PIN\r\n",
    "MSG": b"MSG foo 1 2\r\nhi\r\n",
    "HMSG": b"HMSG foo 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    "RMSG": b"RMSG $G foo 2\r\nhi\r\n",
    "LMSG": b"LMSG foo 2\r\nhi\r\n",
    "RS+": b"RS+ $G foo\r\n",
    "RS-": b"RS- $G foo\r\n",
    "LS+": b"LS+ foo\r\n",
    "LS-": b"LS- foo\r\n",
    "A+": b"A+ $G\r\n",
    "A-": b"A- $G\r\n",
    "NUL": b"\x00",
    "HTTP GET": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "HTTP POST": b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS ClientHello": bytes.fromhex("1603010200010001fc0303") + bytes(40),
}

BAD_CONNECTS = {
    "cut off": b"CONNECT {\r\n",
    "no JSON": b"CONNECT hello\r\n",
    "no argument": b"CONNECT\r\n",
    "blank argument": b"CONNECT  \r\n",
    "array": b"CONNECT []\r\n",
    "string for a boolean": b'CONNECT {"verbose":"yes"}\r\n',
    "number for a boolean": b'CONNECT {"verbose":1}\r\n',
    "number for a string": b'CONNECT {"user":1}\r\n',
    "string for a number": b'CONNECT {"protocol":"1"}\r\n',
    "fraction for a number": b'CONNECT {"protocol":0.5}\r\n',
    "more after the object": b"CONNECT {}xx\r\n",
    "NaN": b'CONNECT {"protocol":NaN}\r\n',
    "single quotes": b"CONNECT {'verbose':false}\r\n",
    "trailing comma": b'CONNECT {"verbose":false,}\r\n',
}

GOOD_CONNECTS = {
    "unknown field": b'CONNECT {"verbose":false,"zork":{"a":[1,2]}}\r\n',
    "upper case keys": b'CONNECT {"VERBOSE":false}\r\n',
    "the last of two keys counts": b'CONNECT {"verbose":true,"verbose":false}\r\n',
    "the last of two spellings counts": b'CONNECT {"verbose":true,"Verbose":false}\r\n',
    "null keeps what was": b'CONNECT {"verbose":false,"verbose":null,"user":null}\r\n',
    "blanks in the JSON": b'CONNECT \t { "verbose" : false } \r\n',
    "name lang version": b'CONNECT {"verbose":false,"name":"n","lang":"l","version":"1"}\r\n',
    "tls_required on a plain port": b'CONNECT {"verbose":false,"tls_required":true}\r\n',
    "escapes": b'CONNECT {"ver\\u0062ose":false,"name":"\\ud83d\\ude00 \\ud800"}\r\n',
    "credentials that nobody asked for": b'CONNECT {"verbose":false,"user":"u","pass":"p"}\r\n',
}

ROWS = [
    Row(1, "INFO on connecting", (Open(info=FIRST_INFO), Alive())),
    Row(2, "PING before CONNECT", stays(b"PING\r\n", b"PONG\r\n")),
    Row(3, "SUB before CONNECT", stays(b"SUB foo 1\r\nPING\r\n", b"+OK\r\nPONG\r\n")),
    Row(
        4,
        "PUB before CONNECT",
        stays(
            b"SUB foo 1\r\nPUB foo 2\r\nhi\r\nUNSUB 1\r\n",
            b"+OK\r\n+OK\r\n" + HI + b"+OK\r\n",
        ),
    ),
    Row(5, "CONNECT with nothing is verbose", stays(b"CONNECT {}\r\n", b"+OK\r\n")),
    Row(5, "verbose PING", stays(b"CONNECT {}\r\nPING\r\n", b"+OK\r\nPONG\r\n")),
    Row(5, "verbose PONG", stays(b"CONNECT {}\r\nPONG\r\nPING\r\n", b"+OK\r\nPONG\r\n")),
    Row(
        6,
        "verbose order",
        stays(
            b"CONNECT {}\r\nSUB foo 1\r\nPUB foo 2\r\nhi\r\nUNSUB 1\r\nPING\r\n",
            b"+OK\r\n+OK\r\n+OK\r\n" + HI + b"+OK\r\nPONG\r\n",
        ),
    ),
    Row(
        7,
        "operations in any case",
        stays(
            b'connect {"verbose":false}\r\nsub foo 1\r\nPuB foo 2\r\nhi\r\n'
            b"ping\r\nunSUB 1\r\npOnG\r\n",
            HI + b"PONG\r\n",
        ),
    ),
    Row(
        7,
        "HPUB in any case",
        stays(
            b'Connect {"verbose":false,"headers":true}\r\nSub foo 1\r\n'
            b"hPuB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
            b"HMSG foo 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
        ),
    ),
    Row(
        8,
        "INFO after the first PING",
        stays(b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n', b"PONG\r\n", CONNECTED_INFO),
    ),
    Row(
        8,
        "PING then CONNECT then PING",
        (
            *stays(b"PING\r\n", b"PONG\r\n"),
            *stays(
                b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n', b"PONG\r\n", CONNECTED_INFO
            ),
        ),
    ),
    Row(
        8,
        "no INFO for protocol 0",
        stays(b'CONNECT {"verbose":false,"protocol":0}\r\nPING\r\n', b"PONG\r\n"),
    ),
    Row(
        9,
        "tabs and runs of blanks",
        stays(CON + b"SUB \t foo   1 \r\nPUB\tfoo  2\r\nhi\r\n", HI),
    ),
    Row(
        9,
        "trailing blanks",
        stays(CON + b"SUB foo 1 \t \r\nPUB foo 2  \t\r\nhi\r\nUNSUB 1 \r\n", HI),
    ),
    Row(
        9,
        "tabs in UNSUB and a reply",
        stays(
            CON + b"SUB\tfoo\t1\r\nUNSUB\t 1 \t1\r\nPUB\tfoo\tr\t2\t\r\nhi\r\nPUB foo 2\r\nhi\r\n",
            b"MSG foo 1 r 2\r\nhi\r\n",
        ),
    ),
    Row(
        10,
        "lines that end in LF",
        stays(CON + b"SUB foo 1\nPUB foo 2\nhi\r\nPING\n", HI + b"PONG\r\n"),
    ),
    Row(
        10,
        "CONNECT that ends in LF",
        stays(b'CONNECT {"verbose":false}\nPING\n', b"PONG\r\n"),
    ),
    Row(
        10,
        "payload that ends in LF",
        ends(CON + b"SUB foo 1\r\nPUB foo 2\r\nhi\nPING\r\n", UNKNOWN),
    ),
    Row(
        11,
        "PING with more behind it",
        stays(CON + b"PING foo\r\nPINGX\r\nPING\r\n", b"PONG\r\nPONG\r\nPONG\r\n"),
    ),
    Row(11, "PONG with more behind it", stays(CON + b"PONG foo\r\nPONGX\r\nPONG\r\n")),
    *(Row(12, name, ends(CON + sent, UNKNOWN)) for name, sent in UNKNOWN_OPERATIONS.items()),
    Row(12, "unknown word before CONNECT", ends(b"FOO\r\n", UNKNOWN)),
    Row(13, "INFO from a client", stays(CON + b"INFO {}\r\n")),
    Row(13, "+OK from a client", stays(CON + b"+OK\r\n")),
    Row(13, "INFO with bad JSON from a client", ends(CON + b"INFO {bad\r\n")),
    Row(13, "-ERR from a client", ends(CON + b"-ERR 'x'\r\n")),
    *(Row(14, f"CONNECT {name}", ends(sent)) for name, sent in BAD_CONNECTS.items()),
    *(Row(14, f"CONNECT {name}", stays(sent)) for name, sent in GOOD_CONNECTS.items()),
    *(
        Row(
            15,
            f"protocol {number}",
            ends(
                b'CONNECT {"verbose":false,"protocol":%d}\r\n' % number,
                b"-ERR 'invalid client protocol'\r\n",
            ),
        )
        for number in (2, -1)
    ),
    Row(
        16,
        "no_responders without headers",
        ends(
            b'CONNECT {"verbose":false,"no_responders":true}\r\n',
            b"-ERR 'no responders requires headers support'\r\n",
        ),
    ),
    Row(17, "account in CONNECT", ends(b'CONNECT {"account":"X"}\r\n', VIOLATION)),
    Row(
        18,
        "second CONNECT drops subscriptions",
        stays(CON + b"SUB foo 1\r\n" + CON + b"PUB foo 2\r\nhi\r\n"),
    ),
    Row(
        18,
        "sid is free after a second CONNECT",
        stays(CON + b"SUB foo 1\r\n" + CON + b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n", HI),
    ),
    Row(
        18,
        "second CONNECT changes options",
        stays(
            CON + b'CONNECT {"verbose":true}\r\nSUB foo 1\r\n' + CON + b"SUB foo 1\r\n",
            b"+OK\r\n+OK\r\n",
        ),
    ),
    Row(
        18,
        "second CONNECT keeps the options that it does not name",
        stays(
            b'CONNECT {"verbose":false,"echo":false}\r\nCONNECT {}\r\nSUB foo 1\r\n'
            b'PUB foo 0\r\n\r\nCONNECT {"echo":true}\r\nSUB foo 1\r\nPUB foo 0\r\n\r\n',
            b"MSG foo 1 0\r\n\r\n",
        ),
    ),
    Row(
        18,
        "second CONNECT changes the account",
        (
            Send(b'CONNECT {"verbose":false,"user":"a","pass":"a"}\r\nSUB foo 1\r\n'),
            Send(b'CONNECT {"verbose":false,"user":"b","pass":"b"}\r\nSUB foo 2\r\n'),
            Alive(),
            Send(b'CONNECT {"verbose":false,"user":"a","pass":"a"}\r\nPUB foo 1\r\na\r\n', "x"),
            Alive("x"),
            Alive(),
            Send(b'CONNECT {"verbose":false,"user":"b","pass":"b"}\r\nPUB foo 1\r\nb\r\n', "y"),
            Alive("y"),
            Expect(b"MSG foo 2 1\r\nb\r\n"),
            Alive(),
        ),
        config=ACCOUNTS,
    ),
    Row(
        18,
        "second CONNECT with a wrong password",
        (
            Send(b'CONNECT {"verbose":false,"user":"a","pass":"a"}\r\nSUB foo 1\r\n'),
            Alive(),
            Send(b'CONNECT {"verbose":false,"user":"a","pass":"wrong"}\r\nPUB foo 1\r\nx\r\n'),
            Expect(VIOLATION),
            Closed(),
        ),
        config=ACCOUNTS,
    ),
]
