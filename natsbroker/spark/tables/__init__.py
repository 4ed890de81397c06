"""
Where the messages of a log are kept as files: archives of Parquet files, Delta and Iceberg tables.
"""
