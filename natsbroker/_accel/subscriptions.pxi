# The twins of natsbroker.subjects.subscription.

cdef enum:
    FIRST_LINK = 3
    CLIENT_KIND = 0
    ROUTE = 3
    GATEWAY = 4
    HUB = 5
    SPOKE = 6
    LONGEST_REMEMBERED = 512
    SUBSCRIPTIONS_PER_WEIGHT = 8
    BUCKETS = 1024
    # The kinds of receivers that are no links, as bits.
    HERE = (1 << FIRST_LINK) - 1
    # Distances of members of queue groups.
    NEIGHBOUR = 0
    FARTHEST = 3


cdef inline bint isAmongKinds(uint32_t kinds, int kind) noexcept:
    return (kinds >> kind) & 1


# When a subscription ends, its account breaks its cycles (L{natsbroker.accounts.account.Account}).
# The garbage collector need not visit subscriptions, which would stop the broker for long.
@cython.no_gc
cdef class Subscription:
    # There may be millions of subscriptions, so the small fields share eight bytes.
    cdef public object owner, pattern, queue, subscriber, tag, outbox, permissions
    cdef public int weight
    cdef public unsigned char kind
    cdef unsigned char isClosed, isShadow
    # The distance of a queue group's member behind a link. It is known once the matches are sorted.
    cdef unsigned char distance
    cdef public long long maximum, delivered

    def __init__(
        self, owner, pattern, queue, kind, subscriber, tag, outbox=None, permissions=None, weight=1
    ):
        self.owner = owner
        self.pattern = pattern
        self.queue = queue
        self.kind = kind
        self.subscriber = subscriber
        self.tag = tag
        self.outbox = outbox
        self.permissions = permissions
        self.weight = weight

    @property
    def closed(self):
        return bool(self.isClosed)

    @closed.setter
    def closed(self, bint value):
        self.isClosed = value

    def cancel(self):
        if not self.isClosed:
            self.isClosed = True
            self.owner.subscriptionCancelled(self)

    def cancelAfter(self, count):
        if count > self.delivered:
            self.maximum = count
        else:
            self.maximum = 0
            self.cancel()

    def reweigh(self, weight):
        if not self.isClosed:
            self.owner.subscriptionReweighed(self, weight)

    def __repr__(self):
        group = f" queue={self.queue!r}" if self.queue else ""
        return f"<Subscription {self.pattern!r}{group} tag={self.tag!r}>"


@cython.final
@cython.no_gc
cdef class ServiceSubscription(Subscription):
    pass


@cython.final
@cython.no_gc
cdef class Shadow(Subscription):
    cdef readonly Subscription original
    cdef readonly object rename
    # The last subject that was renamed, and its new name.
    cdef bytes renamed, name

    def __init__(self, owner, pattern, subscriber, Subscription original not None, rename=None):
        Subscription.__init__(
            self, owner, pattern, original.queue, original.kind, subscriber, None
        )
        self.isShadow = True
        self.original = original
        self.rename = rename

    cdef bytes nameOf(self, const char* subject, Py_ssize_t length):
        """The original's name for a subject. C{rename} is not None."""
        if (
            self.renamed is None or PyBytes_GET_SIZE(self.renamed) != length
            or memcmp(PyBytes_AS_STRING(self.renamed), subject, length) != 0
        ):
            text = PyBytes_FromStringAndSize(subject, length)
            self.name = <bytes?> self.rename(text)
            self.renamed = text
        return self.name


def closeAll(subscriptions):
    cdef list closed = []
    cdef Subscription subscription
    for each in subscriptions:
        subscription = <Subscription?> each
        if not subscription.isClosed:
            subscription.isClosed = True
            closed.append(subscription)
    return closed


@cython.final
cdef class TrafficCounter:
    cdef readonly long long messages, size, copies, copiedSize

    def add(self, long long messages, long long size, long long copies):
        self.messages += messages
        self.size += size
        self.copies += messages * copies
        self.copiedSize += size * copies
