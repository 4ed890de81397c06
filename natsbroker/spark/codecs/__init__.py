"""
How payloads are read: JSON, Avro and Protobuf, into columns of Spark's types.
"""
