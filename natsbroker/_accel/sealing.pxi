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

ctypedef int (*Transfer)(void*, void*, int) noexcept

# The most that one record holds, and more than any cipher adds to it.
cdef enum:
    RECORD = 16384
    ADDED = 256
    LONGEST_TAKEN = 1073741824


@cython.final
cdef class Seal:
    """
    What is said over one TLS connection with memory BIOs, after its handshake. It reads and writes as
    long as OpenSSL does so without a word; whatever else there is to say, it says to its caller.
    """

    cdef object ssl
    cdef void* connection
    cdef void* wire
    cdef Transfer reading, writing, taking

    def __init__(
        self, ssl, size_t connection, size_t wire, size_t reading, size_t writing, size_t taking
    ):
        """
        @param ssl: keeps the connection alive while it is referred to.
        @param connection: the address of the C{SSL}.
        @param wire: the address of the C{BIO} that takes what it sends.
        @param reading: the address of C{SSL_read}.
        @param writing: the address of C{SSL_write}.
        @param taking: the address of C{BIO_read}.
        @raise ValueError: if one of them is nowhere.
        """
        if not (connection and wire and reading and writing and taking):
            raise ValueError("an address is missing")
        self.ssl = ssl
        self.connection = <void*> connection
        self.wire = <void*> wire
        self.reading = <Transfer> reading
        self.writing = <Transfer> writing
        self.taking = <Transfer> taking

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
                    # At once: what OpenSSL remembers of it is the thread's, not the connection's.
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
            # The record is warm, and the BIO need not grow.
            while filled < room:
                count = self.taking(self.wire, out + filled, <int> min(room - filled, LONGEST_TAKEN))
                if count <= 0:
                    break
                filled += count
        return done, nb_shortened(wires, filled), filled == room
