# A step in front of natsbroker.storage.blocks: the records of a block whose subjects are wanted.


cdef bint hasTokens(const char* at, Py_ssize_t size) noexcept nogil:
    """
    Whether a subject has tokens, and none of them is empty.
    """
    cdef Py_ssize_t place
    if size == 0 or at[0] == c"." or at[size - 1] == c".":
        return False
    for place in range(size - 1):
        if at[place] == c"." and at[place + 1] == c".":
            return False
    return True


cdef inline Py_ssize_t tokenEnd(const char* at, Py_ssize_t place, Py_ssize_t size) noexcept nogil:
    while place < size and at[place] != c".":
        place += 1
    return place


cdef bint isMatch(
    const char* pattern, Py_ssize_t patternSize, const char* subject, Py_ssize_t size
) noexcept nogil:
    """
    As L{natsbroker.subjects.grammar.matches}.
    """
    cdef Py_ssize_t wanted = 0, given = 0, wantedEnd, givenEnd
    while True:
        wantedEnd = tokenEnd(pattern, wanted, patternSize)
        if wantedEnd == patternSize and wantedEnd - wanted == 1 and pattern[wanted] == c">":
            return hasTokens(subject + given, size - given)
        givenEnd = tokenEnd(subject, given, size)
        if givenEnd == given:
            return False
        if not (wantedEnd - wanted == 1 and pattern[wanted] == c"*") and (
            wantedEnd - wanted != givenEnd - given
            or memcmp(pattern + wanted, subject + given, givenEnd - given) != 0
        ):
            return False
        if wantedEnd == patternSize or givenEnd == size:
            return wantedEnd == patternSize and givenEnd == size
        wanted = wantedEnd + 1
        given = givenEnd + 1


cdef bint isWanted(tuple patterns, const char* subject, Py_ssize_t size) except -1:
    cdef Py_ssize_t place
    cdef bytes pattern
    for place in range(PyTuple_GET_SIZE(patterns)):
        pattern = <bytes?> patterns[place]
        if isMatch(PyBytes_AS_STRING(pattern), PyBytes_GET_SIZE(pattern), subject, size):
            return True
    return False


def selectRecords(
    type recordClass not None, bytes raw not None, list starts not None, sequences, dead,
    Py_ssize_t begin, Py_ssize_t end, uint64_t identity, tuple patterns, Py_ssize_t limit,
    Py_ssize_t maxBytes,
):
    """
    Read the records that are wanted.

    @param starts: where each record begins; one more item, where the last one ends.
    @param sequences: a range or a list of the sequences that the records should have.
    @param dead: sequences of records to leave out.
    @param patterns: of subjects; C{None} for all records.
    @param maxBytes: stop when subjects, headers and payloads have that many bytes.
    @return: the records; the index of the first one that was not looked at: before the end, C{limit}
        and C{maxBytes}, it is of one that is wanted and not whole; and the bytes that are left.
    """
    cdef list found = []
    cdef list listed = None if isinstance(sequences, range) else <list?> sequences
    cdef uint64_t first = sequences[0] if sequences else 0, sequence
    cdef bint hasDead = bool(dead)
    cdef const char* at
    cdef Py_ssize_t index = begin, start, length, subjectLength, headersLength, payloadLength
    cdef Py_ssize_t size = PyBytes_GET_SIZE(raw)
    cdef bytes subject = None
    if begin < 0 or end >= PyList_GET_SIZE(starts) or end > <Py_ssize_t> len(sequences):
        raise IndexError("there are fewer records")
    while index < end and limit > 0 and maxBytes > 0:
        sequence = first + <uint64_t> index if listed is None else <uint64_t> listed[index]
        start = starts[index]
        length = <Py_ssize_t> starts[index + 1] - start
        if hasDead and sequence in dead:
            index += 1
            continue
        if start < 0 or length < RECORD_HEAD or start + length > size:
            break
        at = PyBytes_AS_STRING(raw) + start
        subjectLength = nb_get(at + 4, 2)
        headersLength = nb_get(at + 8, 4)
        payloadLength = nb_get(at + 12, 4)
        if patterns is not None and not isWanted(
            patterns, at + RECORD_HEAD, min(subjectLength, size - start - RECORD_HEAD)
        ):
            index += 1
            continue
        if (
            RECORD_HEAD + subjectLength + headersLength + payloadLength != length
            or nb_get(at, 4) != nb_crc(at + 4, length - 4, True)
            or nb_get(at + 16, 8) != identity or nb_get(at + 24, 8) != sequence
        ):
            break
        if (
            subject is None or PyBytes_GET_SIZE(subject) != subjectLength
            or memcmp(PyBytes_AS_STRING(subject), at + RECORD_HEAD, subjectLength) != 0
        ):
            subject = PyBytes_FromStringAndSize(at + RECORD_HEAD, subjectLength)
        record = nb_tupleOf(recordClass, 5)
        keepItem(record, 0, sequence)
        keepItem(record, 1, <long long> nb_get(at + 32, 8))
        keepItem(record, 2, subject)
        at += RECORD_HEAD + subjectLength
        keepItem(record, 3, PyBytes_FromStringAndSize(at, headersLength))
        keepItem(record, 4, PyBytes_FromStringAndSize(at + headersLength, payloadLength))
        found.append(record)
        index += 1
        limit -= 1
        maxBytes -= length - RECORD_HEAD
    return found, index, maxBytes
