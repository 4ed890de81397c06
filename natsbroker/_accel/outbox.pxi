# The twins of natsbroker.wire.outbox: see there for what each name means.

cdef extern from "sys/socket.h" nogil:
    Py_ssize_t send(int, const void*, size_t, int)
    int MSG_NOSIGNAL
    int MSG_DONTWAIT

# An outbox begins with a buffer of its own; one that needs more than SMALL gets one of LENT bytes,
# and SPARES of those are kept, since the allocator would give their pages back to the system.
cdef enum:
    LENT = 1310720
    SMALL = 32768
    SPARES = 12
    WAITING_HIGH = 1048576
    WAITING_LOW = 262144
    # So much may come together for all connections before it is sent, while it is still in the
    # processor's cache, instead of at the end of the turn.
    TOGETHER = 786432

cdef char* SPARE[SPARES]
cdef int SPARE_COUNT = 0


@cython.final
cdef class Turn:
    cdef object _schedule
    cdef bint _scheduled
    cdef public object congested
    cdef int _depth
    cdef list _dirty, _ended
    cdef Py_ssize_t filled

    HIGH = WAITING_HIGH
    LOW = WAITING_LOW

    def __init__(self, schedule):
        self._schedule = schedule
        self._scheduled = False
        self.congested = None
        self._depth = 0
        self._dirty = []
        self._ended = []
        self.filled = 0

    cpdef enter(self):
        self._depth += 1

    cpdef leave(self):
        self._depth -= 1
        if self._depth == 0:
            self.flush()

    cpdef dirty(self, Outbox outbox):
        self._dirty.append(outbox)
        if self._depth == 0 and not self._scheduled:
            self._soon()

    cpdef atEnd(self, call):
        self._ended.append(call)
        if self._depth == 0 and not self._scheduled:
            self._soon()

    cdef _soon(self):
        self._scheduled = True
        self._schedule(self._scheduledFlush)

    cpdef flush(self):
        cdef list dirty, ended
        cdef Outbox outbox
        self.filled = 0
        while self._dirty or self._ended:
            if self._dirty:
                dirty = self._dirty
                self._dirty = []
                for outbox in dirty:
                    outbox.flush()
            if self._ended:
                ended = self._ended
                self._ended = []
                for place, call in enumerate(ended, 1):
                    try:
                        call()
                    except BaseException:
                        for each in ended[place:]:
                            self.atEnd(each)
                        raise

    cdef int spill(self) except -1:
        """
        Send what is there, while it is warm, instead of at the end of the turn.
        """
        cdef Outbox outbox
        self.filled = 0
        for outbox in self._dirty:
            outbox.spill()
        return 0

    def _scheduledFlush(self):
        self._scheduled = False
        self.flush()


