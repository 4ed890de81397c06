"""
Logins and permissions, with real clients and beside nats-server.
"""
