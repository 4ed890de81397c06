# The fast lane for what services publish.

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
            self.give(<Subscription> subscription, subject, payload)
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
                self.give(<Subscription> subscription, subject, <bytes?> payload)
        return len(receivers)

    cdef tuple receiversOf(self, bytes subject):
        """
        Who is subscribed to a subject, if all of them are connections that nothing need be asked
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

    cdef int give(self, Subscription subscription, bytes subject, bytes payload) except -1:
        cdef Outbox outbox = <Outbox?> subscription.outbox
        cdef bytes sid = <bytes?> subscription.tag
        cdef Py_ssize_t length = PyBytes_GET_SIZE(subject)
        cdef Py_ssize_t sidLength = PyBytes_GET_SIZE(sid)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(payload)
        cdef char digits[24]
        cdef int digitsLength = sprintf(digits, b"%zd", size)
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
        memcpy(out, PyBytes_AS_STRING(payload), size)
        out += size
        memcpy(out, b"\r\n", 2)
        subscription.delivered += 1
        outbox.messages += 1
        outbox.messageBytes += size
        outbox.grown(total)
        return 0
