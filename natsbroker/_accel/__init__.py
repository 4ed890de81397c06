"""
The compiled twins of the hot names, in L{natsbroker._accel.lane} where they were compiled.
"""
