"""
The values of JetStream without I/O: configurations, requests, answers and errors.
"""
