# Steps in front of natsbroker.storage.records: many records at once, as bytes and back.

cdef extern from *:
    """
    #include <Python.h>
    #include <stdint.h>
    #include <string.h>

    static uint32_t nb_crcTable[8][256];
    static int nb_crcReady = 0;

    static void nb_crcPrepare(void) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = i;
            for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
            nb_crcTable[0][i] = crc;
        }
        for (uint32_t i = 0; i < 256; i++)
            for (int k = 1; k < 8; k++)
                nb_crcTable[k][i] = nb_crcTable[k - 1][i] >> 8 ^ nb_crcTable[0][nb_crcTable[k - 1][i] & 255];
        nb_crcReady = 1;
    }

    static uint32_t nb_crcByTable(uint32_t crc, const unsigned char *at, size_t length) {
        for (; length >= 8; at += 8, length -= 8) {
            crc ^= (uint32_t) at[0] | (uint32_t) at[1] << 8 | (uint32_t) at[2] << 16 | (uint32_t) at[3] << 24;
            crc = nb_crcTable[7][crc & 255] ^ nb_crcTable[6][crc >> 8 & 255] ^ nb_crcTable[5][crc >> 16 & 255] ^
                  nb_crcTable[4][crc >> 24] ^ nb_crcTable[3][at[4]] ^ nb_crcTable[2][at[5]] ^ nb_crcTable[1][at[6]] ^
                  nb_crcTable[0][at[7]];
        }
        while (length--) crc = crc >> 8 ^ nb_crcTable[0][(crc ^ *at++) & 255];
        return crc;
    }

    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    __attribute__((target("sse4.2,crc32")))
    static uint32_t nb_crcByMachine(uint32_t crc, const unsigned char *at, size_t length) {
        uint64_t state = crc, word;
        for (; length >= 8; at += 8, length -= 8) {
            memcpy(&word, at, 8);
            state = __builtin_ia32_crc32di(state, word);
        }
        crc = (uint32_t) state;
        while (length--) crc = __builtin_ia32_crc32qi(crc, *at++);
        return crc;
    }
    static int nb_hasMachine(void) { return __builtin_cpu_supports("sse4.2"); }
    #else
    static uint32_t nb_crcByMachine(uint32_t crc, const unsigned char *at, size_t length) {
        return nb_crcByTable(crc, at, length);
    }
    static int nb_hasMachine(void) { return 0; }
    #endif

    /* CRC-32C of some bytes behind others. */
    static uint32_t nb_crcOn(uint32_t crc, const char *at, size_t length, int byMachine) {
        if (!nb_crcReady) nb_crcPrepare();
        if (byMachine && nb_hasMachine()) return ~nb_crcByMachine(~crc, (const unsigned char *) at, length);
        return ~nb_crcByTable(~crc, (const unsigned char *) at, length);
    }
    static uint32_t nb_crc(const char *at, size_t length, int byMachine) {
        return nb_crcOn(0, at, length, byMachine);
    }

    static inline void nb_put16(char *out, uint16_t value) {
        for (int k = 0; k < 2; k++) out[k] = (char) (value >> 8 * k);
    }
    static inline void nb_put32(char *out, uint32_t value) {
        for (int k = 0; k < 4; k++) out[k] = (char) (value >> 8 * k);
    }
    static inline void nb_put64(char *out, uint64_t value) {
        for (int k = 0; k < 8; k++) out[k] = (char) (value >> 8 * k);
    }
    static inline uint64_t nb_get(const char *at, int size) {
        uint64_t value = 0;
        for (int k = 0; k < size; k++) value |= (uint64_t) (unsigned char) at[k] << 8 * k;
        return value;
    }

    /* An empty tuple with that many places, of a class that is derived from tuple. It is for bytes and
     * numbers, which make no cycles, so the garbage collector need not look at it. */
    static PyObject *nb_tupleOf(PyObject *type, Py_ssize_t count) {
        PyObject *made;
        if (!PyType_HasFeature((PyTypeObject *) type, Py_TPFLAGS_TUPLE_SUBCLASS)) {
            PyErr_SetString(PyExc_TypeError, "not a class of tuples");
            return NULL;
        }
        made = ((PyTypeObject *) type)->tp_alloc((PyTypeObject *) type, count);
        if (made != NULL) PyObject_GC_UnTrack(made);
        return made;
    }
    """
    uint32_t nb_crc(const char* at, size_t length, int byMachine) noexcept nogil
    uint32_t nb_crcOn(uint32_t crc, const char* at, size_t length, int byMachine) noexcept nogil
    void nb_put16(char* out, unsigned int value) noexcept nogil
    void nb_put32(char* out, uint32_t value) noexcept nogil
    void nb_put64(char* out, uint64_t value) noexcept nogil
    uint64_t nb_get(const char* at, int size) noexcept nogil
    object nb_tupleOf(object type, Py_ssize_t count)

cdef extern from "Python.h":
    void PyTuple_SET_ITEM(object, Py_ssize_t, object) noexcept
    Py_ssize_t PyList_GET_SIZE(object) noexcept

