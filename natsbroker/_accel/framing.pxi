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
    # The first byte of the mask is the lowest one of the number.
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


# The length and the mask of the part of a frame that has not come yet.
cdef struct Unread:
    unsigned long long rest
    uint32_t key


cdef Py_ssize_t unframe(
    const unsigned char* source, Py_ssize_t size, char* target, Py_ssize_t* made, bint isMasked,
    bint takesText, Unread* frame,
) noexcept nogil:
    """
    Copy the payload of the frames at the beginning, up to the first that is not for here. It is never
    longer than what it comes in.

    @param takesText: whether frames of text are taken like binary ones.
    @return: how many bytes these frames are.
    """
    cdef Py_ssize_t place = 0, head, width, count, index
    cdef unsigned long long length
    made[0] = 0
    while True:
        if frame.rest:
            count = size - place
            if frame.rest < <unsigned long long>count:
                count = <Py_ssize_t>frame.rest
            if isMasked:
                maskInto(target + made[0], <const char*>source + place, count, frame.key)
                frame.key = turnKey(frame.key, count)
            else:
                memcpy(target + made[0], source + place, count)
            made[0] += count
            place += count
            frame.rest -= count
            if frame.rest:
                break
        if size - place < 2:
            break
        if source[place] != (FRAME_FIN | FRAME_BINARY) and not (
            takesText and source[place] == (FRAME_FIN | FRAME_TEXT)
        ):
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
            # Lengths must be in their shortest form.
            if length < FRAME_TWO or (width == 8 and (length < 65536 or length >> 63)):
                break
        if isMasked:
            frame.key = 0
            for index in range(4):
                frame.key |= <uint32_t>source[place + head - 4 + index] << (8 * index)
        place += head
        frame.rest = length
    return place


def readFrames(
    bytearray data not None, bint isMasked, unsigned long long rest, uint32_t key, bint takesText,
):
    """
    @param rest: how much of a frame is still to come.
    @param key: the mask of that.
    @return: the payload of the frames at the beginning, up to the first that is not for here; how
        many bytes they were; how much of the last one is still to come, and its mask.
    """
    cdef Py_ssize_t made = 0, used
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(data)
    cdef bytes plain = PyBytes_FromStringAndSize(NULL, size)
    cdef Unread frame
    frame.rest = rest
    frame.key = key
    used = unframe(
        <const unsigned char*>PyByteArray_AS_STRING(data), size, PyBytes_AS_STRING(plain), &made,
        isMasked, takesText, &frame,
    )
    return plain[:made], used, frame.rest, frame.key


@cython.final
cdef class FrameLane:
    """
    Moves the payload of plain frames from the input of a connection to the decoder of its session.

    @ivar isOn: whether it may; not while the readable path is within a frame or a message.
    """

    cdef Decoder target
    cdef bint isMasked
    cdef public bint isOn
    cdef Unread frame

    def __init__(self, Decoder target not None, bint isMasked):
        self.target = target
        self.isMasked = isMasked
        self.isOn = True
        self.frame.rest = 0
        self.frame.key = 0

    cdef bint move(self, Decoder source) except -1:
        """
        @return: whether something is left that is not the beginning of a plain frame's header.
        """
        cdef Decoder target = self.target
        cdef Py_ssize_t size = source.stop - source.start
        cdef Py_ssize_t made = 0
        cdef const unsigned char* left
        target.makeRoom(size)
        source.start += unframe(
            <const unsigned char*>source.data + source.start, size, target.data + target.stop, &made,
            self.isMasked, True, &self.frame,
        )
        target.came(made)
        size = source.stop - source.start
        left = <const unsigned char*>source.data + source.start
        return size >= 14 or (
            size > 0 and left[0] != (FRAME_FIN | FRAME_BINARY) and left[0] != (FRAME_FIN | FRAME_TEXT)
        ) or (size > 1 and ((left[1] & FRAME_MASKED) != 0) != self.isMasked)


cdef inline Py_ssize_t frameHeader(char* target, Py_ssize_t length) noexcept nogil:
    """
    @return: how long the header is: ten bytes at most.
    """
    cdef Py_ssize_t width = 0, index
    target[0] = <char>(FRAME_FIN | FRAME_BINARY)
    if length < FRAME_TWO:
        target[1] = <char>length
        return 2
    width = 2 if length < 65536 else 8
    target[1] = FRAME_TWO if width == 2 else FRAME_EIGHT
    for index in range(width):
        target[2 + index] = <char>(length >> (8 * (width - 1 - index)))
    return 2 + width


cdef Py_ssize_t sendFrame(Outbox below, const char* head, Py_ssize_t headLength, Outbox above) noexcept:
    """
    Send a frame at once if nothing waits before it: its payload is not copied then.

    @return: how many bytes of it were sent; none after an error, which the next to send will see.
    """
    cdef iovec pieces[2]
    cdef msghdr message
    cdef Py_ssize_t sent
    if below.fd < 0 or below.stop > below.start or below.loanCount or below.blocked or below.isPaused:
        return 0
    pieces[0].iov_base = <void*> head
    pieces[0].iov_len = headLength
    pieces[1].iov_base = above.data + above.start
    pieces[1].iov_len = above.stop - above.start
    memset(&message, 0, sizeof(msghdr))
    message.msg_iov = pieces
    message.msg_iovlen = 2
    with nogil:
        sent = sendmsg(below.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT)
    if sent <= 0:
        return 0
    below.sentBytes += sent
    return sent


cdef int framesBelow(Outbox above) except -1:
    """
    Send what waits as one frame, or put it into the outbox below.
    """
    cdef Outbox below = above.below
    cdef Py_ssize_t count = above.stop - above.start
    cdef Py_ssize_t sent, rest = 0
    cdef char[LONGEST_HEAD] head
    cdef Py_ssize_t headLength = frameHeader(head, count)
    cdef char* out
    if not below.closed:
        sent = sendFrame(below, head, headLength, above)
        rest = headLength + count - sent
        if rest:
            out = below.reserve(rest)
            if out == NULL:
                return 0
            if sent < headLength:
                memcpy(out, head + sent, headLength - sent)
                memcpy(out + headLength - sent, above.data + above.start, count)
            else:
                memcpy(out, above.data + above.stop - rest, rest)
    above.sentBytes += count
    above.giveBack()
    if rest and not below.closed:
        below.grown(rest)
    return 0
