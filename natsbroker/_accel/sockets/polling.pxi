# An epoll set of our own, which is one file descriptor for the reactor, and the objects that wait
# for its events.

cdef extern from "unistd.h" nogil:
    int close(int)

cdef extern from "sched.h" nogil:
    int sched_yield()

cdef enum:
    BATCH = 128
    # The most rounds of one call. A round that reads fewer bytes than BUSY is the last one.
    ROUNDS = 32
    BUSY = 65536
    # From this number of bytes on, the output of one connection's input is sent before the next
    # connection is read.
    WARM = 65536


# The longest time in which a call may begin rounds, in seconds; and how long it may wait for the
# next event in the reactor's place. That waiting is counted in these steps too.
cdef double LONGEST_RUN = 0.002
cdef double LONGEST_WAIT = 0.001

# The longest time that a call may run in the reactor's place, in seconds, while it checks the
# reactor's timers and descriptors in each round.
cdef double LONGEST_STAY = 0.02

# To sleep and to be woken takes tens of microseconds, most of all on a virtual machine: longer than
# a peer with one request in flight takes to send the next. After SHORT_WAITS short waits in a row,
# a wait begins with repeated checks for AWAKE nanoseconds, about as long as a wake-up takes. They
# stop when such checks have found nothing once. A sleep is short up to SHORT_WAIT nanoseconds.
cdef enum:
    SHORT_WAITS = 16
    AWAKE = 50000
    SHORT_WAIT = 100000

# The bounds of the histogram of turns, in seconds.
cdef enum:
    BOUNDS = 10
cdef double[BOUNDS] BOUND = [
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25
]


