"""
The same configuration files and the same attempts on nats-server and on natsbroker.
"""
