# TLS records in bulk, by the functions of an OpenSSL that is loaded already. They arrive as
# addresses: nothing is linked, and no header of OpenSSL is needed to compile this.

cdef extern from *:
    """
    /* Bytes that are filled before anybody sees them. */
    static PyObject *nb_newBytes(Py_ssize_t room) { return PyBytes_FromStringAndSize(NULL, room); }
    static char *nb_bytesAt(PyObject *bytes) { return PyBytes_AS_STRING(bytes); }
    /* The beginning of them; the caller's reference is used up. */
    static PyObject *nb_shortened(PyObject *bytes, Py_ssize_t size) {
        _PyBytes_Resize(&bytes, size);
        return bytes;
    }
    """
    PyObject* nb_newBytes(Py_ssize_t room) except NULL
    char* nb_bytesAt(PyObject* bytes) noexcept
    object nb_shortened(PyObject* bytes, Py_ssize_t size)

ctypedef int (*Transfer)(void*, void*, int) noexcept nogil
ctypedef int (*Shaking)(void*) noexcept nogil
ctypedef int (*Explaining)(void*, int) noexcept nogil
ctypedef void (*Clearing)() noexcept nogil

# The most that one record holds, and more than any cipher adds to it.
cdef enum:
    RECORD = 16384
    ADDED = 256
    LONGEST_TAKEN = 1073741824
    # SSL_get_error: the next record has to come first.
    WANT_READ = 2


def _nothing():
    pass


