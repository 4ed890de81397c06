"""
The jobs C{migrate} and C{restore}.
"""
