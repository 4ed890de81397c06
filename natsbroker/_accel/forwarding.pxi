# The steps that the lanes of clients and of links share: reading words, and passing messages to
# links.

# A message in the input.
cdef struct InputMessage:
    const char* subject
    Py_ssize_t length
    # The input after the subject, from the reply to the payload's CRLF, and the length of its part
    # in the line.
    const char* rest
    Py_ssize_t restLength, lineLength
    # The number of bytes of headers, and the length of the reply. Both are negative without one.
    Py_ssize_t header, replyLength


cdef inline bint isReservedReply(const char* reply, Py_ssize_t length) noexcept:
    if reply[0] == c"_":
        return (length >= 4 and memcmp(reply, b"_R_.", 4) == 0) or (
            length >= 5 and memcmp(reply, b"_GR_.", 5) == 0
        )
    return reply[0] == c"$" and (
        (length >= 4 and memcmp(reply, b"$GR.", 4) == 0)
        or (length >= 8 and memcmp(reply, b"$JS.ACK.", 8) == 0)
    )


cdef inline Py_ssize_t streamSubjectMark(const char* reply, Py_ssize_t length) noexcept:
    """
    Where the mark stands behind which a reply subject has the subject that the message has in its
    stream, or -1: see L{natsbroker.wire.mapped.splitReply}.
    """
    cdef Py_ssize_t place
    cdef int dots = 0
    if length < 8 or memcmp(reply, b"$JS.ACK.", 8) != 0:
        return -1
    for place in range(length - 1):
        if reply[place] == c".":
            dots += 1
        elif reply[place] == c"@" and dots >= 8:
            return place
    return -1


cdef inline Py_ssize_t digitsBefore(const char* line, Py_ssize_t start, Py_ssize_t end) noexcept:
    """
    Where the digits begin that a line ends with: one to nine of them behind a single space, or -1.
    """
    cdef Py_ssize_t place = end
    while place > start and line[place - 1] >= c"0" and line[place - 1] <= c"9":
        place -= 1
    if place == end or end - place > 9 or (place > start and line[place - 1] != c" "):
        return -1
    return place


cdef inline Py_ssize_t numberAt(const char* line, Py_ssize_t start, Py_ssize_t end) noexcept:
    cdef Py_ssize_t number = 0
    while start < end:
        number = number * 10 + (line[start] - c"0")
        start += 1
    return number


cdef inline Py_ssize_t wordEnd(const char* line, Py_ssize_t start, Py_ssize_t end) noexcept:
    """
    Where a word ends: at a space or a control byte, or at the end.
    """
    # Bytes above 127 are negative here, but are valid.
    while start < end and (line[start] < 0 or (line[start] > 32 and line[start] != 127)):
        start += 1
    return start


cdef inline bint areWords(const char* line, Py_ssize_t start, Py_ssize_t end) noexcept:
    """
    Whether there are words with single spaces between them, and nothing else.
    """
    cdef Py_ssize_t place
    while True:
        place = wordEnd(line, start, end)
        if place == start:
            return False
        if place == end:
            return True
        if line[place] != c" ":
            return False
        start = place + 1


cdef inline bint isNamed(
    const char* names, Py_ssize_t namesLength, const char* name, Py_ssize_t length
) noexcept:
    """
    Whether a name is among names, each of which has a space behind it.
    """
    cdef const char* found
    while namesLength > 0:
        found = <const char*> memchr(names, c" ", namesLength)
        if found == NULL:
            return False
        if found - names == length and memcmp(names, name, length) == 0:
            return True
        namesLength -= found + 1 - names
        names = found + 1
    return False


cdef bint isForReadablePath(
    const char* block, Py_ssize_t length, bint tracesParents
) noexcept nogil:
    """
    Whether headers may ask for a trace of their message, or name the subjects of a schedule: see
    L{natsbroker.wire.tracing.asksForTrace} and L{natsbroker.wire.schedules}.

    @param tracesParents: whether C{traceparent} does, in any case.
    """
    cdef const char* place = block
    cdef const char* end = block + length
    while True:
        place = <const char*> memchr(place, c"\n", end - place)
        if place == NULL or end - place < 16:
            return False
        place += 1
        if place[0] == c"N" and memcmp(place, b"Nats-Trace-Dest", 15) == 0:
            return True
        if place[0] == c"N" and memcmp(place, b"Nats-Schedule-", 14) == 0:
            return True
        if tracesParents and strncasecmp(place, b"traceparent", 11) == 0:
            return True


cdef bint takesHeaders(tuple links):
    cdef Subscription subscription
    for subscription in links:
        if not (<Outbox?> subscription.outbox).headers:
            return False
    return True


cdef bint isDeserted(tuple members):
    """
    Whether all of a queue group's members here are gone. They are direct (L{isDirect}).
    """
    cdef Subscription member
    for member in members:
        if not hasEnded(member):
            return False
    return True


