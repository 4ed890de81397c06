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


cdef inline Py_ssize_t pointInto(Stored* stored, const char* record) noexcept nogil:
    """
    Have a message point into an encoded record, as far as its head says.

    @return: how long the record is then.
    """
    stored.subjectLength = nb_get(record + 4, 2)
    stored.headersLength = nb_get(record + 8, 4)
    stored.payloadLength = nb_get(record + 12, 4)
    stored.subject = record + RECORD_HEAD
    stored.headers = stored.subject + stored.subjectLength
    stored.payload = stored.headers + stored.headersLength
    return RECORD_HEAD + stored.subjectLength + stored.headersLength + stored.payloadLength


@cython.final
cdef class EncodedRecords:
    """
    Verified records that stay where they are in their blocks. A record is decoded when it is asked
    for.
    """

    cdef type recordClass
    # The objects that contain the records.
    cdef list raws
    cdef const char** records
    cdef Py_ssize_t count, capacity
    # The bytes of a stored header block that are not part of it.
    cdef Py_ssize_t skipped

    def __init__(self, type recordClass not None, Py_ssize_t skipped=0):
        """
        @param skipped: the bytes that precede each header block, to be left out.
        """
        self.recordClass = recordClass
        self.raws = []
        self.skipped = skipped

    def __dealloc__(self):
        free(self.records)

    cdef int add(self, const char* record) except -1:
        cdef const char** larger
        cdef Py_ssize_t capacity
        if self.count == self.capacity:
            capacity = max(2 * self.capacity, 64)
            larger = <const char**> realloc(self.records, capacity * sizeof(const char*))
            if larger == NULL:
                raise MemoryError
            self.records = larger
            self.capacity = capacity
        self.records[self.count] = record
        self.count += 1
        return 0

    cdef int tighten(self, Py_ssize_t begun, Py_ssize_t size) except -1:
        """
        Keep a copy of the newest records instead of what they are in, if they are a small part of
        that.

        @param begun: the place of the first one.
        @param size: their bytes.
        """
        cdef bytes copy
        cdef Stored stored
        cdef Py_ssize_t place, length
        cdef char* out
        cdef Py_ssize_t newest = PyList_GET_SIZE(self.raws) - 1
        if 2 * size >= len(self.raws[newest]):
            return 0
        copy = PyBytes_FromStringAndSize(NULL, size)
        out = PyBytes_AS_STRING(copy)
        for place in range(begun, self.count):
            length = pointInto(&stored, self.records[place])
            memcpy(out, self.records[place], length)
            self.records[place] = out
            out += length
        self.raws[newest] = copy
        return 0

    cdef void fill(self, Py_ssize_t place, Stored* stored) noexcept:
        """
        Have a message point into a record.
        """
        pointInto(stored, self.records[place])
        if stored.headersLength > self.skipped:
            stored.headers += self.skipped
            stored.headersLength -= self.skipped
        else:
            stored.headersLength = 0

    cdef inline uint64_t sequenceAt(self, Py_ssize_t place) noexcept:
        return nb_get(self.records[place] + 24, 8)

    cdef inline uint64_t timestampAt(self, Py_ssize_t place) noexcept:
        return nb_get(self.records[place] + 32, 8)

    def __len__(self):
        return self.count

    def __getitem__(self, key):
        cdef EncodedRecords part
        cdef Stored stored
        cdef Py_ssize_t place, stop, step
        if isinstance(key, slice):
            place, stop, step = key.indices(self.count)
            if step != 1:
                raise ValueError("only records that follow each other")
            part = EncodedRecords(self.recordClass, self.skipped)
            part.raws = self.raws
            while place < stop:
                part.add(self.records[place])
                place += 1
            return part
        place = key
        if place < 0:
            place += self.count
        if not 0 <= place < self.count:
            raise IndexError("there are fewer records")
        self.fill(place, &stored)
        record = nb_tupleOf(self.recordClass, 5)
        keepItem(record, 0, self.sequenceAt(place))
        keepItem(record, 1, <long long> self.timestampAt(place))
        keepItem(record, 2, PyBytes_FromStringAndSize(stored.subject, stored.subjectLength))
        keepItem(record, 3, PyBytes_FromStringAndSize(stored.headers, stored.headersLength))
        keepItem(record, 4, PyBytes_FromStringAndSize(stored.payload, stored.payloadLength))
        return record

    def sequences(self):
        """
        Those of all records.
        """
        cdef Py_ssize_t place
        return [self.sequenceAt(place) for place in range(self.count)]


def selectRecords(
    found not None, type recordClass not None, bytes raw not None, Py_ssize_t offset,
    array.array starts not None, sequences, dead, Py_ssize_t begin, Py_ssize_t end,
    uint64_t identity, tuple patterns, Py_ssize_t limit, Py_ssize_t maxBytes,
):
    """
    Select as the twin's C{Block.select}.

    @param found: a list, or L{EncodedRecords}.
    @param offset: what the starts count from.
    @param starts: where each record begins; one more item, where the last one ends.
    @param sequences: a range or a list of the sequences that the records should have.
    @param dead: sequences of records to leave out.
    @param patterns: of subjects; C{None} for all records.
    @param limit: how many records there are at most in C{found}.
    @param maxBytes: stop when subjects, headers and payloads have that many bytes.
    @return: the index of the first record that was not looked at: before the end, C{limit} and
        C{maxBytes}, it is of one that is wanted and not whole; and the bytes that are left.
    """
    cdef EncodedRecords encoded = found if isinstance(found, EncodedRecords) else None
    cdef list decoded = <list?> found if encoded is None else None
    cdef list listed = None if isinstance(sequences, range) else <list?> sequences
    cdef uint64_t first = sequences[0] if sequences else 0, sequence
    cdef bint hasDead = bool(dead)
    cdef const char* at
    cdef unsigned int* places
    cdef Py_ssize_t index = begin, start, length, subjectLength, headersLength, payloadLength
    cdef Py_ssize_t size = PyBytes_GET_SIZE(raw), begun = 0, kept = 0
    cdef bytes subject = None
    if starts.ob_descr.typecode != c"I" or sizeof(unsigned int) != 4:
        raise TypeError("starts have the typecode I")
    if offset < 0:
        raise IndexError("before the beginning")
    places = starts.data.as_uints
    if begin < 0 or end >= len(starts) or end > <Py_ssize_t> len(sequences):
        raise IndexError("there are fewer records")
    limit -= len(found)
    if encoded is not None:
        encoded.raws.append(raw)
        begun = encoded.count
    while index < end and limit > 0 and maxBytes > 0:
        sequence = first + <uint64_t> index if listed is None else <uint64_t> listed[index]
        start = offset + <Py_ssize_t> places[index]
        length = offset + <Py_ssize_t> places[index + 1] - start
        if hasDead and sequence in dead:
            index += 1
            continue
        if length < RECORD_HEAD or start + length > size:
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
        index += 1
        limit -= 1
        maxBytes -= length - RECORD_HEAD
        if encoded is not None:
            encoded.add(at)
            kept += length
            continue
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
        decoded.append(record)
    if encoded is not None:
        encoded.tighten(begun, kept)
    return index, maxBytes
