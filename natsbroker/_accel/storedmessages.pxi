# Messages of streams as they are delivered, and numbers and times in decimal digits.

cdef enum:
    LONGEST_ACK = 1024
    # Five numbers with their dots.
    MOST_NUMBERS = 112

# A stored message in the form in which it is delivered, with its reply subject.
cdef struct Stored:
    const char* subject
    const char* headers
    const char* payload
    const char* ack
    Py_ssize_t subjectLength, headersLength, payloadLength, ackLength


cdef int readStored(Stored* stored, tuple record) except -1:
    """
    Fill in subject, headers and payload of a record of five fields, which must outlive this.
    """
    stored.subject = PyBytes_AS_STRING(<bytes?> record[2])
    stored.subjectLength = PyBytes_GET_SIZE(<bytes?> record[2])
    stored.headers = PyBytes_AS_STRING(<bytes?> record[3])
    stored.headersLength = PyBytes_GET_SIZE(<bytes?> record[3])
    stored.payload = PyBytes_AS_STRING(<bytes?> record[4])
    stored.payloadLength = PyBytes_GET_SIZE(<bytes?> record[4])
    return 0


cdef extern from *:
    """
    static const char nb_pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
        "4950515253545556575859606162636465666768697071727374757677787980818283848586878889909192939495969798"
        "99";
    """
    const char* nb_pairs


cdef char* writeDecimal(char* out, uint64_t number) noexcept nogil:
    cdef char digits[20]
    cdef int place = 20
    while number >= 100:
        place -= 2
        memcpy(digits + place, nb_pairs + 2 * (number % 100), 2)
        number //= 100
    if number >= 10:
        place -= 2
        memcpy(digits + place, nb_pairs + 2 * number, 2)
    else:
        place -= 1
        digits[place] = <char> (c"0" + number)
    memcpy(out, digits + place, 20 - place)
    return out + 20 - place


cdef char* writePadded(char* out, int number, int digits) noexcept nogil:
    cdef int place
    for place in range(digits):
        out[digits - 1 - place] = <char> (c"0" + number % 10)
        number //= 10
    return out + digits


cdef char* writeTime(char* out, uint64_t time) noexcept nogil:
    """
    Write nanoseconds since 1970 as L{natsbroker.wire.timestamps.formatTime} does.
    """
    cdef uint64_t seconds = time // 1000000000, day, era, year, rest
    cdef uint64_t fraction = time % 1000000000
    cdef int month
    # Years that begin in March, in eras of 400 of them.
    day = seconds // 86400 + 719468
    seconds = seconds % 86400
    era = day // 146097
    day = day % 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    rest = day - (365 * year + year // 4 - year // 100)
    month = <int> ((5 * rest + 2) // 153)
    day = rest - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year + 400 * era + (1 if month <= 2 else 0)
    out = writePadded(out, <int> year, 4)
    out[0] = c"-"
    out = writePadded(out + 1, month, 2)
    out[0] = c"-"
    out = writePadded(out + 1, <int> day, 2)
    out[0] = c"T"
    out = writePadded(out + 1, <int> (seconds // 3600), 2)
    out[0] = c":"
    out = writePadded(out + 1, <int> (seconds // 60 % 60), 2)
    out[0] = c":"
    out = writePadded(out + 1, <int> (seconds % 60), 2)
    if fraction:
        out[0] = c"."
        out = writePadded(out + 1, <int> fraction, 9)
        while (out - 1)[0] == c"0":
            out -= 1
    out[0] = c"Z"
    return out + 1


cdef inline char* writeLine(
    char* out, const char* name, Py_ssize_t nameLength, const char* value, Py_ssize_t length
) noexcept nogil:
    memcpy(out, name, nameLength)
    out += nameLength
    memcpy(out, value, length)
    out += length
    memcpy(out, b"\r\n", 2)
    return out + 2


cdef inline char* writeWord(char* out, const char* word, Py_ssize_t length) noexcept nogil:
    memcpy(out, word, length)
    out[length] = c" "
    return out + length + 1


cdef inline Py_ssize_t roomForPlace(const Stored* stored, bytes stream):
    """
    The most bytes that L{writePlace} writes, with room for the lines behind it.
    """
    return stored.headersLength + stored.subjectLength + PyBytes_GET_SIZE(stream) + 512


cdef char* writePlace(
    char* out, const Stored* stored, bytes stream, uint64_t sequence, uint64_t time
):
    """
    Write the headers of a stored message, without their empty line, and those that say where it is
    stored.
    """
    cdef char number[24]
    if stored.headersLength > 2:
        memcpy(out, stored.headers, stored.headersLength - 2)
        out += stored.headersLength - 2
    else:
        memcpy(out, b"NATS/1.0\r\n", 10)
        out += 10
    out = writeLine(
        out, b"Nats-Stream: ", 13, PyBytes_AS_STRING(stream), PyBytes_GET_SIZE(stream)
    )
    out = writeLine(out, b"Nats-Subject: ", 14, stored.subject, stored.subjectLength)
    out = writeLine(
        out, b"Nats-Sequence: ", 15, number, writeDecimal(number, sequence) - number
    )
    memcpy(out, b"Nats-Time-Stamp: ", 17)
    out = writeTime(out + 17, time)
    memcpy(out, b"\r\n", 2)
    return out + 2


cdef bint giveStored(Subscription subscription, Stored* stored) except -1:
    """
    Put a stored message into one receiver's outbox.

    @return: whether it took it.
    """
    cdef Outbox outbox = <Outbox?> subscription.outbox
    cdef bytes sid = <bytes?> subscription.tag
    cdef Py_ssize_t headers = stored.headersLength if outbox.headers else 0
    cdef Py_ssize_t size = headers + stored.payloadLength
    cdef char* begin
    cdef char* out
    if outbox.closed or subscription.isClosed:
        return False
    # Two sizes of up to twenty digits, the verb, spaces and ends of lines.
    begin = out = outbox.reserve(
        64 + stored.subjectLength + PyBytes_GET_SIZE(sid) + stored.ackLength + size
    )
    if out == NULL:
        return False
    if headers:
        out = writeWord(out, b"HMSG", 4)
    else:
        out = writeWord(out, b"MSG", 3)
    out = writeWord(out, stored.subject, stored.subjectLength)
    out = writeWord(out, PyBytes_AS_STRING(sid), PyBytes_GET_SIZE(sid))
    if stored.ackLength:
        out = writeWord(out, stored.ack, stored.ackLength)
    if headers:
        out = writeDecimal(out, headers)
        out[0] = c" "
        out += 1
    out = writeDecimal(out, size)
    memcpy(out, b"\r\n", 2)
    out += 2
    if headers:
        memcpy(out, stored.headers, headers)
        out += headers
    memcpy(out, stored.payload, stored.payloadLength)
    out += stored.payloadLength
    memcpy(out, b"\r\n", 2)
    out += 2
    subscription.delivered += 1
    outbox.messages += 1
    outbox.messageBytes += size
    outbox.batch.work += 2 + (size >> BYTES)
    outbox.grown(out - begin)
    return True
