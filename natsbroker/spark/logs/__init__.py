"""
Streams and channels: their state, ranges of sequences, and what reads these as Arrow batches.
"""
