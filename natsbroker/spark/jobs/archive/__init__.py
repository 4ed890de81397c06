"""
The jobs on archives: C{archive}, C{compact}, C{vacuum}, C{verify}, C{lag} and C{tiered}.
"""
