Leafnodes: the `leafnodes` block makes a broker a hub, a spoke, or both, of natsbroker and of nats-server, with TLS, every kind of credentials, permissions, and detection of loops.
