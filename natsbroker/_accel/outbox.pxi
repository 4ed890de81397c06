# The twins of natsbroker.pure.outbox: see there for what each name means.

cdef extern from "sys/uio.h" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "sys/socket.h" nogil:
    Py_ssize_t send(int, const void*, size_t, int)
    int MSG_NOSIGNAL
    int MSG_DONTWAIT
    struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    Py_ssize_t sendmsg(int, const msghdr*, int)

# An outbox begins with a buffer of its own. If it needs more than SMALL bytes, it gets one of LENT
# bytes. SPARES of those are kept, since the allocator would return their pages to the system, or
# keep them where nothing larger fits.
cdef enum:
    LENT = 1310720
    SMALL = 32768
    SPARES = 24
    WAITING_HIGH = 1048576
    WAITING_LOW = 262144
    # The number of bytes for all connections that are collected before they are sent. They are sent
    # while they are in the processor's cache, instead of at the end of the batch.
    TOGETHER = 1572864
    # A payload of at least that size is not copied, but sent from the buffer of the input, at most
    # this many together. If it has not been sent when that buffer is needed again, it is copied.
    LEAST_LENT = 4096
    MOST_LENT = 64
    # The binary logarithm of how many bytes cost as much as a receiver.
    BYTES = 11
    # The longest header of a WebSocket frame that is not masked.
    LONGEST_HEAD = 10

# A payload that is sent from another buffer, and the number of the outbox's own bytes before it.
cdef struct Loan:
    Py_ssize_t before
    const char* data
    Py_ssize_t size

# See natsbroker.pure.backlog.
cdef int64_t SHARE = backlog.SHARE, LEAST = backlog.LEAST, UNLIMITED = backlog.UNLIMITED
cdef int64_t LOOK = backlog.LOOK
cdef double LONGEST_BATCH = backlog.LONGEST_BATCH
cdef int64_t FLUSH = backlog.FLUSH, LOOK_UP = backlog.LOOK_UP, DIVISIBLE = backlog.DIVISIBLE

cdef char* SPARE[SPARES]
cdef int SPARE_COUNT = 0


