# Runs: publishes that follow each other with the same line, as most do. The line is parsed once, so
# each further publish costs one comparison, and two copies for each receiver.

cdef extern from *:
    """
    /* Copies of a few bytes, without a call. */
    static inline void nb_copy(char *to, const char *from, size_t size) {
        typedef struct { char bytes[16]; } Sixteen;
        typedef struct { char bytes[32]; } ThirtyTwo;
        if (size > 64) {
            memcpy(to, from, size);
        } else if (size > 32) {
            ThirtyTwo head, tail;
            memcpy(&head, from, 32);
            memcpy(&tail, from + size - 32, 32);
            memcpy(to, &head, 32);
            memcpy(to + size - 32, &tail, 32);
        } else if (size > 16) {
            Sixteen head, tail;
            memcpy(&head, from, 16);
            memcpy(&tail, from + size - 16, 16);
            memcpy(to, &head, 16);
            memcpy(to + size - 16, &tail, 16);
        } else if (size >= 8) {
            uint64_t head, tail;
            memcpy(&head, from, 8);
            memcpy(&tail, from + size - 8, 8);
            memcpy(to, &head, 8);
            memcpy(to + size - 8, &tail, 8);
        } else {
            while (size--) to[size] = from[size];
        }
    }

    /* The bits in which two runs of 16 bytes differ: two words, so that they cost one branch. */
    static inline uint64_t nb_difference(const char *one, const char *other) {
        uint64_t a[2], b[2];
        memcpy(a, one, 16);
        memcpy(b, other, 16);
        return (a[0] ^ b[0]) | (a[1] ^ b[1]);
    }

    /* Whether two runs of bytes are equal; their length is 8 or more. Parts overlap. */
    static inline int nb_same(const char *one, const char *other, size_t size) {
        size_t last = size - 16;
        if (size > 64)
            return memcmp(one, other, size) == 0;
        if (size > 32)
            return (nb_difference(one, other) | nb_difference(one + 16, other + 16)
                    | nb_difference(one + last - 16, other + last - 16)
                    | nb_difference(one + last, other + last)) == 0;
        if (size >= 16)
            return (nb_difference(one, other) | nb_difference(one + last, other + last)) == 0;
        uint64_t a[2], b[2];
        memcpy(a, one, 8);
        memcpy(a + 1, one + size - 8, 8);
        memcpy(b, other, 8);
        memcpy(b + 1, other + size - 8, 8);
        return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
    }

    /* How many frames repeat the first one's line, which has 8 bytes or more, within the bytes read. */
    static inline ptrdiff_t nb_alike(const char *first, ptrdiff_t line, ptrdiff_t frame, ptrdiff_t available,
                                     ptrdiff_t most) {
        ptrdiff_t count = 0;
        const char *at = first + frame;
        for (available -= frame; available >= frame && count < most; available -= frame, at += frame, count++)
            if (!nb_same(first, at, line) || at[frame - 2] != '\\r' || at[frame - 1] != '\\n') break;
        return count;
    }

    /* Behind the first line, which is there: that line and the bodies, one of each for every frame. */
    static inline void nb_repeat(char *out, size_t line, const char *bodies, size_t body, size_t frame,
                                 ptrdiff_t count) {
        const char *first = out;
        for (ptrdiff_t number = 0; number < count; number++, bodies += frame) {
            if (number) nb_copy(out, first, line);
            nb_copy(out + line, bodies, body);
            out += line + body;
        }
    }
    """
    bint nb_same(const char*, const char*, size_t) noexcept nogil
    Py_ssize_t nb_alike(
        const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t
    ) noexcept nogil
    void nb_repeat(char*, size_t, const char*, size_t, size_t, Py_ssize_t) noexcept nogil

cdef enum:
    # The number of bytes that one receiver gets before the next one. They fit into the first-level
    # cache.
    RUN_SIZE = 16384
    # The factor by which a message of a run costs less than another one.
    CHEAPER = 8


cdef struct Frames:
    # The first frame of a run, the length of its line, and that of the whole frame.
    const char* first
    Py_ssize_t line, whole
    # The part of the line after the subject, up to its end.
    const char* rest
    Py_ssize_t restLength
    # The subject as receivers see it.
    const char* subject
    Py_ssize_t length
    bint hasHeader
    Py_ssize_t header
    # The number of frames after the first one.
    Py_ssize_t count


cdef inline void beginRun(
    Frames* run, const char* first, Py_ssize_t line, Py_ssize_t whole, const InputMessage* message
) noexcept:
    """
    Describe a run by its first frame.

    @param line: the length of the frame's line, and C{whole} that of the frame.
    """
    run.first = first
    run.line = line
    run.whole = whole
    run.rest = message.rest
    run.restLength = message.lineLength
    run.subject = message.subject
    run.length = message.length
    run.header = message.header
    run.hasHeader = message.header > 0