@cython.final
cdef class Poller:
    """
    An epoll set and the connections in it. Everything that one round brings is one batch.
    """

    cdef int epoll
    # The connections by file descriptor, and the callables for descriptors that are no connections.
    cdef dict connections, watched
    # The events that were left when a round's work was used up, as pairs of file descriptor and
    # events.
    cdef list left
    cdef long long came
    cdef FlushBatch batch
    # The reactor's epoll set, and how long it may sleep.
    cdef int outer
    cdef object timeout
    cdef bint isRunning
    # The number of short waits in a row. It stays 0 if every wait must sleep.
    cdef int shortWaits
    cdef bint mayBeEager
    # The writer whose piece is written as soon as there is no other work.
    cdef SyncedWriter held
    # The number of turns by duration, and their total duration.
    cdef uint64_t[BOUNDS + 1] turns
    cdef double turning

    def __cinit__(self):
        self.epoll = -1
        self.outer = -1

    def __init__(self, FlushBatch batch not None, bint mayBeEager=False):
        """
        @param mayBeEager: whether waits may begin without sleeping, which takes processor time.
        """
        self.connections = {}
        self.watched = {}
        self.left = []
        self.batch = batch
        self.mayBeEager = mayBeEager
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll < 0:
            raise OSError(errno, "epoll_create1 failed")

    def fileno(self):
        return self.epoll

    def close(self):
        """
        End; all connections must be forgotten before.
        """
        if self.epoll >= 0:
            close(self.epoll)
            self.epoll = -1

    def __dealloc__(self):
        if self.epoll >= 0:
            close(self.epoll)

    def __len__(self):
        return len(self.connections)

    def watch(self, int fd, call):
        """
        Have something called, in a batch, when a descriptor that is no connection is readable.
        """
        cdef epoll_event event
        event.events = EPOLLIN
        event.data.fd = fd
        if epoll_ctl(self.epoll, EPOLL_CTL_ADD, fd, &event) < 0:
            raise OSError(errno, "epoll_ctl failed")
        self.watched[fd] = call

    def unwatch(self, int fd):
        """
        End what C{watch} began, before the descriptor is closed.
        """
        cdef epoll_event event
        del self.watched[fd]
        epoll_ctl(self.epoll, EPOLL_CTL_DEL, fd, &event)

    def attend(self, int outer, timeout):
        """
        Know what the reactor waits for, so that L{run} may wait in its place.

        @param outer: the file descriptor of the reactor's epoll set, which this set is in.
        @param timeout: called for how many seconds the reactor may sleep; C{None} for any number.
        """
        self.outer = outer
        self.timeout = timeout

    def writeSoon(self, SyncedWriter writer not None):
        """
        Have the piece written that a writer holds, if it holds one: here as soon as there is nothing else
        to do, or else by its thread. The writer is given to C{watch} too.
        """
        if not writer.isHeld:
            return
        if self.isRunning and self.outer >= 0:
            self.held = writer
        else:
            writer.release()

    def sendNow(self):
        """
        Send what there is for connections, before the batch ends.
        """
        self.batch.spill()

    cdef int control(self, int operation, Connection connection) except -1:
        cdef epoll_event event
        event.events = 0
        if connection.wantsRead:
            event.events |= EPOLLIN
        if connection.wantsWrite:
            event.events |= EPOLLOUT
        event.data.fd = connection.fd
        if operation == EPOLL_CTL_MOD and not connection.isListed:
            operation = EPOLL_CTL_ADD
        if epoll_ctl(self.epoll, operation, connection.fd, &event) < 0:
            raise OSError(errno, "epoll_ctl failed")
        connection.isListed = operation != EPOLL_CTL_DEL
        connection.isReported = connection.wantsRead
        return 0

    def run(self):
        """
        Handle what is ready now; again, a few times, while much comes.
        """
        cdef int round
        cdef double start = self.clock()
        cdef double deadline = start + LONGEST_RUN
        self.isRunning = True
        try:
            self.batch.renew()
            for round in range(ROUNDS):
                self.came = 0
                self.runOnce()
                if self.came < BUSY or self.clock() > deadline or self.batch.work >= self.batch.round:
                    break
            self.turned(self.clock() - start)
            if self.outer >= 0:
                self.linger(start)
        finally:
            self.isRunning = False
            self.releaseHeld()

    cdef int releaseHeld(self) except -1:
        cdef SyncedWriter held = self.held
        self.held = None
        if held is not None and held.isHeld:
            held.release()
        return 0

    cdef int writeHeld(self) except -1:
        cdef SyncedWriter held = self.held
        self.held = None
        # The writer may have been closed meanwhile.
        if not held.isHeld:
            return 0
        held.writeHeld()
        self.batch.renew()
        self.batch.enter()
        try:
            self.batch.contain(self.watched[held.orders.done])
        finally:
            self.batch.leave()
        return 0

    cdef void turned(self, double seconds) noexcept:
        """
        Count a turn by its length. The clock may have been set back.
        """
        cdef int place = 0
        if seconds < 0:
            seconds = 0
        while place < BOUNDS and seconds > BOUND[place]:
            place += 1
        self.turns[place] += 1
        self.turning += seconds

    def turnLengths(self):
        """
        The turns so far: for each bound in seconds how many took no longer, not counting those of
        lower bounds; how many took longer than all; and the seconds of all.
        """
        cdef int place
        bounds = [BOUND[place] for place in range(BOUNDS)]
        return bounds, [self.turns[place] for place in range(BOUNDS + 1)], self.turning

    cdef int linger(self, double start) except -1:
        """
        Wait in the reactor's place and handle what comes: the way back to it costs as much as a short
        batch. Ends as soon as there is anything for the reactor, or nothing comes.
        """
        cdef epoll_event events[2]
        cdef int count = 0
        # The time of the last check of the reactor's timers.
        cdef double asked = start
        while not self.left:
            if self.held is not None:
                count = epoll_wait(self.outer, events, 2, 0)
                if count == 0:
                    self.writeHeld()
                    if self.clock() > asked + LONGEST_RUN:
                        break
                    continue
                self.releaseHeld()
            else:
                pause = self.timeout()
                if pause is not None and pause < LONGEST_WAIT:
                    break
                asked = self.clock()
                with nogil:
                    count = self.wait(events)
            if count != 1 or events[0].data.fd != self.epoll:
                break
            self.batch.renew()
            self.runOnce()
            if self.clock() > start + LONGEST_STAY:
                break
        return 0

    @property
    def isEager(self):
        """
        Whether the next wait begins without sleeping.
        """
        return self.shortWaits >= SHORT_WAITS

    cdef int wait(self, epoll_event* events) noexcept nogil:
        """
        Wait for the reactor's epoll set, as long as is allowed at most.
        """
        cdef int64_t began = monotonic()
        cdef bint isEager = self.shortWaits >= SHORT_WAITS
        cdef int count
        while isEager and monotonic() - began < AWAKE:
            count = epoll_wait(self.outer, events, 2, 0)
            if count != 0:
                return count
            sched_yield()
        count = epoll_wait(self.outer, events, 2, <int> (LONGEST_WAIT * 1000))
        if self.mayBeEager and not isEager and monotonic() - began < SHORT_WAIT:
            self.shortWaits += 1
        else:
            self.shortWaits = 0
        return count

    cdef double clock(self):
        cdef timespec clock
        clock_gettime(CLOCK_REALTIME, &clock)
        return clock.tv_sec + clock.tv_nsec * 1e-9

    cdef runOnce(self):
        cdef epoll_event events[BATCH]
        cdef int count, place
        cdef double now
        cdef Py_ssize_t most
        cdef Connection connection
        cdef int64_t share
        count = PyList_GET_SIZE(self.left)
        if count:
            for place in range(count):
                events[place].data.fd, events[place].events = <tuple> self.left[place]
            self.left.clear()
        else:
            count = epoll_wait(self.epoll, events, BATCH, 0)
            if count < 0 and errno != EINTR:
                raise OSError(errno, "epoll_wait failed")
        if count <= 0:
            return
        now = self.clock()
        most = max(READ_LEAST, min(READ_SIZE, READ_TOGETHER // count))
        share = max(LEAST, SHARE // count)
        self.batch.enter()
        try:
            for place in range(count):
                if self.batch.work >= self.batch.round + share:
                    # A connection that ends before the next round is not found there, so its events
                    # are ignored.
                    self.left.append((events[place].data.fd, events[place].events))
                    continue
                self.batch.until = self.batch.work + share
                found = self.connections.get(events[place].data.fd)
                if found is None:
                    found = self.watched.get(events[place].data.fd)
                    if found is not None:
                        # The callable does not heed the share, so its time is counted for the
                        # connections.
                        self.batch.spent()
                        self.batch.contain(found)
                    continue
                connection = <Connection> found
                try:
                    connection.handle(events[place].events, now, most)
                    if self.batch.filled >= WARM:
                        self.batch.spill()
                except BaseException:
                    self.fail(connection)
        finally:
            self.batch.leave()

    cdef int fail(self, Connection connection) except -1:
        """
        End a connection whose event raised an exception, and go on with the others.
        """
        try:
            try:
                connection.failed()
            except BaseException as another:
                self.batch.caught(another)
                connection.lost()
        except BaseException as another:
            self.batch.caught(another)
        return 0
