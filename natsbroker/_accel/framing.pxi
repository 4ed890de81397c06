# WebSocket frames that are neither compressed nor parts of a message; see natsbroker/websocket/frames.py,
# which reads all others.

cdef enum:
    FRAME_FIN = 0x80
    FRAME_MASKED = 0x80
    FRAME_TEXT = 1
    FRAME_BINARY = 2
    FRAME_TWO = 126
    FRAME_EIGHT = 127


cdef inline uint32_t turnKey(uint32_t key, Py_ssize_t count) noexcept nogil:
    # The first byte of a mask is its lowest.
    cdef int bits = 8 * (count & 3)
    return (key >> bits) | (key << (32 - bits)) if bits else key


cdef void maskInto(char* target, const char* source, Py_ssize_t count, uint32_t key) noexcept nogil:
    cdef uint64_t wide = (<uint64_t>key << 32) | key
    cdef uint64_t word
    cdef Py_ssize_t place = 0
    while place + 8 <= count:
        memcpy(&word, source + place, 8)
        word ^= wide
        memcpy(target + place, &word, 8)
        place += 8
    while place < count:
        target[place] = source[place] ^ <char>(key >> (8 * (place & 3)))
        place += 1


def maskBytes(bytes data not None, uint32_t key):
    """
    @param key: the four bytes, the first of them lowest.
    """
    cdef Py_ssize_t count = len(data)
    cdef bytes masked = PyBytes_FromStringAndSize(NULL, count)
    maskInto(PyBytes_AS_STRING(masked), PyBytes_AS_STRING(data), count, key)
    return masked


def readFrames(bytearray data not None, bint isMasked, unsigned long long rest, uint32_t key):
    """
    @param rest: how much of a frame is still to come.
    @param key: the mask of that.
    @return: the payload of the frames at the beginning, up to the first that is not for here; how
        many bytes they were; how much of the last one is still to come, and its mask.
    """
    cdef const unsigned char* source = <const unsigned char*>PyByteArray_AS_STRING(data)
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(data)
    # Payload is never longer than what it came in.
    cdef bytes plain = PyBytes_FromStringAndSize(NULL, size)
    cdef char* target = PyBytes_AS_STRING(plain)
    cdef Py_ssize_t place = 0, made = 0, head, width, count, index
    cdef unsigned long long length
    while True:
        if rest:
            count = size - place if rest > <unsigned long long>(size - place) else <Py_ssize_t>rest
            if isMasked:
                maskInto(target + made, <const char*>source + place, count, key)
                key = turnKey(key, count)
            else:
                memcpy(target + made, source + place, count)
            made += count
            place += count
            rest -= count
            if rest:
                break
        if size - place < 2:
            break
        if source[place] != (FRAME_FIN | FRAME_BINARY) and source[place] != (FRAME_FIN | FRAME_TEXT):
            break
        if ((source[place + 1] & FRAME_MASKED) != 0) != isMasked:
            break
        length = source[place + 1] & 0x7F
        width = 2 if length == FRAME_TWO else 8 if length == FRAME_EIGHT else 0
        head = 2 + width + (4 if isMasked else 0)
        if size - place < head:
            break
        if width:
            length = 0
            for index in range(width):
                length = (length << 8) | source[place + 2 + index]
            # The shortest form is the only one.
            if length < FRAME_TWO or (width == 8 and (length < 65536 or length >> 63)):
                break
        if isMasked:
            key = 0
            for index in range(4):
                key |= <uint32_t>source[place + head - 4 + index] << (8 * index)
        place += head
        rest = length
    return plain[:made], place, rest, key
