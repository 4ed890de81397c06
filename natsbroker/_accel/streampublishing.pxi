# A step in front of natsbroker.jetstream.streams.publish: the messages that a stream accepts
# without a look-up in its log, and their acknowledgements.

cdef enum:
    MOST_HEADERS = 65535
    MOST_DIGITS = 18

# The values of the headers that the step understands; missing headers have no data.
cdef struct Expected:
    Field messageId, stream, sequence, subjectSequence, lastId, rollup, ttl


cdef inline bint isHeader(const char* at, Py_ssize_t size, const char* name, Py_ssize_t length) noexcept nogil:
    return size == length and memcmp(at, name, length) == 0


cdef Field* fieldNamed(Expected* found, const char* at, Py_ssize_t size) noexcept nogil:
    if isHeader(at, size, b"Nats-Msg-Id", 11):
        return &found.messageId
    if isHeader(at, size, b"Nats-Expected-Stream", 20):
        return &found.stream
    if isHeader(at, size, b"Nats-Expected-Last-Sequence", 27):
        return &found.sequence
    if isHeader(at, size, b"Nats-Expected-Last-Subject-Sequence", 35):
        return &found.subjectSequence
    if isHeader(at, size, b"Nats-Expected-Last-Msg-Id", 25):
        return &found.lastId
    if isHeader(at, size, b"Nats-Rollup", 11):
        return &found.rollup
    if isHeader(at, size, b"Nats-TTL", 8):
        return &found.ttl
    return NULL


cdef bint readExpected(const char* at, Py_ssize_t size, Expected* found) noexcept nogil:
    """
    Read a header block. No if a header is there that the step does not understand, or one is there
    twice or without a value, or a line does not end, or the first one has a status.
    """
    cdef const char* end = at + size
    cdef const char* line
    cdef const char* stop
    cdef const char* colon
    cdef Field* field
    cdef bint isFirst = True
    memset(found, 0, sizeof(Expected))
    while at < end:
        line = stop = at
        while True:
            stop = <const char*> memchr(stop, c"\n", end - stop)
            if stop == NULL:
                return False
            stop += 1
            if stop - line > 1 and (stop - 2)[0] == c"\r":
                break
        at = stop
        stop -= 2
        if isFirst and stop - line > 8 and memcmp(line, b"NATS/1.0", 8) == 0:
            return False
        if isFirst or stop - line < 5 or memcmp(line, b"Nats-", 5) != 0:
            isFirst = False
            continue
        colon = <const char*> memchr(line, c":", stop - line)
        if colon == NULL:
            continue
        field = fieldNamed(found, line, colon - line)
        if field == NULL or field.data != NULL:
            return False
        colon += 1
        while colon < stop and (colon[0] == c" " or colon[0] == c"\t"):
            colon += 1
        if colon == stop:
            return False
        field.data = colon
        field.size = stop - colon
    return True


cdef inline bint isBytes(Field field, bytes value):
    return field.size == PyBytes_GET_SIZE(value) and memcmp(
        field.data, PyBytes_AS_STRING(value), field.size
    ) == 0


cdef inline int64_t numberIn(Field field) noexcept nogil:
    """
    The number that a field consists of; below 0 if it has anything but a few digits.
    """
    cdef int64_t value = 0
    cdef Py_ssize_t place
    if field.size > MOST_DIGITS:
        return -1
    for place in range(field.size):
        if not c"0" <= field.data[place] <= c"9":
            return -1
        value = value * 10 + (field.data[place] - c"0")
    return value


cdef inline bint isNumber(Field field, uint64_t number) noexcept nogil:
    cdef int64_t value = numberIn(field)
    return value >= 0 and <uint64_t> value == number


cdef bytes storedHeaders(const char* at, Py_ssize_t size, bint isInFile):
    """
    A header block as the log has it: in files, behind its length.
    """
    cdef bytes block
    cdef char* out
    if not isInFile:
        return PyBytes_FromStringAndSize(at, size)
    block = PyBytes_FromStringAndSize(NULL, size + 4)
    out = PyBytes_AS_STRING(block)
    out[0] = <char> (size >> 24)
    out[1] = <char> (size >> 16)
    out[2] = <char> (size >> 8)
    out[3] = <char> size
    memcpy(out + 4, at, size)
    return block


cdef int noteAnswers(list answers, object reply, Py_ssize_t place, Py_ssize_t count) except -1:
    if count and PyBytes_GET_SIZE(reply):
        answers.append((reply, None, place, b"", count))
    return 0


