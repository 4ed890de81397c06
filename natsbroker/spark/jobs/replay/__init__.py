"""
The job C{replay}.
"""