@cython.final
cdef class Seal:
    """
    One TLS connection with memory BIOs: its handshake, and its traffic. It goes on as long as OpenSSL
    does so without a word; whatever else there is to say, it says to its caller.
    """

    cdef object ssl
    cdef void* connection
    cdef void* input
    cdef void* wire
    cdef Transfer reading, writing, taking, giving
    cdef Shaking shaking
    cdef Explaining explaining
    cdef Clearing clearing
    cdef bint isShaken
    # The decoder for a polled socket's input, the callable for input that is left in it, and the
    # one for all other results of OpenSSL.
    cdef Decoder target
    cdef Outbox below
    cdef object proceed, attend, shaken

    def __init__(
        self, ssl, size_t connection, size_t reading, size_t writing, size_t taking, size_t giving,
        size_t shaking, size_t explaining, size_t clearing,
    ):
        """
        @param ssl: keeps the connection alive while it is referred to.
        @param connection: the address of the C{SSL}.
        @param reading: the address of C{SSL_read}.
        @param writing: the address of C{SSL_write}.
        @param taking: the address of C{BIO_read}.
        @param giving: the address of C{BIO_write}.
        @param shaking: the address of C{SSL_do_handshake}.
        @param explaining: the address of C{SSL_get_error}.
        @param clearing: the address of C{ERR_clear_error}.
        @raise ValueError: if one of them is nowhere.
        """
        if not (
            connection and reading and writing and taking and giving and shaking
            and explaining and clearing
        ):
            raise ValueError("an address is missing")
        self.ssl = ssl
        self.connection = <void*> connection
        self.reading = <Transfer> reading
        self.writing = <Transfer> writing
        self.taking = <Transfer> taking
        self.giving = <Transfer> giving
        self.shaking = <Shaking> shaking
        self.explaining = <Explaining> explaining
        self.clearing = <Clearing> clearing

    def use(self, size_t input, size_t wire):
        """
        @param input: the address of the C{BIO} from which the connection reads.
        @param wire: the address of the C{BIO} that takes what it sends.
        @raise ValueError: if one of them is nowhere.
        """
        if not (input and wire):
            raise ValueError("an address is missing")
        self.input = <void*> input
        self.wire = <void*> wire

    def begin(self, Outbox below not None, shaken, attend):
        """
        Stand above a polled socket from the beginning of the handshake.

        @param below: the outbox of the socket.
        @param shaken: called with nothing when the handshake is complete; it may call L{attach}.
        @param attend: called with nothing when OpenSSL says anything else than that it waits for the
            next record: it goes on in the ordinary way, and so learns what it is.
        """
        self.below = below
        self.shaken = shaken
        self.attend = attend

    def attach(self, Decoder target not None, Outbox below not None, proceed, attend):
        """
        Stand between a polled socket and a session.

        @param target: takes decrypted input.
        @param below: the outbox of the socket.
        @param proceed: called with nothing when there is input in C{target}.
        @param attend: called with nothing when OpenSSL says anything else than that it waits for the
            next record: it reads in the ordinary way, and so learns what it is.
        """
        self.target = target
        self.below = below
        self.proceed = proceed
        self.attend = attend

    def detach(self):
        """
        Call nothing any more, as the connection has ended.
        """
        self.proceed = self.attend = self.shaken = _nothing

    cpdef bint shake(self) except -1:
        """
        Go on with the handshake.

        @return: whether it is complete.
        """
        cdef Py_ssize_t made
        cdef int count
        self.clearing()
        count = self.shaking(self.connection)
        if count != 1 and self.explaining(self.connection, count) != WANT_READ:
            # At once, since OpenSSL keeps the error for the thread, not for the connection.
            self.attend()
            return False
        made = self.drain()
        if made:
            self.below.noted(made)
        if count != 1:
            self.clearing()
            return False
        self.isShaken = True
        self.shaken()
        return True

    cdef bint open(self, Decoder source) except -1:
        """
        Decrypt all that has come to a socket, into the decoder of L{attach}.

        @return: whether there is nothing else to attend to.
        """
        cdef Decoder target
        cdef Py_ssize_t size, made
        cdef int count
        cdef bint isWaiting
        while source.start < source.stop:
            count = self.giving(
                self.input, source.data + source.start,
                <int> min(source.stop - source.start, LONGEST_TAKEN),
            )
            if count <= 0:
                raise MemoryError
            source.start += count
        if not self.isShaken and not self.shake():
            return True
        target = self.target
        if target is None:
            return False
        size = max(source.stop, RECORD)
        while True:
            target.makeRoom(size)
            self.clearing()
            count = self.reading(
                self.connection, target.data + target.stop, <int> min(size, LONGEST_TAKEN)
            )
            if count <= 0:
                break
            target.came(count)
            size = max(size - count, RECORD)
        isWaiting = self.explaining(self.connection, count) == WANT_READ
        self.clearing()
        made = self.drain()
        if made:
            # For example, the answer to an update of keys.
            self.below.noted(made)
        return isWaiting

    cdef Py_ssize_t close(self, const char* data, Py_ssize_t size, Py_ssize_t* made) except -1:
        """
        Encrypt bytes into the outbox of L{attach}, as many as OpenSSL takes without a word. The caller
        has that outbox note what was made of them.

        @return: how many they were.
        """
        cdef Py_ssize_t done = 0
        cdef int count
        while done < size and not self.below.closed:
            self.clearing()
            count = self.writing(self.connection, <void*> (data + done), <int> min(size - done, RECORD))
            if count <= 0:
                self.clearing()
                return done
            done += count
            made[0] += self.drain()
        return size

    cdef Py_ssize_t drain(self) except -1:
        """
        Take what OpenSSL has to send.

        @return: how much that is, for the outbox to note.
        """
        cdef Py_ssize_t made = 0
        cdef char* out
        cdef int count
        while not self.below.closed:
            out = self.below.reserve(RECORD + ADDED)
            if out == NULL:
                break
            count = self.taking(self.wire, out, RECORD + ADDED)
            if count <= 0:
                break
            self.below.stop += count
            made += count
        return made

    def read(self, Decoder decoder not None, ask, proceed):
        """
        Decrypt all that has come, into a decoder's buffer, and have it handled there.

        @param ask: reads in the ordinary way where OpenSSL gave nothing: returns what comes after
            all, or raises why nothing does.
        @param proceed: called with nothing when there is input in the decoder.
        @return: what C{ask} raised.
        """
        cdef Py_ssize_t came
        cdef int count
        trouble = None
        while trouble is None:
            decoder.prepare(READ_SIZE)
            try:
                came = 0
                while came <= READ_SIZE - RECORD:
                    count = self.reading(
                        self.connection, decoder.data + decoder.stop, <int> (READ_SIZE - came)
                    )
                    if count > 0:
                        decoder.came(count)
                        came += count
                        continue
                    # Ask at once: OpenSSL keeps the error for the thread, not for the connection.
                    try:
                        rest = ask()
                    except Exception as error:
                        trouble = error
                    else:
                        decoder.append(rest)
                        came += len(rest)
                    break
                if came:
                    proceed()
            finally:
                decoder.leaveShared()
        return trouble

    def write(self, bytes data not None):
        """
        Encrypt bytes, as many as OpenSSL takes without a word.

        @return: how many they were, what is to be sent for them, and whether there may be more to be
            sent, which is in the BIO.
        """
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        cdef Py_ssize_t room = size + ADDED * (size // RECORD + 2)
        cdef Py_ssize_t done = 0, filled = 0
        cdef int count
        cdef PyObject* wires = nb_newBytes(room)
        cdef char* out = nb_bytesAt(wires)
        while done < size:
            count = self.writing(
                self.connection, PyBytes_AS_STRING(data) + done, <int> min(size - done, RECORD)
            )
            if count <= 0:
                break
            done += count
            # Taken at once, the record is still in the cache, and the BIO need not grow.
            while filled < room:
                count = self.taking(self.wire, out + filled, <int> min(room - filled, LONGEST_TAKEN))
                if count <= 0:
                    break
                filled += count
        return done, nb_shortened(wires, filled), filled == room


cdef int recordsBelow(Outbox above) except -1:
    """
    Put what waits into the outbox below, as records of TLS. What OpenSSL does not take, and all
    that follows, is handed over.
    """
    cdef Outbox below = above.below
    cdef Py_ssize_t made = 0
    cdef Py_ssize_t done = above.seal.close(
        above.data + above.start, above.stop - above.start, &made
    )
    above.start += done
    above.sentBytes += done
    if above.start == above.stop:
        above.giveBack()
    else:
        above.below = None
    if made:
        below.noted(made)
    return above.handOver() if above.below is None else 0
