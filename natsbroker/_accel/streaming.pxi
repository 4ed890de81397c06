# Steps in front of Google's protobuf library, for messages of NATS Streaming that come in bulk.
# They accept only the encoding that every client uses, and leave all others to the library.

cdef enum:
    PUBLISHED = 6  # the highest field of a PubMsg that is known here

cdef struct Field:
    const char* data
    Py_ssize_t size

cdef struct Published:
    # The fields of a PubMsg by their numbers; missing fields have no data.
    Field fields[PUBLISHED + 1]


cdef bint readPublished(const char* at, Py_ssize_t size, Published* found) noexcept nogil:
    """
    Read a PubMsg: each field at most once, lengths without padding. No if it is anything else.
    """
    cdef const char* end = at + size
    cdef Py_ssize_t length
    cdef int number, shift
    cdef unsigned char byte
    memset(found, 0, sizeof(Published))
    while at < end:
        byte = <unsigned char> at[0]
        number = byte >> 3
        if byte & 7 != 2 or number == 0 or number > PUBLISHED or found.fields[number].data != NULL:
            return False
        at += 1
        length = 0
        shift = 0
        while True:
            if at >= end or shift > 21:
                return False
            byte = <unsigned char> at[0]
            at += 1
            length |= <Py_ssize_t> (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
        if (shift and byte == 0) or length > end - at:
            return False
        found.fields[number].data = at
        found.fields[number].size = length
        at += length
    return True


cdef inline bint isAscii(Field field) noexcept nogil:
    cdef Py_ssize_t place
    for place in range(field.size):
        if field.data[place] < 0:
            return False
    return True


cdef inline bint isSame(Field one, Field other) noexcept nogil:
    return one.size == other.size and (
        one.size == 0 or memcmp(one.data, other.data, one.size) == 0
    )


cdef inline bytes bytesOf(Field field):
    return PyBytes_FromStringAndSize(field.data, field.size) if field.data != NULL else b""


cdef bint isPlain(Published* message) noexcept nogil:
    """
    Whether a message has a guid and no reply subject, and texts that need no decoding.
    """
    return (
        message.fields[2].size > 0 and message.fields[4].size == 0
        and isAscii(message.fields[1]) and isAscii(message.fields[2]) and isAscii(message.fields[3])
    )


def readPublishes(list payloads not None, Py_ssize_t start):
    """
    Read PubMsgs as long as they are from one client and for one channel, and without a reply
    subject.

    @return: clientID, channel, connID, the guids and the data of all, and the bytes of data; None
        if already the first one is left to the library.
    """
    cdef Py_ssize_t place, size = 0
    cdef Published first, message
    cdef list guids, data
    cdef bytes payload
    if not 0 <= start < PyList_GET_SIZE(payloads):
        return None
    payload = <bytes?> payloads[start]
    if not readPublished(PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload), &first):
        return None
    if not isPlain(&first):
        return None
    guids = []
    data = []
    for place in range(start, PyList_GET_SIZE(payloads)):
        payload = <bytes?> payloads[place]
        if not readPublished(PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload), &message):
            break
        if not (
            isSame(message.fields[1], first.fields[1]) and isSame(message.fields[3], first.fields[3])
            and isSame(message.fields[6], first.fields[6]) and isPlain(&message)
        ):
            break
        guids.append(bytesOf(message.fields[2]))
        data.append(bytesOf(message.fields[5]))
        size += message.fields[5].size
    return (
        bytesOf(first.fields[1]).decode("ascii"), bytesOf(first.fields[3]).decode("ascii"),
        bytesOf(first.fields[6]), guids, data, size,
    )


cdef inline int lengthOf(uint64_t number) noexcept nogil:
    cdef int length = 1
    while number > 127:
        number >>= 7
        length += 1
    return length


cdef inline char* writeNumber(char* out, uint64_t number) noexcept nogil:
    while number > 127:
        out[0] = <char> (number & 127 | 128)
        out += 1
        number >>= 7
    out[0] = <char> number
    return out + 1


