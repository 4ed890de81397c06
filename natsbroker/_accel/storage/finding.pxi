# Steps in front of natsbroker.storage.lmdb.fetching: one record in the database, by its subject or its
# sequence.

cdef enum:
    ENVELOPE_HEAD = 28
    TALLY_HEAD = 29
    SEQUENCE_KEY = 17


cdef bytes sequenceKey(char kind, uint64_t identity, uint64_t sequence):
    """
    As natsbroker.storage.lmdb.layout makes them: the numbers are big-endian.
    """
    cdef bytes key = PyBytes_FromStringAndSize(NULL, SEQUENCE_KEY)
    cdef char* out = PyBytes_AS_STRING(key)
    cdef int place
    out[0] = kind
    for place in range(8):
        out[1 + place] = <char> (identity >> (56 - 8 * place))
        out[9 + place] = <char> (sequence >> (56 - 8 * place))
    return key


def findLast(txn, bytes key not None):
    """
    The last sequence in a tally; 0 if there is none, or it is damaged.

    @param txn: a transaction of LMDB.
    """
    cdef Py_buffer raw
    cdef const char* at
    cdef Py_ssize_t length = PyBytes_GET_SIZE(key)
    cdef uint64_t last = 0
    found = txn.get(key)
    if found is None:
        return 0
    PyObject_GetBuffer(found, &raw, PyBUF_SIMPLE)
    at = <const char*> raw.buf
    if (
        raw.len >= ENVELOPE_HEAD + length + TALLY_HEAD
        and nb_get(at + 10, 2) == <uint64_t> length
        and nb_get(at + 12, 4) == <uint64_t> (raw.len - ENVELOPE_HEAD - length)
        and memcmp(at + ENVELOPE_HEAD, PyBytes_AS_STRING(key), length) == 0
        and nb_get(at + 24, 4) == nb_crcOn(
            nb_crc(at, 24, True), at + ENVELOPE_HEAD, raw.len - ENVELOPE_HEAD, True
        )
    ):
        last = nb_get(at + ENVELOPE_HEAD + length + 16, 8)
    PyBuffer_Release(&raw)
    return last


def findRecord(txn, uint64_t identity, uint64_t sequence):
    """
    A record, unverified, that may have been deleted.

    @param txn: a transaction of LMDB.
    @return: the first sequence of its block, its bytes, and the value that says what was deleted
        from the block, C{None} for nothing; C{None} if there is no such record.
    """
    cdef bytes wanted = sequenceKey(c"B", identity, sequence)
    cdef Py_buffer raw
    cdef const char* text
    cdef uint64_t first = 0
    cdef int place
    cursor = txn.cursor()
    isThere = cursor.set_range(wanted)
    key = bytes(cursor.key()) if isThere else b""
    if key != wanted:
        if not (cursor.prev() if isThere else cursor.last()):
            return None
        key = bytes(cursor.key())
    text = PyBytes_AS_STRING(key)
    if len(key) != SEQUENCE_KEY or memcmp(text, PyBytes_AS_STRING(wanted), 9) != 0:
        return None
    for place in range(9, SEQUENCE_KEY):
        first = first << 8 | <unsigned char> text[place]
    found = cursor.value()
    PyObject_GetBuffer(found, &raw, PyBUF_SIMPLE)
    try:
        record = recordIn(<const char*> raw.buf, raw.len, sequence)
    finally:
        PyBuffer_Release(&raw)
    if record is None:
        return None
    return first, record, txn.get(sequenceKey(c"G", identity, first))


cdef bytes recordIn(const char* at, Py_ssize_t size, uint64_t sequence):
    """
    As natsbroker.storage.blocks.placeIn finds them.
    """
    cdef uint64_t count, first, wanted, index, low, high, middle, start, end, region
    cdef const char* table = at + BLOCK_HEAD
    if size < BLOCK_HEAD:
        return None
    count, first = nb_get(at + 12, 4), nb_get(at + 36, 8)
    hasGaps = nb_get(at + 10, 2) != 0
    region = BLOCK_HEAD + (8 if hasGaps else 4) * count
    if sequence < first or region > <uint64_t> size:
        return None
    index = wanted = sequence - first
    if hasGaps:
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if nb_get(table + 4 * (count + middle), 4) < wanted:
                low = middle + 1
            else:
                high = middle
        if low < count and nb_get(table + 4 * (count + low), 4) != wanted:
            return None
        index = low
    if index >= count:
        return None
    start = nb_get(table + 4 * (index - 1), 4) if index else 0
    end = nb_get(table + 4 * index, 4)
    if start >= end or end > <uint64_t> size - region:
        return None
    return PyBytes_FromStringAndSize(at + region + start, end - start)
