"""
A blocking client for Spark workers: connections, pipelined publishes, clients of NATS Streaming.
"""