cdef inline char* writeBytes(char* out, char tag, bytes value):
    """
    Write a field that is bytes or text, unless it is empty.
    """
    cdef Py_ssize_t size = PyBytes_GET_SIZE(value)
    if size == 0:
        return out
    out[0] = tag
    out = writeNumber(out + 1, size)
    memcpy(out, PyBytes_AS_STRING(value), size)
    return out + size


cdef inline Py_ssize_t roomFor(bytes value):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(value)
    return 1 + lengthOf(size) + size if size else 0


def writePubAcks(list guids not None):
    """
    A PubAck without error for each guid.

    @param guids: in UTF-8.
    """
    cdef list acks = []
    cdef bytes guid, ack
    for each in guids:
        guid = <bytes?> each
        ack = PyBytes_FromStringAndSize(NULL, roomFor(guid))
        writeBytes(PyBytes_AS_STRING(ack), 0x0A, guid)
        acks.append(ack)
    return acks


def readAcks(list payloads not None, Py_ssize_t start, bytes channel not None):
    """
    Read Acks as long as they are for one channel.

    @return: the sequences; fewer than there are payloads if one is left to the library.
    """
    cdef list found = []
    cdef Py_ssize_t place, head = roomFor(channel)
    cdef bytes payload, begin = PyBytes_FromStringAndSize(NULL, head)
    cdef const char* at
    cdef const char* end
    cdef uint64_t sequence
    cdef int shift
    cdef unsigned char byte
    writeBytes(PyBytes_AS_STRING(begin), 0x0A, channel)
    for place in range(max(start, 0), PyList_GET_SIZE(payloads)):
        payload = <bytes?> payloads[place]
        at = PyBytes_AS_STRING(payload)
        end = at + PyBytes_GET_SIZE(payload)
        if end - at < head + 2 or memcmp(at, PyBytes_AS_STRING(begin), head) or at[head] != 0x10:
            break
        at += head + 1
        sequence = 0
        shift = 0
        byte = 128
        while at < end and byte > 127 and shift < 63:
            byte = <unsigned char> at[0]
            sequence |= <uint64_t> (byte & 127) << shift
            shift += 7
            at += 1
        if at < end or byte > 127 or byte == 0:
            break
        found.append(sequence)
    return found


def writeMessages(
    type messageClass not None, list records not None, Py_ssize_t start, bytes channel not None
):
    """
    The messages of a channel that records hold, as they are delivered for the first time.

    @param messageClass: L{natsbroker.streaming.messages.StoredMessage}.
    @param records: tuples of sequence, timestamp, subject, headers and payload.
    @return: fewer than there are records if one has headers, which are not looked at here.
    """
    cdef list found = []
    cdef Py_ssize_t place
    cdef tuple record
    cdef bytes payload, encoded
    cdef uint64_t sequence, timestamp
    cdef Py_ssize_t fixed = roomFor(channel)
    cdef char* out
    for place in range(max(start, 0), PyList_GET_SIZE(records)):
        each = records[place]
        if not isinstance(each, tuple) or PyTuple_GET_SIZE(each) != 5:
            raise ValueError("a record has five fields")
        record = <tuple> each
        if record[3]:
            break
        sequence = record[0]
        timestamp = <uint64_t> <long long> record[1]
        payload = <bytes?> record[4]
        encoded = PyBytes_FromStringAndSize(
            NULL,
            fixed + roomFor(payload) + (1 + lengthOf(sequence) if sequence else 0)
            + (1 + lengthOf(timestamp) if timestamp else 0),
        )
        out = PyBytes_AS_STRING(encoded)
        if sequence:
            out[0] = 0x08
            out = writeNumber(out + 1, sequence)
        out = writeBytes(out, 0x12, channel)
        out = writeBytes(out, 0x22, payload)
        if timestamp:
            out[0] = 0x28
            writeNumber(out + 1, timestamp)
        message = nb_tupleOf(messageClass, 4)
        keepItem(message, 0, record[0])
        keepItem(message, 1, record[1])
        keepItem(message, 2, PyBytes_GET_SIZE(payload))
        keepItem(message, 3, encoded)
        found.append(message)
    return found