@cython.final
cdef class Choice:
    """
    The members of other brokers that a message's queue groups chose, one for each group, which names
    the link. Kept for the next message, so that none costs an object.
    """

    cdef list members, names

    def __cinit__(self):
        self.members = []
        self.names = []

    cdef int clear(self) except -1:
        self.members.clear()
        self.names.clear()
        return 0

    cdef int add(self, Subscription member, name) except -1:
        self.members.append(member)
        self.names.append(name)
        return 0

    cdef inline bint isFor(self, Py_ssize_t place, Subscription link):
        cdef Subscription member = <Subscription> PyList_GET_ITEM(self.members, place)
        return member.outbox is link.outbox

    cdef Py_ssize_t sizeFor(self, Subscription link):
        """The length of the names of a link's groups, each with a space behind it."""
        cdef Py_ssize_t place, size = 0
        for place in range(PyList_GET_SIZE(self.members)):
            if self.isFor(place, link):
                size += PyBytes_GET_SIZE(<bytes> PyList_GET_ITEM(self.names, place)) + 1
        return size

    cdef char* write(self, Subscription link, char* out):
        """
        Write those names.

        @return: where they end.
        """
        cdef Py_ssize_t place, length
        cdef bytes name
        for place in range(PyList_GET_SIZE(self.members)):
            if self.isFor(place, link):
                name = <bytes> PyList_GET_ITEM(self.names, place)
                length = PyBytes_GET_SIZE(name)
                memcpy(out, PyBytes_AS_STRING(name), length)
                out[length] = c" "
                out += length + 1
        return out

    cdef bint isServed(self, Py_ssize_t place, tuple forward):
        """
        Whether the link of a member has the message already: for itself, or for a group before.
        """
        cdef Py_ssize_t other
        cdef Subscription member = <Subscription> PyList_GET_ITEM(self.members, place)
        for other in range(place):
            if self.isFor(other, member):
                return True
        for other in range(PyTuple_GET_SIZE(forward)):
            if (<Subscription> PyTuple_GET_ITEM(forward, other)).outbox is member.outbox:
                return True
        return False


cdef bint giveLink(
    Subscription subscription,
    const InputMessage* message,
    Choice choice,
    FlushBatch batch,
    bytes origin=b"",
) except -1:
    """
    Put a message into a link's outbox.

    @param choice: names the queue groups that the message is for over there; None for none.
    @param batch: see L{Outbox.mayBorrow}.
    @param origin: the cluster of the leafnode that it is from, with a space behind it, for routes
        that want to know; empty for none.
    @return: whether it took it.
    """
    cdef const char* rest = message.rest
    cdef Py_ssize_t length = message.length
    cdef Py_ssize_t restLength = message.restLength
    cdef Py_ssize_t header = message.header
    cdef Py_ssize_t replyLength = message.replyLength
    cdef Py_ssize_t originLength = 0
    # The length of the first part of the rest, after which other text is inserted.
    cdef Py_ssize_t head = 0
    cdef bint isLent
    cdef Outbox outbox
    cdef const char* account
    cdef Py_ssize_t accountLength, total
    cdef Py_ssize_t names = 0
    cdef char* out
    if subscription.isClosed:
        return False
    if choice is not None:
        names = choice.sizeFor(subscription)
    outbox = <Outbox?> subscription.outbox
    if outbox.closed:
        return False
    account = PyBytes_AS_STRING(<bytes?> subscription.tag)
    accountLength = PyBytes_GET_SIZE(<bytes?> subscription.tag)
    if subscription.kind == ROUTE:
        originLength = PyBytes_GET_SIZE(origin)
    total = 5 + accountLength + length + 1 + restLength + (names + 2 if names else 0)
    if originLength:
        total += originLength + (0 if header else 2)
    if replyLength > 0 and (names or (originLength and not header)):
        head = replyLength + 1
    isLent = outbox.mayBorrow(restLength - head, batch)
    if isLent:
        total -= restLength - head
    out = outbox.reserve(total)
    if out == NULL:
        return False
    if originLength:
        memcpy(out, b"LMSG ", 5)
        memcpy(out + 5, PyBytes_AS_STRING(origin), originLength)
        out += originLength
    elif header:
        memcpy(out, b"HMSG ", 5)
    elif subscription.kind >= HUB:
        memcpy(out, b"LMSG ", 5)
    else:
        memcpy(out, b"RMSG ", 5)
    out += 5
    memcpy(out, account, accountLength)
    out += accountLength
    memcpy(out, message.subject, length)
    out += length
    out[0] = c" "
    out += 1
    outbox.messageBytes += restLength - message.lineLength - 2
    if names:
        out[0] = c"+" if replyLength > 0 else c"|"
        out[1] = c" "
        out += 2
    memcpy(out, rest, head)
    out += head
    rest += head
    restLength -= head
    if names:
        out = choice.write(subscription, out)
    if originLength and not header:
        # With an origin, the size of the headers must be there, even if it is 0.
        memcpy(out, b"0 ", 2)
        out += 2
    if isLent:
        outbox.borrow(out, rest, restLength)
    else:
        memcpy(out, rest, restLength)
    outbox.grown(total)
    outbox.messages += 1
    subscription.delivered += 1
    return True


cdef enum:
    LONGEST_REPLY = 1023
    SHORT = 120
    VERDICTS = 2048
    # The number of receivers between two checks of the batch's share of work.
    STRIDE = 64
    # The number of interests of a link that are read at a time, and the work of each.
    MOST_INTERESTS = 256
    INTEREST = 24
