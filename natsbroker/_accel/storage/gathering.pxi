# A step in front of natsbroker.storage.exports: blocks of records as columns, without an object for
# each record. It works without the interpreter's lock.

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cdef enum:
    BLOCK_HEAD = 84

cdef struct RawBytes:
    const char* at
    Py_ssize_t size

cdef struct Totals:
    Py_ssize_t rows, subjects, headers, payloads
    uint64_t following
    bint isAll

cdef struct Targets:
    char* sequences
    char* timestamps
    char* subjectEnds
    char* subjects
    char* headerEnds
    char* headers
    char* payloadEnds
    char* payloads


cdef inline void putNumber(char* out, Py_ssize_t place, int64_t value) noexcept nogil:
    """
    A number of eight bytes, in the machine's order.
    """
    memcpy(out + 8 * place, &value, 8)


cdef inline Py_ssize_t blockRecords(const RawBytes* block, uint64_t identity) noexcept nogil:
    """The number of records in a whole block of a log; -1 if it is none."""
    cdef const char* at = block.at
    cdef uint64_t count, width, first, last
    if block.size < BLOCK_HEAD or at[8] != c"B":
        return -1
    if nb_get(at + 80, 4) != nb_crc(at, 80, True):
        return -1
    count, first, last = nb_get(at + 12, 4), nb_get(at + 36, 8), nb_get(at + 44, 8)
    width = 8 if nb_get(at + 10, 2) else 4
    if nb_get(at + 28, 8) != identity or nb_get(at + 16, 4) != <uint64_t> block.size:
        return -1
    if count == 0 or BLOCK_HEAD + width * count > <uint64_t> block.size:
        return -1
    if width == 4 and last - first + 1 != count:
        return -1
    if nb_get(at + 76, 4) != nb_crc(at + BLOCK_HEAD, width * count, True):
        return -1
    return <Py_ssize_t> count


cdef bint gatherInto(
    const RawBytes* blocks, Py_ssize_t count, uint64_t identity, uint64_t sequence, uint64_t stop,
    Py_ssize_t maxBytes, Py_ssize_t maxRows, Totals* totals, Targets* targets,
) noexcept nogil:
    """
    Go through blocks up to the first thing that is not as it should be.

    @param maxRows: how many records at most; with targets, not more than were verified before.
    @param targets: where to put what is found; NULL to verify and measure only.
    @return: whether all of them were as they should be, as far as they were wanted.
    """
    cdef Py_ssize_t each, index, records, region, start, end, length
    cdef Py_ssize_t subjectLength, headersLength, payloadLength
    cdef const char* at
    cdef const char* table
    cdef bint hasGaps
    cdef uint64_t first, number
    memset(totals, 0, sizeof(Totals))
    totals.following = sequence
    for each in range(count):
        records = blockRecords(&blocks[each], identity)
        if records < 0:
            return False
        table = blocks[each].at + BLOCK_HEAD
        hasGaps = nb_get(blocks[each].at + 10, 2) != 0
        region = BLOCK_HEAD + (8 if hasGaps else 4) * records
        first = nb_get(blocks[each].at + 36, 8)
        index = 0
        if not hasGaps and sequence > first:
            index = records if sequence - first > <uint64_t> records else <Py_ssize_t> (sequence - first)
        start = region + (<Py_ssize_t> nb_get(table + 4 * (index - 1), 4) if index else 0)
        while index < records:
            number = first + (nb_get(table + 4 * (records + index), 4) if hasGaps else <uint64_t> index)
            if number >= stop:
                totals.following = stop
                return True
            end = region + <Py_ssize_t> nb_get(table + 4 * index, 4)
            index += 1
            if number < sequence:
                start = end
                continue
            length = end - start
            if length < RECORD_HEAD or end > blocks[each].size or number < totals.following:
                return False
            at = blocks[each].at + start
            subjectLength = nb_get(at + 4, 2)
            headersLength = nb_get(at + 8, 4)
            payloadLength = nb_get(at + 12, 4)
            if targets == NULL and (
                RECORD_HEAD + subjectLength + headersLength + payloadLength != length
                or nb_get(at, 4) != nb_crc(at + 4, length - 4, True)
                or nb_get(at + 16, 8) != identity or nb_get(at + 24, 8) != number
            ):
                return False
            at += RECORD_HEAD
            if targets != NULL:
                putNumber(targets.sequences, totals.rows, <int64_t> number)
                putNumber(targets.timestamps, totals.rows, <int64_t> nb_get(at - 8, 8))
                memcpy(targets.subjects + totals.subjects, at, subjectLength)
                memcpy(targets.headers + totals.headers, at + subjectLength, headersLength)
                memcpy(
                    targets.payloads + totals.payloads, at + subjectLength + headersLength,
                    payloadLength,
                )
            totals.rows += 1
            totals.subjects += subjectLength
            totals.headers += headersLength
            totals.payloads += payloadLength
            totals.following = number + 1
            if targets != NULL:
                putNumber(targets.subjectEnds, totals.rows, totals.subjects)
                putNumber(targets.headerEnds, totals.rows, totals.headers)
                putNumber(targets.payloadEnds, totals.rows, totals.payloads)
            start = end
            maxBytes -= length - RECORD_HEAD
            if maxBytes <= 0 or totals.rows == maxRows:
                return True
    totals.isAll = True
    return True