cdef enum:
    RECORD_HEAD = 40
    MOST_SUBJECT = 65535
    MOST_RECORD = 1073741824


def crc32c(bytes data not None, bint byMachine=True):
    """
    The CRC-32C of some bytes.

    @param byMachine: whether the processor's instruction for it may be used, if there is one.
    """
    return nb_crc(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), byMachine)


cdef inline int keepItem(object tuple, Py_ssize_t place, object item) except -1:
    Py_INCREF(item)
    PyTuple_SET_ITEM(tuple, place, item)
    return 0


def encodeRecords(
    uint64_t identity, uint64_t sequence, batch, long long now, long long lastTime, bytes sole not None
):
    """
    Encode as natsbroker.storage.records.encodeBatch, for entries that are tuples of bytes.

    @return: the records, the bytes of subjects, headers and payloads, the last timestamp, and
        whether every subject is C{sole}; None if that is left to the readable path, which then also
        says what is wrong.
    """
    cdef list blobs = []
    cdef tuple entry
    cdef bytes subject, headers, payload, blob
    cdef Py_ssize_t length, subjectLength, headersLength, payloadLength, size = 0
    cdef long long timestamp
    cdef char* out
    cdef bint uniform = True
    for each in batch:
        if type(each) is not tuple or PyTuple_GET_SIZE(each) != 4:
            return None
        entry = <tuple> each
        if (
            type(entry[0]) is not bytes or type(entry[1]) is not bytes or type(entry[2]) is not bytes
        ):
            return None
        subject = <bytes> entry[0]
        headers = <bytes> entry[1]
        payload = <bytes> entry[2]
        timestamp = entry[3]
        if timestamp == 0:
            timestamp = now
        if timestamp > lastTime:
            lastTime = timestamp
        subjectLength = PyBytes_GET_SIZE(subject)
        headersLength = PyBytes_GET_SIZE(headers)
        payloadLength = PyBytes_GET_SIZE(payload)
        length = subjectLength + headersLength + payloadLength
        if subjectLength > MOST_SUBJECT or length > MOST_RECORD:
            return None
        size += length
        if subject is not sole and uniform and subject != sole:
            uniform = False
        blob = PyBytes_FromStringAndSize(NULL, RECORD_HEAD + length)
        out = PyBytes_AS_STRING(blob)
        nb_put16(out + 4, subjectLength)
        nb_put16(out + 6, 0)
        nb_put32(out + 8, headersLength)
        nb_put32(out + 12, payloadLength)
        nb_put64(out + 16, identity)
        nb_put64(out + 24, sequence)
        nb_put64(out + 32, <uint64_t> lastTime)
        memcpy(out + RECORD_HEAD, PyBytes_AS_STRING(subject), subjectLength)
        memcpy(out + RECORD_HEAD + subjectLength, PyBytes_AS_STRING(headers), headersLength)
        memcpy(
            out + RECORD_HEAD + subjectLength + headersLength, PyBytes_AS_STRING(payload),
            payloadLength,
        )
        nb_put32(out, nb_crc(out + 4, RECORD_HEAD - 4 + length, True))
        blobs.append(blob)
        sequence += 1
    return blobs, size, lastTime, uniform


cdef enum:
    FRAME_HEAD = 36


def packFrame(
    bytes mark not None, uint64_t generation, uint64_t since, blobs not None, Py_ssize_t sector
):
    """
    The twin of L{natsbroker.storage.lmdb.journal.packFrame}.

    @param mark: eight bytes.
    @param sector: what the length of the result is a multiple of.
    """
    cdef Py_ssize_t size = 0, length
    cdef uint32_t crc
    cdef char* begin
    cdef char* out
    cdef bytes frame
    if PyBytes_GET_SIZE(mark) != 8 or sector <= 0:
        raise ValueError("a mark has eight bytes, and a sector some")
    cdef list pieces = list(blobs)
    for blob in pieces:
        size += PyBytes_GET_SIZE(<bytes?> blob)
    if size > MOST_RECORD:
        raise ValueError("the frame is too long")
    length = (2 * (FRAME_HEAD + size) + sector - 1) // sector * sector
    frame = PyBytes_FromStringAndSize(NULL, length)
    begin = PyBytes_AS_STRING(frame)
    memcpy(begin, PyBytes_AS_STRING(mark), 8)
    begin[8] = c"J"
    begin[9] = 1
    nb_put16(begin + 10, 0)
    nb_put32(begin + 12, <uint32_t> size)
    nb_put64(begin + 16, generation)
    nb_put64(begin + 24, since)
    out = begin + FRAME_HEAD
    for blob in pieces:
        memcpy(out, PyBytes_AS_STRING(<bytes> blob), PyBytes_GET_SIZE(<bytes> blob))
        out += PyBytes_GET_SIZE(<bytes> blob)
    crc = nb_crcOn(nb_crc(begin, FRAME_HEAD - 4, True), begin + FRAME_HEAD, size, True)
    nb_put32(begin + FRAME_HEAD - 4, crc)
    memcpy(out, begin, FRAME_HEAD + size)
    memset(out + FRAME_HEAD + size, 0, length - 2 * (FRAME_HEAD + size))
    return frame
