# Acknowledgements of JetStream consumers. Clients publish one for each message, each to a subject
# of its own. Those that only settle messages are read here, and passed to their consumer as runs.

cdef enum:
    # Digits that surely fit into 64 bits.
    ACK_DIGITS = 19
    ACK_NUMBERS = 5


cdef bint isUnevenAck(const char* pattern, Py_ssize_t length) noexcept:
    """
    Whether a pattern matches some acknowledgement subjects of a consumer and others of it not: it
    names numbers. C{$JS.ACK.STREAM.CONSUMER} and five numbers is what such a subject has.
    """
    cdef Py_ssize_t place = 0, start, size
    cdef int token = 0
    cdef bint isNumbered = False
    while True:
        start = place
        while place < length and pattern[place] != c".":
            place += 1
        size = place - start
        if size == 1 and pattern[start] == c">" and place == length:
            return isNumbered
        if not (size == 1 and pattern[start] == c"*"):
            if token == 0 and not (size == 3 and memcmp(pattern + start, b"$JS", 3) == 0):
                return False
            if token == 1 and not (size == 3 and memcmp(pattern + start, b"ACK", 3) == 0):
                return False
            if token >= 4:
                isNumbered = True
        token += 1
        if place == length:
            return isNumbered and token == 4 + ACK_NUMBERS
        if token == 4 + ACK_NUMBERS:
            return False
        place += 1


cdef inline const char* readDigits(const char* at, const char* end, uint64_t* number) noexcept:
    """
    Read a number of one to nineteen digits.

    @return: where it ends; NULL for anything else.
    """
    cdef const char* start = at
    cdef uint64_t found = 0
    while at < end and c"0" <= at[0] <= c"9":
        found = found * 10 + (at[0] - c"0")
        at += 1
        if at - start > ACK_DIGITS:
            return NULL
    if at == start:
        return NULL
    number[0] = found
    return at


@cython.final
cdef class AckCollector:
    """
    Collects the messages of a flush batch for a consumer: what L{natsbroker.accounts.batches.Batcher} is,
    but that acknowledgements which follow each other may come as an
    L{natsbroker.wire.values.AckRun}.
    """

    cdef object subscriber, batch, failed
    cdef list messages
    # The run that is being collected, while there is one.
    cdef list sequences, numbers, deliveries, replies
    cdef object __weakref__

    isBatcher = True

    def __init__(self, subscriber, batch, failed):
        self.subscriber = subscriber
        self.batch = batch
        self.failed = failed
        self.messages = []

    cdef int add(self, object message, object tag) except -1:
        if not self.messages:
            self.batch.atEnd(self.deliverMany)
        self.messages.append((message, tag))
        return 0

    def deliver(self, message, tag):
        self.sequences = None
        self.add(message, tag)

    cdef int put(
        self, uint64_t delivery, uint64_t sequence, uint64_t number, bytes reply, object tag
    ) except -1:
        if self.sequences is None:
            self.sequences = []
            self.numbers = []
            self.deliveries = []
            self.replies = []
            self.add(AckRun(self.sequences, self.numbers, self.deliveries, self.replies), tag)
        self.sequences.append(sequence)
        self.numbers.append(number)
        self.deliveries.append(delivery)
        self.replies.append(reply)
        return 0

    def subscriptionEnded(self, tag):
        self.deliverMany()
        self.subscriber.subscriptionEnded(tag)

    def deliverMany(self):
        messages, self.messages = self.messages, []
        self.sequences = self.numbers = self.deliveries = self.replies = None
        if messages:
            try:
                self.subscriber.deliverMany(messages)
            except BaseException:
                self.failed("A batch subscriber failed")
