"""
Logins and permissions, with real clients and compared with nats-server.
"""
