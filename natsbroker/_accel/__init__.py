"""The compiled versions of the hot names, in C{natsbroker._accel.lane} if that is compiled."""