@cython.final
cdef class PublishStep:
    """
    Takes the messages of one stream that need nothing but what is at hand; see
    L{natsbroker.jetstream.streams.publishsteps}.
    """

    cdef bytes stream
    cdef bint isInFile, isReplacing
    cdef Py_ssize_t mostSize, overhead
    cdef int64_t leastTtl
    cdef dict ids
    cdef object subjects

    def __init__(
        self, bytes stream not None, bint isInFile, Py_ssize_t mostSize, bint isReplacing,
        int64_t leastTtl, dict ids, subjects,
    ):
        """
        @param stream: the stream's name.
        @param mostSize: of headers and payload together; negative for any.
        @param isReplacing: whether C{Nats-Rollup: sub} is allowed, and asks for nothing more than
            what the limit per subject does.
        @param leastTtl: the fewest seconds of C{Nats-TTL} with which a message is stored as it is; 0
            for none.
        @param ids: the message ids of the duplicate window with their sequences; C{None} if none are
            remembered.
        @param subjects: the known states of subjects.
        """
        self.stream = stream
        self.isInFile = isInFile
        self.mostSize = mostSize
        self.isReplacing = isReplacing
        self.leastTtl = leastTtl
        self.overhead = 30 if isInFile else 16
        self.ids = ids
        self.subjects = subjects

    cdef bint isAsExpected(
        self, Expected* found, bytes subject, uint64_t sequence, bytes lastId, stream
    ) except -1:
        """
        Whether the stream is what a message expects it to be.
        """
        cdef uint64_t last
        if found.rollup.data != NULL and not (self.isReplacing and isBytes(found.rollup, b"sub")):
            return False
        if found.ttl.data != NULL and not 0 < self.leastTtl <= numberIn(found.ttl):
            return False
        if found.stream.data != NULL and not isBytes(found.stream, self.stream):
            return False
        if found.sequence.data != NULL and not isNumber(found.sequence, sequence - 1):
            return False
        if found.lastId.data != NULL and not isBytes(found.lastId, lastId):
            return False
        if found.subjectSequence.data != NULL:
            state = self.subjects.get(subject)
            if state is None:
                return False
            last = state[1]
            if not isNumber(found.subjectSequence, last if last >= <uint64_t> stream.first else 0):
                return False
        return True

    def take(
        self, list runs not None, Py_ssize_t run, Py_ssize_t place, list entries not None,
        list answers not None, list ids not None, list sequences not None, bytes lastId not None,
        uint64_t sequence, stream, now, stored,
    ):
        """
        Take messages as long as they need nothing else.

        @param runs: tuples of a run and anything.
        @param run: the place of the run to begin with.
        @param place: the place of the message in that run to begin with.
        @param entries: what is to be appended, to which the messages are added.
        @param answers: what is to be answered, to which the acknowledgements are added.
        @param ids: the message ids that were new are added here, and their sequences to C{sequences}.
        @param lastId: the id of the message before; empty without.
        @param sequence: what the first message gets.
        @param stream: has the first sequence of the stream as C{first}.
        @param now: the timestamp of all of them.
        @param stored: called with the subject and the sequence of each message; C{None} for nothing.
        @return: the places of the first message that was not taken, the bytes of those that were as
            nats-server counts them, and the id of the last one.
        """
        cdef list bodies
        cdef bytes subject, body, headers
        cdef bytes empty = b""
        cdef object reply, answered = None
        cdef Py_ssize_t header, length, size = 0, waiting = 0, begin = PyList_GET_SIZE(entries)
        cdef const char* at
        cdef Expected found
        cdef bint isTaken = True
        while run < PyList_GET_SIZE(runs):
            current = runs[run][0]
            subject = <bytes?> current.subject
            reply = <bytes?> current.reply
            bodies = <list?> current.bodies
            header = current.headerLength
            if header > MOST_HEADERS or reply.endswith(b".$FI"):
                break
            while place < PyList_GET_SIZE(bodies):
                body = <bytes?> bodies[place]
                at = PyBytes_AS_STRING(body)
                length = PyBytes_GET_SIZE(body)
                if header > length or 0 <= self.mostSize < length:
                    isTaken = False
                    break
                messageId = empty
                headers = empty
                if header:
                    isTaken = readExpected(at, header, &found)
                    isTaken = isTaken and self.isAsExpected(&found, subject, sequence, lastId, stream)
                    if isTaken and found.messageId.data != NULL:
                        messageId = PyBytes_FromStringAndSize(found.messageId.data, found.messageId.size)
                        isTaken = self.ids is None or messageId not in self.ids
                    if not isTaken:
                        break
                    headers = storedHeaders(at, header, self.isInFile)
                    body = PyBytes_FromStringAndSize(at + header, length - header)
                    size += 4 * self.isInFile
                entries.append((subject, headers, body, now))
                size += PyBytes_GET_SIZE(subject) + length + self.overhead
                if messageId is not empty and self.ids is not None:
                    number = sequence
                    self.ids[messageId] = number
                    ids.append(messageId)
                    sequences.append(number)
                lastId = messageId
                if stored is not None:
                    stored(subject, sequence)
                if reply != answered:
                    noteAnswers(answers, answered, begin, waiting)
                    answered = reply
                    begin += waiting
                    waiting = 0
                waiting += 1
                sequence += 1
                place += 1
            if not isTaken:
                break
            run += 1
            place = 0
        noteAnswers(answers, answered, begin, waiting)
        return run, place, size, lastId


def storedRecords(
    type recordClass not None, list entries not None, uint64_t sequence, Py_ssize_t skip
):
    """
    The records of entries that were appended.

    @param recordClass: L{natsbroker.interfaces.records.Record}.
    @param entries: tuples of subject, headers, payload and timestamp.
    @param sequence: of the first one.
    @param skip: the bytes before the header block of an entry with headers.
    """
    cdef list records = []
    cdef tuple entry
    cdef bytes headers
    for each in entries:
        entry = <tuple?> each
        if PyTuple_GET_SIZE(entry) != 4:
            raise ValueError("an entry has four fields")
        headers = <bytes?> entry[1]
        if skip > 0 and PyBytes_GET_SIZE(headers) >= skip:
            headers = PyBytes_FromStringAndSize(
                PyBytes_AS_STRING(headers) + skip, PyBytes_GET_SIZE(headers) - skip
            )
        record = nb_tupleOf(recordClass, 5)
        keepItem(record, 0, sequence)
        keepItem(record, 1, entry[3])
        keepItem(record, 2, entry[0])
        keepItem(record, 3, headers)
        keepItem(record, 4, entry[2])
        records.append(record)
        sequence += 1
    return records
