# A step in front of natsbroker.jetstream.streams.directget: requests for one message that is in
# memory.


cdef uint64_t wantedSequence(const char* body, Py_ssize_t size) noexcept:
    """
    The sequence that a request names in the spelling of most clients; 0 for any other request.
    """
    cdef const char* at = body + 7
    cdef const char* end = body + size - 1
    cdef uint64_t sequence
    if size < 9 or memcmp(body, b'{"seq":', 7) != 0 or end[0] != c"}":
        return 0
    if at[0] == c" ":
        at += 1
    if at == end or at[0] == c"0" or end - at > MOST_DIGITS or readDigits(at, end, &sequence) != end:
        return 0
    return sequence


@cython.final
cdef class DirectGetStep:
    """
    Answers the requests for one stream that name a message by its sequence or its subject; see
    L{natsbroker.jetstream.streams.directget}.
    """

    cdef InternalPublisher publisher
    cdef bytes stream, lastReply
    cdef bint isInFile
    cdef uint64_t identity
    cdef object recall, recallLast
    cdef bytearray block

    def __init__(
        self, InternalPublisher publisher not None, bytes stream not None, bint isInFile, log
    ):
        """
        @param stream: the name of the stream.
        @param isInFile: whether stored header blocks follow their length.
        @param log: an L{natsbroker.interfaces.IShortcutLog}.
        """
        self.publisher = publisher
        self.stream = stream
        self.isInFile = isInFile
        self.identity = log.identity
        self.recall = log.recall
        self.recallLast = log.recallLast
        self.block = bytearray(1024)

    def take(self, list requests not None):
        """
        Answer what can be answered.

        @param requests: tuples of a message, and of the length of its subject before that of the
            wanted one; 0 if the body names what is wanted.
        @return: the others.
        """
        cdef list left = []
        for each in requests:
            message, skip = each
            if not self.answer(message, skip):
                left.append(each)
        return left

    cdef bint answer(self, message, Py_ssize_t skip) except -1:
        cdef bytes reply = <bytes?> message.reply
        cdef bytes body = <bytes?> message.body
        cdef bytes subject
        cdef const char* text
        cdef Py_ssize_t length
        cdef uint64_t sequence
        if not reply or message.headerLength:
            return False
        if not skip:
            sequence = wantedSequence(PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))
        else:
            subject = <bytes?> message.subject
            text = PyBytes_AS_STRING(subject) + skip
            length = PyBytes_GET_SIZE(subject) - skip
            if (
                body or skip < 0 or length <= 0 or memchr(text, c"*", length) != NULL
                or memchr(text, c">", length) != NULL
            ):
                return False
            sequence = self.recallLast(PyBytes_FromStringAndSize(text, length))
        return sequence != 0 and self.send(reply, sequence)

    cdef bint send(self, bytes reply, uint64_t sequence) except -1:
        """
        Send a message to its receivers.

        @return: whether one took it.
        """
        cdef Stored stored
        cdef uint64_t time
        cdef char* out
        cdef bytes raw
        cdef Py_ssize_t start, end
        cdef tuple receivers
        cdef bint isReached = False
        found = self.recall(sequence)
        if found is None:
            return False
        raw, start, end = found
        if not readEncoded(&stored, &time, raw, start, end, self.identity, sequence):
            return False
        if self.isInFile and stored.headersLength:
            if stored.headersLength < 4:
                return False
            stored.headers += 4
            stored.headersLength -= 4
        receivers = self.publisher.receiversOf(reply)
        if receivers is None:
            return False
        if len(self.block) < roomForPlace(&stored, self.stream):
            self.block = bytearray(2 * roomForPlace(&stored, self.stream))
        out = writePlace(self.block, &stored, self.stream, sequence, time)
        memcpy(out, b"\r\n", 2)
        stored.headers = self.block
        stored.headersLength = out + 2 - stored.headers
        stored.subject = PyBytes_AS_STRING(reply)
        stored.subjectLength = PyBytes_GET_SIZE(reply)
        stored.ackLength = 0
        for subscription in receivers:
            if giveStored(<Subscription> subscription, &stored):
                isReached = True
        return isReached


cdef bint readEncoded(
    Stored* stored, uint64_t* time, bytes raw, Py_ssize_t start, Py_ssize_t end, uint64_t identity,
    uint64_t sequence,
) except -1:
    """
    Find the parts of a record in bytes that must outlive this.

    @return: whether it is whole, and the one that it should be.
    """
    cdef const char* at = PyBytes_AS_STRING(raw) + start
    cdef Py_ssize_t length = end - start
    if start < 0 or length < RECORD_HEAD or end > PyBytes_GET_SIZE(raw):
        return False
    time[0] = nb_get(at + 32, 8)
    if (
        pointInto(stored, at) != length
        or nb_get(at, 4) != nb_crc(at + 4, length - 4, True)
        or nb_get(at + 16, 8) != identity or nb_get(at + 24, 8) != sequence
        or <int64_t> time[0] < 0
    ):
        return False
    return True
