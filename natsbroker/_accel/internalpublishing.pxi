# The lane for messages of services.

@cython.final
cdef class InternalPublisher:
    """
    The way of short messages from services to connections: a step in front of the readable path
    that may decline.
    """

    cdef Matcher matcher

    def __init__(self, Matcher matcher not None):
        self.matcher = matcher

    def publishInternal(self, bytes subject not None, bytes payload not None):
        """
        Put a message without reply subject and headers into its receivers' outboxes.

        @return: how many they were; 0 if that is left to the readable path.
        """
        cdef tuple receivers = self.receiversOf(subject)
        if receivers is None:
            return 0
        for subscription in receivers:
            self.give(
                <Subscription> subscription, subject, PyBytes_AS_STRING(payload),
                PyBytes_GET_SIZE(payload),
            )
        return len(receivers)

    def publishBatch(self, bytes subject not None, list payloads not None):
        """
        The same for many messages to one subject.

        @return: how many receivers there were; 0 if that is left to the readable path.
        """
        cdef tuple receivers = self.receiversOf(subject)
        if receivers is None:
            return 0
        for payload in payloads:
            for subscription in receivers:
                self.give(
                    <Subscription> subscription, subject, PyBytes_AS_STRING(<bytes?> payload),
                    PyBytes_GET_SIZE(<bytes?> payload),
                )
        return len(receivers)

    def publishEmpty(self, list subjects not None, Py_ssize_t place):
        """
        Put empty messages into their receivers' outboxes.

        @param subjects: one for each message.
        @param place: of the subject to begin with.
        @return: the place of the subject that is left to the readable path, or behind the last.
        """
        cdef tuple receivers
        cdef bytes subject
        while 0 <= place < PyList_GET_SIZE(subjects):
            subject = <bytes?> subjects[place]
            receivers = self.receiversOf(subject)
            if receivers is None or PyTuple_GET_SIZE(receivers) == 0:
                break
            for subscription in receivers:
                self.give(<Subscription> subscription, subject, b"", 0)
            place += 1
        return place

    def publishAcks(
        self, list answers not None, Py_ssize_t place, bytes prefix not None, int64_t first
    ):
        """
        Put acknowledgements of a stream's batch into their receivers' outboxes, as long as they have
        nothing behind the sequence.

        @param answers: see L{natsbroker.jetstream.streams.publishanswers.StreamBatch}.
        @param place: of the answer to begin with.
        @param prefix: what comes before the sequence.
        @param first: the sequence that the places of entries are counted from.
        @return: the place of the answer that is left to the readable path, or behind the last.
        """
        cdef Py_ssize_t count, length = PyBytes_GET_SIZE(prefix)
        cdef int64_t sequence
        cdef char ack[LONGEST_ACK]
        cdef char* end
        cdef tuple answer, receivers
        cdef bytes reply
        if length > LONGEST_ACK - MOST_NUMBERS or place < 0:
            return place
        memcpy(ack, PyBytes_AS_STRING(prefix), length)
        while place < PyList_GET_SIZE(answers):
            answer = <tuple?> answers[place]
            if PyTuple_GET_SIZE(answer) != 5:
                raise ValueError("an answer has five fields")
            sequence = first + <int64_t> answer[2]
            if answer[1] is not None or PyBytes_GET_SIZE(<bytes?> answer[3]) or sequence < 0:
                break
            reply = <bytes?> answer[0]
            receivers = self.receiversOf(reply)
            if receivers is None or PyTuple_GET_SIZE(receivers) == 0:
                break
            count = answer[4]
            while count > 0:
                end = writeDecimal(ack + length, <uint64_t> sequence)
                end[0] = c"}"
                for subscription in receivers:
                    self.give(<Subscription> subscription, reply, ack, end + 1 - ack)
                sequence += 1
                count -= 1
            place += 1
        return place

    def publishRecords(self, run):
        """
        Put stored messages into their receivers' outboxes.

        @param run: a L{natsbroker.interfaces.records.RecordRun}.
        @return: how many messages they were, and their size; zeros leave them to the readable path.
        """
        cdef bytes subject, prefix
        cdef list listed = None, subjects
        cdef EncodedRecords encoded = None
        cdef uint64_t number, sequence, timestamp
        cdef int64_t pending
        cdef Py_ssize_t most
        cdef bint isShown
        subjects, records, prefix, number, pending, most, isShown = run
        if not subjects or prefix is None:
            raise TypeError("a run has subjects and a prefix")
        if isinstance(records, EncodedRecords):
            encoded = <EncodedRecords> records
        else:
            listed = <list?> records
        cdef tuple receivers = None
        cdef tuple record
        cdef Stored stored
        cdef char ack[LONGEST_ACK]
        cdef char* end
        cdef Py_ssize_t place, length, size, total = 0, count = 0
        cdef Py_ssize_t prefixLength = PyBytes_GET_SIZE(prefix)
        cdef bint isReached, isShared = PyList_GET_SIZE(subjects) == 1
        if prefixLength > LONGEST_ACK - MOST_NUMBERS:
            return 0, 0
        subject = b""
        memcpy(ack, PyBytes_AS_STRING(prefix), prefixLength)
        memcpy(ack + prefixLength, b"1.", 2)
        stored.ack = ack
        length = PyList_GET_SIZE(listed) if encoded is None else encoded.count
        if not isShared and length > PyList_GET_SIZE(subjects):
            raise ValueError("a record has no subject")
        for place in range(length):
            if place == 0 or not isShared:
                subject = <bytes?> subjects[place]
                receivers = self.receiversOf(subject)
                if receivers is None or PyTuple_GET_SIZE(receivers) == 0:
                    break
            if encoded is None:
                each = <object> PyList_GET_ITEM(listed, place)
                if not isinstance(each, tuple) or PyTuple_GET_SIZE(each) != 5:
                    raise ValueError("a record has five fields")
                record = <tuple> each
                readStored(&stored, record)
                sequence, timestamp = <uint64_t> record[0], <uint64_t> record[1]
            else:
                encoded.fill(place, &stored)
                sequence, timestamp = encoded.sequenceAt(place), encoded.timestampAt(place)
            end = ack + prefixLength + 2
            end = writeDecimal(end, sequence)
            end[0] = c"."
            end = writeDecimal(end + 1, number + count)
            end[0] = c"."
            end = writeDecimal(end + 1, timestamp)
            end[0] = c"."
            end = writeDecimal(end + 1, <uint64_t> max(pending - count, 0))
            stored.ackLength = end - ack
            size = (
                (stored.subjectLength if isShown else PyBytes_GET_SIZE(subject))
                + stored.ackLength + stored.headersLength + stored.payloadLength
            )
            if total + size > most:
                break
            isReached = False
            for subscription in receivers:
                if giveStored(<Subscription> subscription, &stored):
                    isReached = True
            if not isReached:
                break
            total += size
            count += 1
        return count, total

    def publishAnswers(
        self, bytes subject not None, list records not None, bytes stream not None,
        int64_t pending, uint64_t last, Py_ssize_t most,
    ):
        """
        Put stored messages into their receivers' outboxes as answers of a direct get.

        @return: how many messages they were, and the bytes of their subjects, headers and payloads;
            zeros leave them to the readable path.
        """
        cdef tuple receivers = self.receiversOf(subject)
        cdef tuple record
        cdef Stored stored
        cdef bytearray block = bytearray()
        cdef char number[24]
        cdef char* begin
        cdef char* out
        cdef Py_ssize_t place, size, count = 0, total = 0
        cdef bint isReached
        if receivers is None or PyTuple_GET_SIZE(receivers) == 0:
            return 0, 0
        for place in range(PyList_GET_SIZE(records)):
            if most <= 0:
                break
            each = <object> PyList_GET_ITEM(records, place)
            if not isinstance(each, tuple) or PyTuple_GET_SIZE(each) != 5:
                raise ValueError("a record has five fields")
            record = <tuple> each
            readStored(&stored, record)
            if record[1] < 0:
                break
            size = stored.subjectLength + stored.headersLength + stored.payloadLength
            most -= size
            pending = max(pending - 1, 0)
            if len(block) < roomForPlace(&stored, stream):
                block = bytearray(2 * roomForPlace(&stored, stream))
            begin = out = block
            out = writePlace(out, &stored, stream, <uint64_t> record[0], <uint64_t> record[1])
            out = writeLine(
                out, b"Nats-Num-Pending: ", 18, number,
                writeDecimal(number, <uint64_t> pending) - number,
            )
            out = writeLine(
                out, b"Nats-Last-Sequence: ", 20, number, writeDecimal(number, last) - number
            )
            memcpy(out, b"\r\n", 2)
            stored.headers = begin
            stored.headersLength = out + 2 - begin
            stored.subject = PyBytes_AS_STRING(subject)
            stored.subjectLength = PyBytes_GET_SIZE(subject)
            stored.ackLength = 0
            isReached = False
            for subscription in receivers:
                if giveStored(<Subscription> subscription, &stored):
                    isReached = True
            if not isReached:
                break
            last = record[0]
            count += 1
            total += size
        return count, total

    cdef tuple receiversOf(self, bytes subject):
        """
        The subscribers to a subject, if all of them are connections that nothing need be asked
        about; else None.
        """
        cdef Matches matches
        cdef Subscription subscription
        cdef Outbox outbox
        cdef Py_ssize_t place
        if self.matcher.needsSlowPath:
            return None
        matches = self.matcher.lookUp(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        if not matches.fast or matches.hasBatcher or matches.groups or matches.forward:
            return None
        for place in range(PyTuple_GET_SIZE(matches.plain)):
            subscription = <Subscription> PyTuple_GET_ITEM(matches.plain, place)
            if (
                subscription.isShadow or subscription.isClosed or subscription.maximum
                or subscription.permissions is not None
            ):
                return None
            outbox = <Outbox?> subscription.outbox
            if outbox.closed or not outbox.direct:
                return None
        return matches.plain

    cdef int give(
        self, Subscription subscription, bytes subject, const char* payload, Py_ssize_t size
    ) except -1:
        cdef Outbox outbox = <Outbox?> subscription.outbox
        cdef bytes sid = <bytes?> subscription.tag
        cdef Py_ssize_t length = PyBytes_GET_SIZE(subject)
        cdef Py_ssize_t sidLength = PyBytes_GET_SIZE(sid)
        cdef char digits[24]
        cdef Py_ssize_t digitsLength = writeDecimal(digits, size) - digits
        cdef Py_ssize_t total = 4 + length + 1 + sidLength + 1 + digitsLength + 2 + size + 2
        cdef char* out
        if outbox.closed:
            return 0
        out = outbox.reserve(total)
        if out == NULL:
            return 0
        memcpy(out, b"MSG ", 4)
        out += 4
        memcpy(out, PyBytes_AS_STRING(subject), length)
        out += length
        out[0] = c" "
        out += 1
        memcpy(out, PyBytes_AS_STRING(sid), sidLength)
        out += sidLength
        out[0] = c" "
        out += 1
        memcpy(out, digits, digitsLength)
        out += digitsLength
        memcpy(out, b"\r\n", 2)
        out += 2
        memcpy(out, payload, size)
        out += size
        memcpy(out, b"\r\n", 2)
        subscription.delivered += 1
        outbox.messages += 1
        outbox.messageBytes += size
        outbox.grown(total)
        return 0
