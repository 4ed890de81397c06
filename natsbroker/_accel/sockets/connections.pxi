# Plain TCP connections without a Python call for each event.

cdef extern from "sys/epoll.h" nogil:
    ctypedef union epoll_data_t:
        int fd
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int)
    int epoll_ctl(int, int, int, epoll_event*)
    int epoll_wait(int, epoll_event*, int, int)
    int EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD
    int EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP


@cython.final
cdef class Connection:
    """
    A socket in a L{Poller}.

    @ivar lane: the lane of the connection, while it may take it.
    @ivar framing: takes WebSocket frames apart for the lane; C{None} for a connection without.
    @ivar seal: shakes hands and decrypts input; C{None} for a connection without TLS, or with one that
        is not compiled.
    """

    cdef Poller poller
    cdef readonly int fd
    cdef Decoder decoder
    cdef Outbox outbox
    cdef public Lane lane
    cdef public FrameLane framing
    cdef public Seal seal
    cdef object proceed, blocked, unblocked, ended, lost, failed
    cdef bint wantsRead, wantsWrite, isWatched
    # Whether the epoll set reports input. When a pause of reading begins, this stays so until input
    # comes: most pauses are shorter, and need no system call.
    cdef bint isReported
    # Whether the socket is in the epoll set. It is removed if the peer disconnects while reading is
    # paused, because the set would report that all the time.
    cdef bint isListed
    # The outbox's count of sent bytes at which the bytes that wait for the socket will have been
    # sent.
    cdef long long mark

    def __init__(
        self, Poller poller not None, int fd, Decoder decoder not None, Outbox outbox not None,
        proceed, blocked, unblocked, ended, lost, failed,
    ):
        """
        @param proceed: called when there is input that the lane did not take.
        @param blocked: called when the socket takes no more output; and again for what came to wait
            meanwhile, when it has taken what waited then.
        @param failed: called while an exception is handled that an event of the socket caused.
        """
        self.poller = poller
        self.fd = fd
        self.decoder = decoder
        self.outbox = outbox
        self.proceed = proceed
        self.blocked = blocked
        self.unblocked = unblocked
        self.ended = ended
        self.lost = lost
        self.failed = failed
        outbox.attach(fd, self.outputBlocked)

    def relay(
        self, Decoder decoder not None, Outbox outbox not None, proceed, blocked
    ):
        """
        Read into another decoder and send from another outbox from now on. What the one before has
        not sent stays in it, for its C{write} to take. The arguments are those of L{__init__}.
        """
        self.outbox.attach(-1, None)
        self.decoder = decoder
        self.outbox = outbox
        self.proceed = proceed
        self.blocked = blocked
        self.lane = None
        self.seal = None
        self.mark = 0
        outbox.attach(self.fd, self.outputBlocked)

    def watch(self):
        self.isWatched = True
        self.wantsRead = True
        self.poller.connections[self.fd] = self
        self.poller.control(EPOLL_CTL_ADD, self)

    def forget(self):
        """
        End; the socket may be closed afterwards.
        """
        if self.isWatched:
            self.isWatched = False
            del self.poller.connections[self.fd]
            self.outbox.attach(-1, None)
            self.outbox.close()
            self.delist()

    def setReading(self, bint wanted):
        if self.isWatched and wanted != self.wantsRead:
            self.wantsRead = wanted
            if wanted and not (self.isReported and self.isListed):
                self.poller.control(EPOLL_CTL_MOD, self)

    def outputBlocked(self):
        if not self.isWatched:
            return
        if not self.wantsWrite:
            self.wantsWrite = True
            self.poller.control(EPOLL_CTL_MOD, self)
        elif self.outbox.sentBytes < self.mark:
            return
        self.mark = self.outbox.sentBytes + self.outbox.waiting()
        self.blocked()

    cdef int delist(self) except -1:
        if self.isListed:
            self.isListed = False
            self.poller.control(EPOLL_CTL_DEL, self)
        return 0

    cdef int handle(self, uint32_t events, double now, Py_ssize_t most) except -1:
        """
        Handle what the epoll set reports. Input stays in the socket while reading is paused, also
        that of a peer that hung up: whatever it sent is read when reading goes on.
        """
        if events & EPOLLOUT:
            self.writable()
        if not self.isWatched:
            return 0
        if self.wantsRead:
            if events & (EPOLLIN | EPOLLHUP | EPOLLERR):
                self.readInput(now, events & (EPOLLHUP | EPOLLERR) != 0, most)
        elif events & (EPOLLHUP | EPOLLERR) and not self.wantsWrite:
            self.delist()
        elif events & EPOLLIN:
            self.poller.control(EPOLL_CTL_MOD, self)
        return 0

    cdef int readInput(self, double now, bint isGone, Py_ssize_t most) except -1:
        # The input may cause another decoder to take over.
        cdef Decoder decoder = self.decoder
        cdef Py_ssize_t count = decoder.receive(self.fd, most)
        cdef Lane lane
        cdef Py_ssize_t forwarded
        try:
            if count > 0:
                self.poller.came += count
                lane = self.lane
                if self.seal is not None:
                    self.readSealed(now)
                    return 0
                if self.framing is not None:
                    if self.readFramed(decoder, now):
                        return 0
                elif lane is not None:
                    forwarded = lane.run()
                    if forwarded:
                        decoder.heard = now
                    if lane.isShort and lane.batch.congested is None:
                        return 0
                self.proceed()
            elif count == GONE or (isGone and count != LATER):
                self.lost()
            elif count == 0:
                self.ended()
        finally:
            decoder.leaveShared()
        return 0

    cdef int readSealed(self, double now) except -1:
        cdef Seal seal = self.seal
        cdef bint isQuiet = seal.open(self.decoder)
        # The target is missing until the handshake is complete.
        cdef Decoder plain = seal.target
        if plain is not None:
            try:
                if plain.stop > plain.start and not self.handledPlain(plain, now):
                    seal.proceed()
            finally:
                plain.leaveShared()
        if not isQuiet:
            seal.attend()
        return 0

    cdef bint handledPlain(self, Decoder plain, double now) except -1:
        """
        @param plain: what was decrypted.
        @return: whether nothing is left for the readable path.
        """
        cdef Lane lane = self.lane
        if self.framing is not None:
            return self.readFramed(plain, now)
        if lane is None:
            return False
        if lane.run():
            plain.heard = now
        return lane.isShort and lane.batch.congested is None

    cdef bint readFramed(self, Decoder source, double now) except -1:
        """
        @return: whether nothing is left for the readable path.
        """
        cdef FrameLane framing = self.framing
        cdef Decoder target = framing.target
        cdef Lane lane = self.lane
        if not framing.isOn or framing.move(source) or lane is None:
            return False
        if lane.run():
            target.heard = now
        if not lane.isShort or lane.batch.congested is not None:
            return False
        target.leaveShared()
        return True

    cdef int writable(self) except -1:
        if self.outbox.unblock() and self.isWatched and self.wantsWrite:
            self.wantsWrite = False
            self.poller.control(EPOLL_CTL_MOD, self)
            self.unblocked()
        return 0
