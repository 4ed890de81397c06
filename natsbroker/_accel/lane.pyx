# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""
The compiled twins of the hot names, and the lane in front of the readable path.

One extension module, so that its classes see each other's insides; its parts are files of their
own, in the order in which they build on each other.

What the pure modules promise; where this module is not sure, it declines and the
readable path decides. No Python object is made for a message.
"""

from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject, Py_INCREF
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

cimport cython

import os
from operator import attrgetter

from natsbroker.pure import backlog
from natsbroker.wire import ops
from natsbroker.pure.backlog import WorkQueue
from natsbroker.wire.reach import MASKS
from natsbroker.wire.lines import CLIENT, HEAD, SKIP, STRIP
from natsbroker.pure.outbox import CLOSED, frameFor
from natsbroker.subjects.requests import isRequest
from natsbroker.wire.values import AckRun, Message, Run
from natsbroker import errors

cdef extern from "<strings.h>" nogil:
    int strncasecmp(const char*, const char*, size_t)

include "hashing.pxi"
include "flushbatches.pxi"
include "outbox.pxi"
include "loans.pxi"
include "subscriptions.pxi"
include "matching.pxi"
include "indexing.pxi"
include "decoding.pxi"
include "framing.pxi"
include "collecting.pxi"
include "acknowledging.pxi"
include "repeats.pxi"
include "forwarding.pxi"
include "clientlane.pxi"
include "clientdelivery.pxi"
include "linklane.pxi"
include "linkdelivery.pxi"
include "storedmessages.pxi"
include "internalpublishing.pxi"
include "sockets/sealing.pxi"
include "storage/syncing.pxi"
include "sockets/connections.pxi"
include "sockets/polling.pxi"
include "blocks.pxi"
include "storage/records.pxi"
include "storage/selecting.pxi"
include "storage/gathering.pxi"
include "storage/finding.pxi"
include "streaming.pxi"
include "streampublishing.pxi"
include "directget.pxi"