def gatherBlocks(
    raws, uint64_t identity, uint64_t sequence, uint64_t stop, Py_ssize_t maxBytes
):
    """
    Turn blocks that follow each other into columns.

    @param maxBytes: stop when subjects, headers and payloads have that many bytes.
    @return: the sequences, timestamps, ends of subjects, subjects, ends of headers, headers, ends
        of payloads and payloads, all as bytes, numbers eight bytes each in the machine's order;
        the first sequence that was not looked at; and whether all blocks were gone through to their
        ends. None if anything is not whole or not what it
        should be: that is left to the readable path.
    """
    cdef tuple held = tuple(raws)
    cdef Py_ssize_t count = PyTuple_GET_SIZE(held), place
    cdef Totals totals, again
    cdef Targets targets
    cdef bint isGood
    cdef RawBytes* blocks = <RawBytes*> malloc((count + 1) * sizeof(RawBytes))
    if blocks == NULL:
        raise MemoryError()
    try:
        for place in range(count):
            raw = held[place]
            if type(raw) is not bytes:
                raise TypeError("a block is bytes")
            blocks[place].at = PyBytes_AS_STRING(<bytes> raw)
            blocks[place].size = PyBytes_GET_SIZE(<bytes> raw)
        with nogil:
            isGood = gatherInto(
                blocks, count, identity, sequence, stop, maxBytes, PY_SSIZE_T_MAX, &totals, NULL
            )
        if not isGood:
            return None
        columns = (
            PyBytes_FromStringAndSize(NULL, 8 * totals.rows),
            PyBytes_FromStringAndSize(NULL, 8 * totals.rows),
            PyBytes_FromStringAndSize(NULL, 8 * (totals.rows + 1)),
            PyBytes_FromStringAndSize(NULL, totals.subjects),
            PyBytes_FromStringAndSize(NULL, 8 * (totals.rows + 1)),
            PyBytes_FromStringAndSize(NULL, totals.headers),
            PyBytes_FromStringAndSize(NULL, 8 * (totals.rows + 1)),
            PyBytes_FromStringAndSize(NULL, totals.payloads),
        )
        targets.sequences = PyBytes_AS_STRING(<bytes> columns[0])
        targets.timestamps = PyBytes_AS_STRING(<bytes> columns[1])
        targets.subjectEnds = PyBytes_AS_STRING(<bytes> columns[2])
        targets.subjects = PyBytes_AS_STRING(<bytes> columns[3])
        targets.headerEnds = PyBytes_AS_STRING(<bytes> columns[4])
        targets.headers = PyBytes_AS_STRING(<bytes> columns[5])
        targets.payloadEnds = PyBytes_AS_STRING(<bytes> columns[6])
        targets.payloads = PyBytes_AS_STRING(<bytes> columns[7])
        putNumber(targets.subjectEnds, 0, 0)
        putNumber(targets.headerEnds, 0, 0)
        putNumber(targets.payloadEnds, 0, 0)
        if totals.rows:
            with nogil:
                gatherInto(
                    blocks, count, identity, sequence, stop, maxBytes, totals.rows, &again, &targets
                )
        return columns, totals.following, totals.isAll
    finally:
        free(blocks)