# The garbage collector must not clear its references in a cycle, since the finalizer of another
# object in the cycle may still write to it. Its owner breaks such cycles.
@cython.final
@cython.no_gc_clear
cdef class Outbox:
    cdef char* data
    cdef Py_ssize_t start, stop, capacity
    cdef Loan* loans
    cdef int loanCount
    cdef Py_ssize_t lent
    cdef int fd
    cdef Outbox below
    cdef Seal seal
    cdef bint isDirty, blocked, isPaused
    cdef FlushBatch batch
    cdef object owner, writer, blockedCall, held
    cdef Py_ssize_t heldAtMost
    cdef list waiters
    cdef public bint headers, echo, lagging, direct
    cdef readonly bint closed
    cdef public Py_ssize_t limit
    cdef public long long messages, messageBytes
    cdef long long sentBytes
    cdef object __weakref__

    def __cinit__(self):
        self.data = NULL
        self.start = 0
        self.stop = 0
        self.capacity = 0
        self.loans = NULL
        self.loanCount = 0
        self.lent = 0
        self.fd = -1

    def __init__(self, FlushBatch batch not None, owner, write, Py_ssize_t limit):
        self.batch = batch
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
        return self.total()

    @property
    def sent(self):
        return self.sentBytes if self.held is None else self.sentBytes - self.held()

    @property
    def paused(self):
        return self.isPaused or self.blocked

    def attach(self, int fd, blockedCall):
        """
        Send straight to a socket from now on.

        @param fd: its file descriptor; -1 to use C{write} again.
        @param blockedCall: called when the socket takes no more: it calls
            L{unblock} when it does.
        """
        self.fd = fd
        self.blocked = False
        self.blockedCall = blockedCall

    def frameInto(self, Outbox below):
        """
        Put what is to be sent into another outbox as WebSocket frames from now on.

        @param below: C{None} to use C{write} again.
        """
        self.below = below

    def sealInto(self, Seal seal not None):
        """
        Put what is to be sent into the outbox of a seal as records of TLS from now on, as long as
        OpenSSL takes it.
        """
        self.below = seal.below
        self.seal = seal

    cdef inline Py_ssize_t waiting(self) noexcept:
        return self.stop - self.start + self.lent

    cdef inline Py_ssize_t total(self) except -1:
        return self.waiting() if self.held is None else self.waiting() + <Py_ssize_t> self.held()

    cdef inline void forgetLoans(self) noexcept:
        free(self.loans)
        self.loans = NULL
        self.loanCount = 0
        self.lent = 0

    cdef void giveBack(self) noexcept:
        global SPARE_COUNT
        self.forgetLoans()
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

    cdef inline char* reserve(self, Py_ssize_t count) except? NULL:
        """
        Room for that many bytes; the caller fills it and then says so with L{grown}.

        @return: NULL if there is no memory, which ends the connection of this outbox and no other.
        """
        if self.stop + count > self.capacity and not self.hasRoom(count):
            return NULL
        return self.data + self.stop

    cdef bint hasRoom(self, Py_ssize_t count) except -1:
        try:
            self.makeRoom(count)
        except MemoryError as problem:
            self.fail()
            self.batch.caught(problem)
            return False
        return True

    cdef inline bint mayBorrow(self, Py_ssize_t count, FlushBatch batch) except -1:
        """
        Whether that many bytes can be sent from where they are.

        @param batch: whose L{FlushBatch.settle} the lender calls.
        """
        return (
            count >= LEAST_LENT and self.fd >= 0 and not self.blocked and self.batch is batch
            and (self.loans != NULL or self.hasLoans())
        )

    cdef bint hasLoans(self) except -1:
        """
        Have a list of what is borrowed; false if there is no memory for one.
        """
        self.loans = <Loan*> malloc(MOST_LENT * sizeof(Loan))
        if self.loans == NULL:
            return False
        self.batch._borrowers.append(self)
        return True

    cdef inline void borrow(self, const char* end, const char* data, Py_ssize_t count) noexcept:
        """
        Send bytes from where they are, if L{mayBorrow} allowed it. The lender calls L{grown} for what
        it reserved and wrote before them, and L{FlushBatch.settle} before it uses their place again.

        @param end: where that ends, which is where they belong.
        """
        cdef Loan* loan = &self.loans[self.loanCount]
        loan.before = end - self.data - self.start
        loan.data = data
        loan.size = count
        self.loanCount += 1
        self.lent += count

    cdef inline int grown(self, Py_ssize_t count) except -1:
        self.stop += count
        return self.noted(count)

    cdef inline int noted(self, Py_ssize_t count) except -1:
        """
        The second half of L{grown}. It may send what is in any outbox.
        """
        if not self.isDirty:
            self.isDirty = True
            self.batch.dirty(self)
        self.batch.filled += count
        if self.batch.filled >= TOGETHER:
            self.batch.spill()
        if (
            self.loanCount == MOST_LENT or self.waiting() > WAITING_HIGH
            or self.waiting() + self.heldAtMost > self.limit
        ):
            self.relax()
        return 0

    cdef int relax(self) except -1:
        """
        Send what is much, or close if it is too much. What raises ends this connection, and not that
        of the publisher.
        """
        try:
            if self.loanCount == MOST_LENT:
                self.settle()
            if self.waiting() > WAITING_HIGH or self.waiting() + self.heldAtMost > self.limit:
                self.heavy()
        except BaseException as problem:
            self.fail()
            self.batch.caught(problem)
        return 0

    cdef int spill(self) except -1:
        if self.stop > self.start and not self.blocked and not self.isPaused:
            if self.fd >= 0:
                self.sendNow()
            elif self.below is not None:
                self.passOn()
        return 0

    cdef int heavy(self) except -1:
        self.spill()
        if self.waiting() + self.heldAtMost > self.limit and self.total() > self.limit:
            overflowed = self.owner.outboxOverflowed
            self.close()
            self.batch.atEnd(overflowed)
        elif not self.lagging and self.waiting() > WAITING_HIGH:
            self.batch.congested = self
        return 0

    cpdef write(self, bytes data):
        cdef Py_ssize_t count = PyBytes_GET_SIZE(data)
        cdef char* out
        if self.closed or count == 0:
            return
        out = self.reserve(count)
        if out != NULL:
            memcpy(out, PyBytes_AS_STRING(data), count)
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
        self.held = None
        self.owner = CLOSED
        self.writer = CLOSED.write
        self.giveBack()
        self.relieve()

    cpdef fail(self):
        failed = self.owner.outboxFailed
        self.close()
        self.batch.atEnd(failed)

    cpdef flush(self):
        self.isDirty = False
        if self.isPaused or self.blocked:
            return
        if self.stop > self.start:
            if self.fd >= 0:
                self.sendNow()
            elif self.below is not None:
                self.passOn()
            else:
                self.handOver()
        if self.waiting() < WAITING_LOW and (self.lagging or self.waiters is not None):
            self.relieve()

    cdef int sendNow(self) except -1:
        """
        Send until nothing waits or the socket takes no more.
        """
        cdef Py_ssize_t count
        if self.loanCount:
            return self.sendLoans()
        while self.stop > self.start:
            with nogil:
                count = send(
                    self.fd, self.data + self.start, self.stop - self.start,
                    MSG_NOSIGNAL | MSG_DONTWAIT,
                )
            if count < 0:
                return self.notSent(errno)
            self.start += count
            self.sentBytes += count
        self.giveBack()
        return 0

    cdef int handOver(self) except -1:
        keepLoans(self)
        data = PyBytes_FromStringAndSize(self.data + self.start, self.stop - self.start)
        self.sentBytes += self.stop - self.start
        self.giveBack()
        self.writer(data)
        return 0

    cdef int passOn(self) except -1:
        return framesBelow(self) if self.seal is None else recordsBelow(self)

    cdef int shrink(self) except -1:
        """
        Wait with a buffer that is not much larger than what waits.
        """
        cdef Py_ssize_t waiting = self.stop - self.start
        cdef char* data
        if self.capacity != LENT or waiting > LENT // 2 or self.loans != NULL:
            return 0
        data = <char*> malloc(max(waiting, 1))
        if data != NULL:
            memcpy(data, self.data + self.start, waiting)
            self.giveBack()
            self.data = data
            self.stop = self.capacity = waiting
        return 0

    cdef int notSent(self, int trouble) except -1:
        if trouble == EINTR:
            return self.sendNow()
        if trouble == EAGAIN:
            self.blocked = True
            self.shrink()
            self.blockedCall()
            return 0
        # The peer is gone; the reading side detects that by itself.
        self.close()
        return 0

    cdef int sendLoans(self) except -1:
        """
        The same for bytes of our own with others between them.
        """
        cdef iovec pieces[2 * MOST_LENT + 1]
        cdef msghdr message
        cdef int trouble
        cdef Py_ssize_t count = 0
        cdef Py_ssize_t left = self.waiting()
        memset(&message, 0, sizeof(msghdr))
        message.msg_iov = pieces
        message.msg_iovlen = piecesInto(self, pieces)
        while left:
            with nogil:
                count = sendmsg(self.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT)
            if count < 0:
                break
            left -= count
            self.sentBytes += count
            while count:
                if <size_t> count < message.msg_iov.iov_len:
                    message.msg_iov.iov_base = <char*> message.msg_iov.iov_base + count
                    message.msg_iov.iov_len -= count
                    break
                count -= message.msg_iov.iov_len
                message.msg_iov += 1
                message.msg_iovlen -= 1
        if left == 0:
            self.giveBack()
            return 0
        trouble = errno
        keepPieces(self, message.msg_iov, message.msg_iovlen, left)
        return self.notSent(trouble)

    cdef int settle(self) except -1:
        self.spill()
        return keepLoans(self)

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
                self.batch.contain(call)

    def pause(self, held=None):
        self.isPaused = True
        if held is not None and not self.closed:
            self.held = held
            self.heldAtMost = held()

    def resume(self):
        self.isPaused = False
        self.held = None
        self.heldAtMost = 0
        self.flush()
