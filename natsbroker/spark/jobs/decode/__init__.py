"""
The job C{decode}.
"""
