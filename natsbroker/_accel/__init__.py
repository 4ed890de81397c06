"""The compiled twins of the hot names, in C{natsbroker._accel.lane} where they were compiled."""