cdef inline Py_ssize_t givenSize(Frames* run, Subscription subscription):
    # RMSG or HMSG; for clients MSG or HMSG, and the space between subject and sid.
    cdef Py_ssize_t head = 6 if run.hasHeader and subscription.kind < FIRST_LINK else 5
    return (
        head + PyBytes_GET_SIZE(<bytes?> subscription.tag) + run.length + 1 + run.restLength
        + run.whole - run.line
    )


cdef inline bint isPassedOver(Subscription subscription, Outbox own):
    """
    Whether a receiver gets nothing, although it matches.
    """
    cdef Outbox outbox
    if subscription.isClosed:
        return True
    outbox = <Outbox?> subscription.outbox
    return outbox.closed or (outbox is own and not outbox.echo)


cdef Py_ssize_t longestRun(
    Frames* run, tuple receivers, Outbox own, Py_ssize_t most, bint* isReached
) except -1:
    """
    The number of frames that may follow the first one without an event in the middle of it: nobody
    overflows, no receiver counts its messages or has to be asked, and all get the same.

    @param receivers: all direct, each with an outbox of its own.
    @param most: the largest number that others allow.
    @param isReached: set if somebody gets it.
    """
    cdef Py_ssize_t place
    cdef Subscription subscription
    cdef Outbox outbox
    for place in range(PyTuple_GET_SIZE(receivers)):
        subscription = <Subscription> PyTuple_GET_ITEM(receivers, place)
        if isPassedOver(subscription, own):
            continue
        outbox = <Outbox?> subscription.outbox
        if (
            (subscription.permissions is not None and subscription.kind < FIRST_LINK)
            or subscription.maximum or (run.hasHeader and not outbox.headers)
        ):
            return 0
        most = min(
            most,
            (outbox.limit - outbox.waiting() - outbox.heldAtMost) // givenSize(run, subscription),
        )
        isReached[0] = True
    return max(most, 0)


cdef Py_ssize_t framesAlike(
    Frames* run, Py_ssize_t available, Py_ssize_t most, bint tracesParents
) noexcept:
    """
    The number of frames, at most C{most}, that have the first one's line and ask for no trace.

    @param available: the number of bytes, from where the first one begins.
    """
    cdef Py_ssize_t place, count
    cdef const char* block
    # The headers of the first one do not ask for a trace. Most others have the same headers.
    count = nb_alike(run.first, run.line + run.header, run.whole, available, most)
    if run.hasHeader and count < most:
        for place in range(count, nb_alike(run.first, run.line, run.whole, available, most)):
            block = run.first + (place + 1) * run.whole + run.line
            if isForReadablePath(block, run.header, tracesParents):
                break
            count = place + 1
    return count


cdef int giveRun(Frames* run, tuple receivers, Outbox own) except -1:
    """
    Put the frames behind the first one into the outboxes of receivers.
    """
    cdef Py_ssize_t place
    cdef Subscription subscription
    for place in range(PyTuple_GET_SIZE(receivers)):
        subscription = <Subscription> PyTuple_GET_ITEM(receivers, place)
        if not isPassedOver(subscription, own):
            giveFrames(run, subscription)
    return 0


cdef int giveFrames(Frames* run, Subscription subscription) except -1:
    cdef Outbox outbox = <Outbox?> subscription.outbox
    cdef bytes tag = <bytes?> subscription.tag
    cdef Py_ssize_t tagLength = PyBytes_GET_SIZE(tag)
    cdef Py_ssize_t body = run.whole - run.line
    cdef Py_ssize_t total = givenSize(run, subscription)
    cdef char* begin = outbox.reserve(run.count * total)
    cdef char* out = begin
    cdef bint isLink = subscription.kind >= FIRST_LINK
    if begin == NULL:
        return 0
    if run.hasHeader:
        memcpy(out, b"HMSG ", 5)
        out += 5
    elif isLink:
        memcpy(out, b"LMSG " if subscription.kind >= HUB else b"RMSG ", 5)
        out += 5
    else:
        memcpy(out, b"MSG ", 4)
        out += 4
    if isLink:
        # The account and a space; nothing if the connection is dedicated to one account.
        memcpy(out, PyBytes_AS_STRING(tag), tagLength)
        out += tagLength
    memcpy(out, run.subject, run.length)
    out += run.length
    if not isLink:
        out[0] = c" "
        memcpy(out + 1, PyBytes_AS_STRING(tag), tagLength)
        out += 1 + tagLength
    out[0] = c" "
    memcpy(out + 1, run.rest, run.restLength)
    nb_repeat(begin, total - body, run.first + run.whole + run.line, body, run.whole, run.count)
    subscription.delivered += run.count
    outbox.messages += run.count
    outbox.messageBytes += run.count * (body - 2)
    return outbox.grown(run.count * total)
