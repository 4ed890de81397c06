"""
Who is let in, and what they may do, with real clients and beside nats-server.
"""
