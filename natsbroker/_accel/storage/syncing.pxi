# Writing without the GIL: a thread that writes one piece at a time, to a file that syncs each write.

cdef extern from "semaphore.h" nogil:
    ctypedef struct sem_t:
        pass
    int sem_init(sem_t*, int, unsigned int)
    int sem_destroy(sem_t*)
    int sem_post(sem_t*)
    int sem_wait(sem_t*)

cdef extern from "signal.h" nogil:
    ctypedef struct sigset_t:
        pass
    int sigfillset(sigset_t*)
    int SIG_SETMASK

cdef extern from "pthread.h" nogil:
    ctypedef unsigned long pthread_t
    ctypedef struct pthread_attr_t:
        pass
    int pthread_create(pthread_t*, pthread_attr_t*, void* (*)(void*) noexcept nogil, void*)
    int pthread_join(pthread_t, void**)
    int pthread_sigmask(int, sigset_t*, sigset_t*)

cdef extern from "sys/eventfd.h" nogil:
    int c_eventfd "eventfd"(unsigned int, int)
    int eventfd_read(int, uint64_t*)
    int eventfd_write(int, uint64_t)
    int EFD_CLOEXEC, EFD_NONBLOCK

cdef extern from "time.h" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(int, timespec*)
    int CLOCK_MONOTONIC, CLOCK_REALTIME

cdef extern from "sys/timerfd.h" nogil:
    struct itimerspec:
        timespec it_interval
        timespec it_value
    int c_timerfd "timerfd_create"(int, int)
    int timerfd_settime(int, int, const itimerspec*, itimerspec*)
    int TFD_CLOEXEC, TFD_NONBLOCK

cdef extern from "sys/types.h" nogil:
    ctypedef long long off_t
    ctypedef int pid_t

cdef extern from "unistd.h" nogil:
    ssize_t pwrite(int, void*, size_t, off_t)
    ssize_t c_read "read"(int, void*, size_t)
    pid_t getpid()

cdef extern from "stdlib.h" nogil:
    int posix_memalign(void**, size_t, size_t)

cdef extern from *:
    """
    #include <stdint.h>
    #include <sched.h>
    #include <unistd.h>
    #include <sys/syscall.h>

    /* The kernel's struct sched_attr, as far as version 0 of it goes: the C library has none. */
    struct nb_scheduling {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    };

    /* Ask for short slices of processor time for the calling thread: Linux 6.12 lets a thread that
     * wakes up have its turn sooner for them, and no more time. Where that is not known, nothing
     * changes. */
    static void nb_useShortSlices(uint64_t nanoseconds) {
    #if defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
        struct nb_scheduling found = {0};
        if (syscall(SYS_sched_getattr, 0, &found, sizeof(found), 0) != 0) return;
        if (found.policy != SCHED_OTHER) return;
        found.size = sizeof(found);
        found.runtime = nanoseconds;
        found.deadline = found.period = 0;
        syscall(SYS_sched_setattr, 0, &found, 0);
    #endif
    }
    """
    void nb_useShortSlices(uint64_t nanoseconds) noexcept nogil

from libc.errno cimport EIO

cdef enum:
    # The alignment of buffers for files that bypass the page cache.
    ALIGNMENT = 4096
    # Nanoseconds: far more than the thread needs for one piece, and the least that Linux accepts.
    SLICE = 100000
    # A disk counts as quick after this number of quick writes in a row.
    QUICK_WRITES = 16


def useShortSlices(uint64_t nanoseconds):
    """
    Have Linux give the calling thread, and those that it starts, its turn sooner when it wakes up, for
    a shorter time. Its share of the processors stays what it is. Without effect before Linux 6.12.
    """
    nb_useShortSlices(nanoseconds)


cdef struct Piece:
    int fd
    char* data
    size_t length
    off_t offset
    int error


# The data that the thread and the object share. The semaphore and the eventfd hand it over.
cdef struct Orders:
    # The longest duration of a quick write, in nanoseconds, and the number of quick writes since the
    # last slow one.
    int64_t most
    int quick
    sem_t wanted
    int done
    # Whether there is a piece to write. Woken without one, the thread ends.
    bint isGiven
    Piece synced
    Piece noted


cdef void writePiece(Piece* piece) noexcept nogil:
    cdef char* data = piece.data
    cdef size_t length = piece.length
    cdef off_t offset = piece.offset
    cdef ssize_t count
    piece.error = 0
    while length:
        count = pwrite(piece.fd, data, length, offset)
        if count > 0:
            data += count
            length -= count
            offset += count
        elif count == 0:
            piece.error = EIO
            return
        elif errno != EINTR:
            piece.error = errno
            return


cdef inline int64_t monotonic() noexcept nogil:
    """
    Nanoseconds, of a clock that nobody sets.
    """
    cdef timespec clock
    clock_gettime(CLOCK_MONOTONIC, &clock)
    return clock.tv_sec * <int64_t> 1000000000 + clock.tv_nsec


cdef void carryOut(Orders* orders) noexcept nogil:
    cdef int64_t began
    orders.isGiven = False
    orders.noted.error = 0
    began = monotonic()
    writePiece(&orders.synced)
    orders.quick = orders.quick + 1 if monotonic() - began < orders.most else 0
    if not orders.synced.error:
        writePiece(&orders.noted)


cdef void* followOrders(void* given) noexcept nogil:
    cdef Orders* orders = <Orders*> given
    nb_useShortSlices(SLICE)
    while True:
        while sem_wait(&orders.wanted) != 0:
            pass
        if not orders.isGiven:
            return NULL
        carryOut(orders)
        eventfd_write(orders.done, 1)


