"""
JetStream: streams that keep messages, consumers that deliver them, and the API for both.
"""
