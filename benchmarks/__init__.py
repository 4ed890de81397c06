"""
Speed and memory beside nats-server, on one machine, in turn: C{python -m benchmarks}.
"""
