"""
An INFO line.
"""

from __future__ import annotations

INFO = (
    b'INFO {"server_id":"N","server_name":"n","version":"2.15.1","proto":1,"go":"","host":"h",'
    b'"port":1,"headers":true,"max_payload":9,"client_id":5,"client_ip":"127.0.0.1"} \r\n'
)
