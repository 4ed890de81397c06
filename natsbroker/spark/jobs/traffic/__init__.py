"""
The jobs C{traffic} and C{interest}, which sum up the broker's events.
"""
