# The twin of natsbroker.pure.collector.Collector: see there for what each name means.


@cython.final
cdef class Collector:
    cdef readonly object subscriber
    cdef object batch, failed
    cdef list runs
    # The run that is being collected, while there is one.
    cdef bytes subject, reply
    cdef list bodies
    cdef Py_ssize_t header
    cdef object origin, tag, steps
    cdef int64_t cost, tagCost
    cdef bint isIdle
    cdef object __weakref__

    isBatcher = True

    def __init__(self, subscriber, batch, failed):
        self.subscriber = subscriber
        self.batch = batch
        self.failed = failed
        self.runs = []
        self.steps = getattr(subscriber, "steps", None)
        self.tagCost = 0
        self.cost = 0 if self.steps is None else self.steps.cost
        self.isIdle = False

    def deliver(self, message, tag):
        cdef bytes subject = message.subject
        cdef bytes reply = message.reply
        cdef bytes body = message.body
        self.put(
            PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject),
            PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply),
            PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body),
            message.headerLength, message.origin, tag,
        )

    cdef int put(
        self,
        const char* subject,
        Py_ssize_t length,
        const char* reply,
        Py_ssize_t replyLength,
        const char* body,
        Py_ssize_t size,
        Py_ssize_t header,
        object origin,
        object tag,
    ) except -1:
        cdef Expected expected
        if self.cost:
            if not self.runs:
                self.isIdle = self.steps.isIdle
            # In some streams, the step does a rollup or a time to live.
            if self.isIdle or (header and (
                not readExpected(body, header, &expected) or expected.rollup.data != NULL
                or expected.ttl.data != NULL
            )):
                self.batch.work += self.cost
        if (
            self.bodies is None or tag is not self.tag or origin is not self.origin
            or header != self.header
            or PyBytes_GET_SIZE(self.subject) != length
            or memcmp(PyBytes_AS_STRING(self.subject), subject, length) != 0
            or PyBytes_GET_SIZE(self.reply) != replyLength
            or memcmp(PyBytes_AS_STRING(self.reply), reply, replyLength) != 0
        ):
            if not self.runs:
                self.batch.atEnd(self.flush)
            self.tagCost = 0 if tag is None else getattr(tag, "cost", 0)
            self.subject = PyBytes_FromStringAndSize(subject, length)
            self.reply = PyBytes_FromStringAndSize(reply, replyLength)
            self.header = header
            self.origin = origin
            self.tag = tag
            self.bodies = []
            self.runs.append((Run(self.subject, self.reply, self.bodies, header, origin), tag))
        if self.tagCost:
            self.batch.work += self.tagCost
        self.bodies.append(PyBytes_FromStringAndSize(body, size))
        return 0

    def subscriptionEnded(self, tag):
        self.flush()
        self.subscriber.subscriptionEnded(tag)

    def flush(self):
        runs, self.runs = self.runs, []
        self.subject = self.reply = self.bodies = None
        self.origin = self.tag = None
        if runs:
            try:
                self.subscriber.deliverRuns(runs)
            except BaseException:
                self.failed("A batch subscriber failed")
