"""
The data source C{natsbroker} on PySpark's Python interfaces.
"""