@cython.final
cdef class Outbox:
    cdef char* data
    cdef Py_ssize_t start, stop, capacity
    cdef int fd
    cdef bint isDirty, blocked, isPaused
    cdef Turn turn
    cdef object owner, writer, blockedCall
    cdef list waiters
    cdef public bint headers, echo, lagging, direct
    cdef readonly bint closed
    cdef public Py_ssize_t limit
    cdef public long long messages, messageBytes
    cdef object __weakref__

    def __cinit__(self):
        self.data = NULL
        self.start = 0
        self.stop = 0
        self.capacity = 0
        self.fd = -1

    def __init__(self, Turn turn not None, owner, write, Py_ssize_t limit):
        self.turn = turn
        self.owner = owner
        self.writer = write
        self.limit = limit
        self.echo = True
        self.direct = True
        self.waiters = None

    def __dealloc__(self):
        self.giveBack()

    @property
    def pending(self):
        return self.stop - self.start

    @property
    def paused(self):
        return self.isPaused or self.blocked

    def attach(self, int fd, blockedCall):
        """
        Send straight to a socket from now on.

        @param fd: its file descriptor; -1 to use C{write} again.
        @param blockedCall: called when the socket takes no more: whoever it is calls
            L{unblock} when it does.
        """
        self.fd = fd
        self.blockedCall = blockedCall

    cdef void giveBack(self) noexcept:
        global SPARE_COUNT
        if self.data != NULL:
            if self.capacity == LENT and SPARE_COUNT < SPARES:
                SPARE[SPARE_COUNT] = self.data
                SPARE_COUNT += 1
            else:
                free(self.data)
        self.data = NULL
        self.start = 0
        self.stop = 0
        self.capacity = 0

    cdef int makeRoom(self, Py_ssize_t count) except -1:
        global SPARE_COUNT
        cdef Py_ssize_t waiting = self.stop - self.start
        cdef Py_ssize_t wanted
        cdef char* data
        if self.data == NULL:
            if SPARE_COUNT and count <= LENT:
                SPARE_COUNT -= 1
                self.data = SPARE[SPARE_COUNT]
                self.capacity = LENT
                return 0
            wanted = 2048
            while wanted < count:
                wanted *= 2
            if SMALL < wanted < LENT:
                wanted = LENT
            self.data = <char*> malloc(wanted)
            if self.data == NULL:
                raise MemoryError
            self.capacity = wanted
            return 0
        if self.start and (self.start >= waiting or waiting + count <= self.capacity // 2):
            memmove(self.data, self.data + self.start, waiting)
            self.start = 0
            self.stop = waiting
            if waiting + count <= self.capacity:
                return 0
        wanted = self.capacity
        while wanted < self.stop + count:
            wanted *= 2
        if SMALL < wanted < LENT:
            wanted = LENT
        data = <char*> realloc(self.data, wanted)
        if data == NULL:
            raise MemoryError
        self.data = data
        self.capacity = wanted
        return 0

    cdef inline char* reserve(self, Py_ssize_t count) except NULL:
        """
        Room for so many bytes; the caller fills it and then says so with L{grown}.
        """
        if self.stop + count > self.capacity:
            self.makeRoom(count)
        return self.data + self.stop

    cdef inline int grown(self, Py_ssize_t count) except -1:
        self.stop += count
        if not self.isDirty:
            self.isDirty = True
            self.turn.dirty(self)
        self.turn.filled += count
        if self.turn.filled >= TOGETHER:
            self.turn.spill()
        if self.stop - self.start > WAITING_HIGH or self.stop - self.start > self.limit:
            self.heavy()
        return 0

    cdef int spill(self) except -1:
        if self.fd >= 0 and self.stop > self.start and not self.blocked and not self.isPaused:
            self.sendNow()
        return 0

    cdef int heavy(self) except -1:
        if self.fd >= 0 and not self.blocked and not self.isPaused:
            self.sendNow()
        if self.stop - self.start > self.limit:
            self.close()
            self.turn.atEnd(self.owner.outboxOverflowed)
        elif not self.lagging and self.stop - self.start > WAITING_HIGH:
            self.turn.congested = self
        return 0

    cpdef write(self, bytes data):
        cdef Py_ssize_t count = PyBytes_GET_SIZE(data)
        if self.closed or count == 0:
            return
        memcpy(self.reserve(count), PyBytes_AS_STRING(data), count)
        self.grown(count)

    def deliver(self, message, bytes sid):
        if self.closed:
            return
        self.messages += 1
        self.messageBytes += len(message.body) - (0 if self.headers else message.headerLength)
        self.write(frameFor(message, sid, self.headers))

    def whenRelieved(self, call):
        if self.waiters is None:
            self.waiters = []
        self.waiters.append(call)

    cpdef close(self):
        self.closed = True
        self.giveBack()
        self.relieve()

    cpdef flush(self):
        self.isDirty = False
        if self.isPaused or self.blocked:
            return
        if self.stop > self.start:
            if self.fd >= 0:
                self.sendNow()
            else:
                data = PyBytes_FromStringAndSize(self.data + self.start, self.stop - self.start)
                self.giveBack()
                self.writer(data)
        if self.stop - self.start < WAITING_LOW and (self.lagging or self.waiters is not None):
            self.relieve()

    cdef int sendNow(self) except -1:
        """
        Send until nothing waits or the socket takes no more.
        """
        cdef Py_ssize_t count
        while self.stop > self.start:
            with nogil:
                count = send(
                    self.fd, self.data + self.start, self.stop - self.start,
                    MSG_NOSIGNAL | MSG_DONTWAIT,
                )
            if count < 0:
                if errno == EINTR:
                    continue
                if errno == EAGAIN:
                    self.blocked = True
                    self.blockedCall()
                    return 0
                # The peer is gone; the reading side learns that by itself.
                self.close()
                return 0
            self.start += count
        self.giveBack()
        return 0

    cpdef unblock(self):
        """
        The socket takes more.

        @return: whether everything was sent.
        """
        self.blocked = False
        self.flush()
        return not self.blocked

    cdef relieve(self):
        cdef list waiters
        self.lagging = False
        if self.waiters is not None:
            waiters = self.waiters
            self.waiters = None
            for call in waiters:
                call()

    def pause(self):
        self.isPaused = True

    def resume(self):
        self.isPaused = False
        self.flush()