@cython.final
cdef class SyncedWriter:
    """
    A thread that writes a piece to a file that syncs each write, and then a note to another file.
    It takes one piece at a time, and its descriptor is readable when that is written.

    Waking the thread, and being woken by it, takes as long as a quick disk takes to write. So a piece
    may be held, for a poller that has nothing else to do to write it: see L{Poller.writeSoon}.
    """

    cdef Orders* orders
    cdef pthread_t thread
    cdef pid_t process
    cdef bint isRunning
    cdef readonly bint isBusy
    # Whether the thread has not taken the piece yet, and whether it was written without the thread.
    cdef readonly bint isHeld
    cdef bint isWritten
    cdef size_t capacity
    # The note is written from here.
    cdef bytes note

    def __cinit__(self):
        self.orders = <Orders*> calloc(1, sizeof(Orders))
        if self.orders == NULL:
            raise MemoryError
        self.orders.done = -1

    def __init__(self, size_t capacity, int64_t most=400000):
        """
        @param capacity: the longest piece, in bytes.
        @param most: what a write of a quick disk takes at most, in nanoseconds.
        @raise OSError: if there can be no thread.
        """
        cdef sigset_t every, before
        cdef int problem
        if self.isRunning:
            raise RuntimeError("the writer has begun")
        if posix_memalign(<void**> &self.orders.synced.data, ALIGNMENT, capacity):
            self.orders.synced.data = NULL
            raise MemoryError
        self.capacity = capacity
        self.orders.most = most
        self.orders.done = c_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        if self.orders.done < 0:
            raise OSError(errno, os.strerror(errno))
        sem_init(&self.orders.wanted, 0, 0)
        # Signals are the business of the main thread.
        sigfillset(&every)
        pthread_sigmask(SIG_SETMASK, &every, &before)
        problem = pthread_create(&self.thread, NULL, followOrders, self.orders)
        pthread_sigmask(SIG_SETMASK, &before, NULL)
        if problem:
            raise OSError(problem, os.strerror(problem))
        self.process = getpid()
        self.isRunning = True

    def __dealloc__(self):
        if self.orders != NULL:
            self.end()
            if self.orders.done >= 0:
                close(self.orders.done)
            free(self.orders.synced.data)
            free(self.orders)

    def fileno(self):
        """The descriptor that is readable when a piece is written; -1 after C{close}."""
        return self.orders.done

    def write(self, int fd, bytes data not None, off_t offset, int noteFd, bytes note not None,
              off_t noteOffset, bint mayHold=False):
        """
        Write a piece, and when it is written the note.

        @param mayHold: whether to leave it to L{Poller.writeSoon} if the disk is quick.
        @raise RuntimeError: if there is another piece, or no thread.
        @raise ValueError: if the piece is too long.
        """
        cdef Orders* orders = self.orders
        if self.isBusy or not self.isRunning:
            raise RuntimeError("the writer takes nothing")
        if <size_t> len(data) > self.capacity:
            raise ValueError("the piece is too long")
        memcpy(orders.synced.data, PyBytes_AS_STRING(data), len(data))
        orders.synced.fd = fd
        orders.synced.length = len(data)
        orders.synced.offset = offset
        self.note = note
        orders.noted.fd = noteFd
        orders.noted.data = PyBytes_AS_STRING(note)
        orders.noted.length = len(note)
        orders.noted.offset = noteOffset
        orders.isGiven = True
        self.isBusy = True
        if mayHold and orders.quick >= QUICK_WRITES:
            self.isHeld = True
        else:
            sem_post(&orders.wanted)

    cdef int release(self) except -1:
        """
        Have the thread write what is held.
        """
        self.isHeld = False
        sem_post(&self.orders.wanted)
        return 0

    cdef int writeHeld(self) except -1:
        """
        Write what is held, in the calling thread.
        """
        self.isHeld = False
        with nogil:
            carryOut(self.orders)
        self.isWritten = True
        return 0

    def result(self):
        """
        The outcome of the piece.

        @return: the error numbers of writing the piece, and of writing the note; 0 for none. C{None}
            while it is not written.
        """
        cdef uint64_t count
        if self.isWritten:
            self.isWritten = False
        elif eventfd_read(self.orders.done, &count) < 0:
            return None
        self.isBusy = False
        return self.orders.synced.error, self.orders.noted.error

    def close(self):
        """
        End the thread, when it has written what it was given.
        """
        self.end()
        if self.orders.done >= 0:
            close(self.orders.done)
            self.orders.done = -1

    cdef void end(self) noexcept:
        # A process that was forked from this one has no such thread.
        if self.isRunning and self.process == getpid():
            if self.isHeld:
                self.release()
            sem_post(&self.orders.wanted)
            with nogil:
                pthread_join(self.thread, NULL)
        if self.isRunning:
            self.isRunning = False
            sem_destroy(&self.orders.wanted)


@cython.final
cdef class Alarm:
    """
    A timer of microseconds, whose descriptor is readable when it is over. The timers of a reactor
    have milliseconds.
    """

    cdef int fd

    def __cinit__(self):
        self.fd = c_timerfd(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)
        if self.fd < 0:
            raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        self.close()

    def fileno(self):
        """
        -1 after C{close}.
        """
        return self.fd

    def set(self, long nanoseconds):
        """
        Start, instead of what was set before.

        @param nanoseconds: less than a second; 0 to be never over.
        """
        cdef itimerspec when
        memset(&when, 0, sizeof(when))
        when.it_value.tv_nsec = nanoseconds
        if timerfd_settime(self.fd, 0, &when, NULL) < 0:
            raise OSError(errno, os.strerror(errno))

    def take(self):
        """
        Whether it is over; then it no longer is.
        """
        cdef uint64_t count
        return c_read(self.fd, &count, sizeof(count)) == sizeof(count)

    def close(self):
        if self.fd >= 0:
            close(self.fd)
            self.fd = -1
