"""
What C{natsbroker spark JOB} does, each also as a function.
"""
