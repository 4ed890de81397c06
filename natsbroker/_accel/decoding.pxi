# The twin of natsbroker.wire.decoder: the same frames from a C buffer. Lines are read by the same
# functions as in the pure decoder; publishes mostly never get here, since the lane takes them.

cdef extern from "sys/socket.h" nogil:
    Py_ssize_t recv(int, void*, size_t, int)

# The most bytes of one read, for one connection and for all connections with input, and the size of
# the buffer that they share.
cdef enum:
    READ_SIZE = 262144
    READ_LEAST = 65536
    READ_TOGETHER = 2097152
    SHARED = 1310720
    GONE = -1
    LATER = -2

cdef char* SHARED_BUFFER = NULL
cdef bint SHARED_TAKEN = False


@cython.final
cdef class Decoder:
    cdef char* data
    cdef Py_ssize_t start, stop, capacity
    cdef bint isShared
    cdef tuple head, fault
    cdef int skipping
    cdef public bint announce, authorized, headers
    cdef public Py_ssize_t maxControlLine, maxPayload
    cdef public long long messages, messageBytes, received
    cdef public double heard
    cdef public object dialect

    def __cinit__(self):
        self.data = NULL
        self.start = 0
        self.stop = 0
        self.capacity = 0
        self.isShared = False

    def __init__(self, maxControlLine=4096, maxPayload=1 << 20, dialect=CLIENT):
        self.dialect = dialect
        self.maxControlLine = maxControlLine
        self.maxPayload = maxPayload
        self.authorized = True

    def __dealloc__(self):
        if not self.isShared:
            free(self.data)

    @property
    def pending(self):
        return self.stop - self.start

    @property
    def ahead(self):
        return <unsigned char>self.data[self.start] if self.start < self.stop else -1

    def append(self, bytes data not None):
        cdef Py_ssize_t count = PyBytes_GET_SIZE(data)
        self.received += count
        if self.fault is not None or count == 0:
            return
        self.makeRoom(count)
        memcpy(self.data + self.stop, PyBytes_AS_STRING(data), count)
        self.stop += count

    cdef int makeRoom(self, Py_ssize_t count) except -1:
        cdef Py_ssize_t waiting = self.stop - self.start
        cdef Py_ssize_t wanted
        cdef char* data
        if self.isShared:
            self.leaveShared()
        if self.start and (waiting == 0 or self.stop + count > self.capacity):
            memmove(self.data, self.data + self.start, waiting)
            self.start = 0
            self.stop = waiting
        if self.stop + count > self.capacity:
            wanted = max(self.capacity, 512)
            while wanted < self.stop + count:
                wanted *= 2
            data = <char*> realloc(self.data, wanted)
            if data == NULL:
                raise MemoryError
            self.data = data
            self.capacity = wanted
        return 0

    cdef int prepare(self, Py_ssize_t most) except -1:
        """
        Have room for input: in the shared buffer, behind what was left over, or in our own if that is
        long. L{leaveShared} must be called before anybody else has input.

        @param most: for how many bytes, C{READ_SIZE} at most.
        """
        global SHARED_BUFFER, SHARED_TAKEN
        cdef Py_ssize_t waiting = self.stop - self.start
        if waiting > SHARED - most or (SHARED_TAKEN and not self.isShared):
            self.makeRoom(most)
            return 0
        if SHARED_BUFFER == NULL:
            SHARED_BUFFER = <char*> malloc(SHARED)
            if SHARED_BUFFER == NULL:
                raise MemoryError
        if waiting:
            memmove(SHARED_BUFFER, self.data + self.start, waiting)
        if not self.isShared:
            free(self.data)
        self.data = SHARED_BUFFER
        self.capacity = SHARED
        self.isShared = SHARED_TAKEN = True
        self.start = 0
        self.stop = waiting
        return 0

    cdef inline void came(self, Py_ssize_t count) noexcept:
        self.received += count
        if self.fault is None:
            self.stop += count

    cdef Py_ssize_t receive(self, int fd, Py_ssize_t most) except? -3:
        """
        Read from a socket.

        @param most: how many bytes, C{READ_SIZE} at most.
        @return: how many bytes came; 0 at the end, C{GONE} for an error, C{LATER} for nothing now.
        """
        cdef Py_ssize_t count
        self.prepare(most)
        while True:
            with nogil:
                count = recv(fd, self.data + self.stop, most, 0)
            if count >= 0:
                break
            if errno == EINTR:
                continue
            return LATER if errno == EAGAIN else GONE
        self.came(count)
        return count

    cdef int leaveShared(self) except -1:
        """
        Take what is left over into a buffer of our own.
        """
        global SHARED_TAKEN
        cdef Py_ssize_t waiting = self.stop - self.start
        cdef char* data = NULL
        if not self.isShared:
            if waiting == 0 and self.capacity > 4096:
                free(self.data)
                self.data = NULL
                self.capacity = 0
                self.start = 0
                self.stop = 0
            return 0
        if waiting:
            data = <char*> malloc(waiting)
            if data != NULL:
                memcpy(data, self.data + self.start, waiting)
        self.data = data
        self.capacity = self.stop = waiting if data != NULL else 0
        self.isShared = SHARED_TAKEN = False
        self.start = 0
        if waiting and data == NULL:
            # The rest of the input is lost, and so is the connection. Others can use the shared
            # buffer.
            raise MemoryError
        return 0

    cdef inline bytes cut(self, Py_ssize_t start, Py_ssize_t stop):
        return PyBytes_FromStringAndSize(self.data + start, stop - start)

    def take(self):
        cdef bytes data = self.cut(self.start, self.stop)
        self.start = self.stop
        return data

    def next(self):
        cdef const char* found
        cdef Py_ssize_t end
        cdef tuple frame
        if self.head is not None:
            return self.payload()
        if self.fault is not None:
            return self.fault
        if self.stop == self.start:
            return None
        found = <const char*> memchr(self.data + self.start, c"\n", self.stop - self.start)
        if found == NULL:
            return self.partial()
        end = found - self.data
        if self.skipping:
            frame = (self.skipping,)
            self.skipping = 0
            self.start = end + 1
            return frame
        frame = self.dialect.readLine(self.cut(self.start, end), self)
        self.start = end + 1
        if frame[0] == HEAD:
            self.head = frame
            return (ops.ANNOUNCED, frame[2]) if self.announce else self.payload()
        return self.violation(frame) if frame[0] == ops.FAULT else frame

    cdef partial(self):
        cdef tuple frame
        if self.skipping:
            self.start = self.stop
            return None
        frame = self.dialect.readPartial(self.cut(self.start, self.stop), self)
        if frame is None:
            return None
        if frame[0] == SKIP:
            self.skipping = frame[1]
            self.start = self.stop
            return None
        if frame[0] == STRIP:
            self.stop -= frame[1]
            return None
        return self.violation(frame)

    cdef payload(self):
        cdef Py_ssize_t size = self.head[5]
        cdef Py_ssize_t end = self.start + size
        cdef bytes body
        if (self.stop > end and self.data[end] != c"\r") or (
            self.stop > end + 1 and self.data[end + 1] != c"\n"
        ):
            self.head = None
            return self.violation((ops.FAULT, errors.UNKNOWN_OPERATION))
        if self.stop < end + 2:
            return None
        body = self.cut(self.start, end)
        self.start = end + 2
        self.messages += 1
        self.messageBytes += size
        frame = (*self.head[1:5], body, *self.head[6:])
        self.head = None
        return frame

    cdef violation(self, tuple fault):
        self.fault = fault
        self.start = self.stop
        return fault
