# The compiled twin of natsbroker.pure.outbox.FlushBatch: see there for what each name means.

@cython.final
cdef class FlushBatch:
    cdef object _schedule
    cdef bint _scheduled, _isFlushing
    cdef public object congested, worked
    cdef int _depth
    cdef list _dirty, _ended, _borrowers
    cdef object _failed, _trouble
    cdef Py_ssize_t filled
    cdef public int64_t work, until, round
    cdef int64_t _look
    # The time at which the batch ends; below zero before the clock was first read.
    cdef double _end
    cdef readonly object backlog

    HIGH = WAITING_HIGH
    LOW = WAITING_LOW

    def __init__(self, schedule, failed=None, worked=None):
        self._schedule = schedule
        self._failed = failed
        self.worked = worked
        self._look = UNLIMITED
        self._end = -1
        self._scheduled = False
        self.congested = None
        self._depth = 0
        self._dirty = []
        self._ended = []
        self._borrowers = []
        self.filled = 0
        self.work = 0
        self.until = UNLIMITED
        self.round = SHARE
        self.backlog = WorkQueue(self, schedule)

    @property
    def isSpent(self):
        return self.spent()

    cdef bint spent(self) except -1:
        if self.work >= self._look:
            self._lookAtTime()
        return self.work >= self.until

    cdef int _lookAtTime(self) except -1:
        cdef double now
        if self.worked is None:
            return 0
        now = self.worked()
        self._look = self.work + LOOK
        if self._end < 0:
            self._end = now + LONGEST_BATCH
        elif now >= self._end:
            self.round = self.work - SHARE
            self.until = min(self.until, self.work)
        return 0

    cpdef renew(self):
        self.round = self.work + SHARE

    cpdef enter(self):
        if self._depth == 0:
            self.until = max(self.round, self.work + LEAST)
            self._look = self.work
            self._end = -1
        self._depth += 1

    cpdef leave(self):
        self._depth -= 1
        if self._depth == 0:
            self.until = UNLIMITED
            self._look = UNLIMITED
            self.flush()

    cpdef dirty(self, Outbox outbox):
        self.work += FLUSH
        self._dirty.append(outbox)
        self._flushSoon()

    cpdef atEnd(self, call):
        self._ended.append(call)
        self._flushSoon()

    cdef int _flushSoon(self) except -1:
        if self._depth == 0 and not self._isFlushing and not self._scheduled:
            self._scheduled = True
            self._schedule(self._scheduledFlush)
        return 0

    cpdef flush(self):
        cdef list dirty, ended
        cdef Outbox outbox
        cdef bint isNested = self._isFlushing
        self.filled = 0
        self._isFlushing = True
        try:
            while self._dirty or self._ended:
                if self._dirty:
                    dirty = self._dirty
                    self._dirty = []
                    for outbox in dirty:
                        try:
                            outbox.flush()
                        except BaseException as problem:
                            outbox.fail()
                            self.caught(problem)
                if self._ended:
                    ended = self._ended
                    self._ended = []
                    for call in ended:
                        self.contain(call)
        finally:
            self._isFlushing = isNested
        if self._trouble is not None:
            trouble = self._trouble
            self._trouble = None
            raise trouble

    cpdef contain(self, call):
        try:
            call()
        except BaseException as problem:
            self.caught(problem)

    cpdef int caught(self, problem) except -1:
        if self._failed is None:
            self._trouble = self._trouble or problem
            return 0
        try:
            self._failed("Work of a flush batch failed")
        except BaseException as another:
            # Memory may be too short for a report. The batch still does its other work first.
            self._trouble = another
        return 0

    cdef int spill(self) except -1:
        """
        Send what is there, while it is warm, instead of at the end of the batch.
        """
        cdef Outbox outbox
        self.filled = 0
        for outbox in self._dirty:
            try:
                outbox.spill()
            except BaseException as problem:
                outbox.fail()
                self.caught(problem)
        return 0

    cdef int settle(self) except -1:
        """
        Have nothing lent any more: the lender is about to use its place again. An outbox that raises
        is closed, which forgets its loans.
        """
        cdef list borrowers
        cdef Outbox outbox
        if self._borrowers:
            borrowers = self._borrowers
            self._borrowers = []
            for outbox in borrowers:
                try:
                    outbox.settle()
                except BaseException as problem:
                    outbox.fail()
                    self.caught(problem)
        return 0

    def _scheduledFlush(self):
        self._scheduled = False
        self.flush()
