# The twin of natsbroker.pure.s2block: S2 blocks, which are what compressed chunks hold.

# An output above this limit is not even allocated: the format allows 4 GiB from 5 bytes of input.
cdef enum:
    LONGEST_VARINT = 5


def decodeBlock(bytes data not None, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t most):
    cdef const unsigned char* source = <const unsigned char*> PyBytes_AS_STRING(data)
    cdef Py_ssize_t place, size
    cdef uint64_t claimed = 0
    cdef int shift
    cdef PyObject* plain
    cdef const char* problem
    if not 0 <= start <= stop <= PyBytes_GET_SIZE(data):
        raise IndexError("the range is outside of the data")
    place = start
    for shift in range(0, 7 * LONGEST_VARINT, 7):
        if place == stop:
            raise ValueError("truncated length")
        claimed |= <uint64_t> (source[place] & 0x7F) << shift
        place += 1
        if source[place - 1] < 0x80:
            break
    else:
        raise ValueError("length of too many bytes")
    if claimed > <uint64_t> max(most, 0):
        raise ValueError("too long")
    size = <Py_ssize_t> claimed
    plain = nb_newBytes(size)
    result = nb_shortened(plain, size)
    problem = unpack(source + place, source + stop, <unsigned char*> PyBytes_AS_STRING(result), size)
    if problem != NULL:
        raise ValueError(problem.decode("ascii"))
    return result


cdef const char* unpack(
    const unsigned char* source, const unsigned char* end, unsigned char* plain, Py_ssize_t size
) noexcept nogil:
    """
    Decode the elements of a block.

    @param size: how many bytes they must give.
    @return: what is wrong with them; NULL for nothing.
    """
    cdef Py_ssize_t filled = 0, length, offset = 0, position
    cdef int extra, kind
    cdef unsigned int tag
    while source < end:
        tag = source[0]
        kind = tag & 3
        source += 1
        if kind == 0:
            length = tag >> 2
            if length >= 60:
                extra = <int> length - 59
                if end - source < extra:
                    return "truncated literal"
                length = littleEndian(source, extra)
                source += extra
            length += 1
            if length > end - source:
                return "truncated literal"
            if length > size - filled:
                return "longer than its length"
            memcpy(plain + filled, source, length)
            source += length
            filled += length
            continue
        extra = 1 if kind == 1 else (2 if kind == 2 else 4)
        if end - source < extra:
            return "truncated copy"
        position = littleEndian(source, extra)
        source += extra
        if kind == 1:
            length = (tag >> 2) & 7
            position |= <Py_ssize_t> (tag & 0xE0) << 3
            if position:
                offset = position
                length += 4
            elif length < 5:
                length += 4
            else:
                # In a repeat, the length follows.
                extra = <int> length - 4
                if end - source < extra:
                    return "truncated copy"
                length = littleEndian(source, extra) + (8 if extra == 1 else 260 if extra == 2 else 65540)
                source += extra
        else:
            length = (tag >> 2) + 1
            offset = position
        if offset == 0 or offset > filled:
            return "offset before the beginning"
        if length > size - filled:
            return "longer than its length"
        copyBack(plain + filled, offset, length)
        filled += length
    if filled < size:
        return "shorter than its length"
    return NULL


cdef inline Py_ssize_t littleEndian(const unsigned char* source, int count) noexcept nogil:
    cdef Py_ssize_t value = 0
    while count:
        count -= 1
        value = value << 8 | source[count]
    return value


cdef inline void copyBack(unsigned char* target, Py_ssize_t offset, Py_ssize_t length) noexcept nogil:
    """
    Copy what stands so far before a place to it; what is copied may be part of the copy.
    """
    cdef Py_ssize_t done = min(offset, length)
    memcpy(target, target - offset, done)
    # The pattern has been copied, so each step can copy twice as much.
    while done < length:
        offset = min(done, length - done)
        memcpy(target + done, target, offset)
        done += offset
