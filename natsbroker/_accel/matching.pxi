# The twins of natsbroker.subjects.matcher.

@cython.final
cdef class Matches:
    cdef readonly tuple plain, groups, links
    cdef readonly TrafficCounter counter
    cdef readonly long long copies
    # Whether all receivers are connections with an outbox or batchers, and whether any is a batcher.
    cdef bint fast, hasBatcher
    # Whether each plain receiver that is no link has an outbox, and there are not too many of them;
    # and whether all other receivers are links with outboxes.
    cdef bint areApart, isRunnable
    # The kinds of receivers that there are, each as a bit.
    cdef uint32_t kinds
    # Whether all links with interest can be written to directly, and whether one of these
    # connections stands for leafnodes of several clusters.
    cdef bint areLinksDirect, isMixed
    # Whether neighbours have members of queue groups.
    cdef bint areShared
    # If links have outboxes: one subscription of each link that gets the message independently of
    # groups, and one of each link that may get it.
    cdef tuple forward, reachable
    # For the lanes of links: whether outboxes belong to all plain receivers that are no links, to all
    # members of groups that are no links, and to all routes.
    cdef bint isPlainDirect, areGroupsDirect, areRoutesDirect
    cdef uint64_t epoch
    cdef uint32_t literalBucket, headBucket
    # The number of receivers and groups that are examined for each message, and whether they may
    # take more than one share of work.
    cdef Py_ssize_t receivers
    # Whether a message is a request, because of a service here or because of its subject.
    cdef readonly bint isServed
    # The number of entries that the router returned.
    cdef Py_ssize_t entries
    cdef bint isLarge

    def __init__(self, tuple plain not None, tuple groups not None, tuple links not None):
        self.plain = plain
        self.groups = groups
        self.links = links
        self.receivers = (
            PyTuple_GET_SIZE(plain) + PyTuple_GET_SIZE(groups) + PyTuple_GET_SIZE(links)
        )
        self.isLarge = PyTuple_GET_SIZE(plain) + PyTuple_GET_SIZE(groups) >= DIVISIBLE
        self.copies = PyTuple_GET_SIZE(plain)
        for group in groups:
            if PyTuple_GET_SIZE(<tuple> (<tuple> group)[1]):
                self.copies += 1
        self.fast = False
        self.hasBatcher = False
        self.areApart = False
        self.isRunnable = False
        self.kinds = 0
        self.areLinksDirect = False
        self.isMixed = False
        self.areShared = False
        self.forward = ()
        self.reachable = ()
        self.isPlainDirect = False
        self.areGroupsDirect = False
        self.areRoutesDirect = False
        self.isServed = False

    def __bool__(self):
        return bool(self.plain or self.groups or self.links)


cdef inline bint isDirect(Subscription subscription):
    if subscription.isShadow:
        subscription = (<Shadow> subscription).original
    outbox = subscription.outbox
    return (
        type(outbox) is Outbox and (<Outbox> outbox).direct and type(subscription.tag) is bytes
    )


cdef bint hasEnded(Subscription subscription):
    if subscription.isShadow and not subscription.isClosed:
        subscription = (<Shadow> subscription).original
    if subscription.isClosed:
        return subscription.kind < FIRST_LINK
    outbox = subscription.outbox
    return type(outbox) is Outbox and (<Outbox> outbox).closed


cdef inline bint isBatched(Subscription subscription):
    """
    Whether messages are to be collected for a service, which gets them at the end of the batch.
    """
    return (
        not subscription.isShadow and subscription.outbox is None
        and getattr(subscription.subscriber, "isBatcher", False)
    )


cdef inline bint isDirectLink(Subscription subscription):
    outbox = subscription.outbox
    return type(outbox) is Outbox and type(subscription.tag) is bytes


cdef bint isAmong(list links, Subscription entry):
    """
    Whether there is a subscription of the same link already.
    """
    cdef Subscription each
    for each in links:
        if each.outbox is entry.outbox:
            return True
    return False


cdef inline bytes clusterOf(Subscription entry):
    """
    The cluster of the leafnode that a link's subscription is of; empty for none.
    """
    return <bytes?> getattr(entry.subscriber, "cluster", b"")


cdef inline int distanceOf(Subscription entry) except -1:
    """
    As L{natsbroker.accounts.delivery.distanceOf}.
    """
    if entry.kind == GATEWAY:
        return FARTHEST
    if entry.kind != ROUTE or clusterOf(entry):
        return 2
    return NEIGHBOUR if getattr(entry.subscriber, "isNeighbour", False) else 1


cdef bint areApart(list plain):
    """
    Whether all of these are subscriptions of this account, and no two of one connection.
    """
    cdef Subscription each
    cdef set outboxes = set()
    for each in plain:
        if each.isShadow:
            return False
        outboxes.add(id(each.outbox))
    return len(outboxes) == len(plain)


cdef Matches sortEntries(object entries, bytes subject):
    cdef list plain = []
    cdef list links = []
    cdef list forward = []
    cdef list reachable = []
    cdef bint isPlainDirect = True
    cdef bint areGroupsDirect = True
    cdef dict groups = None
    cdef Subscription entry
    cdef Matches matches
    cdef bint fast = True
    cdef bint hasBatcher = False
    cdef bint areRoutesDirect = True
    cdef uint32_t kinds = 0
    cdef bint areLinksDirect = True
    cdef bint isMixed = False
    cdef bint areShared = False
    cdef bint isServed = mayBeRequest(subject) and isRequest(subject)
    cdef Py_ssize_t count = 0
    for each in entries:
        count += 1
        entry = <Subscription?> each
        if hasEnded(entry):
            continue
        # See L{natsbroker.subjects.matcher.sortMatches}.
        if entry.kind >= FIRST_LINK and entry.permissions is not None and not (
            entry.permissions.mayDeliver(subject, entry.queue)
        ):
            continue
        kinds |= <uint32_t> 1 << entry.kind
        if entry.kind >= FIRST_LINK:
            areLinksDirect = areLinksDirect and isDirectLink(entry)
            isMixed = isMixed or (entry.kind == ROUTE and len(clusterOf(entry)) > 0)
        if entry.queue:
            if groups is None:
                groups = {}
            pair = groups.get(entry.queue)
            if pair is None:
                pair = groups[entry.queue] = ([], [])
            if entry.kind >= FIRST_LINK:
                pair[1].append(entry)
                entry.distance = distanceOf(entry)
                areShared = areShared or entry.distance == NEIGHBOUR
                if not isDirectLink(entry):
                    fast = False
                    areRoutesDirect = areRoutesDirect and entry.kind != ROUTE
                elif not isAmong(reachable, entry):
                    reachable.append(entry)
            else:
                pair[0].append(entry)
                isServed = isServed or type(entry) is ServiceSubscription
                areGroupsDirect = areGroupsDirect and isDirect(entry)
                hasBatcher = hasBatcher or isBatched(entry)
                fast = fast and (isDirect(entry) or isBatched(entry))
        elif entry.kind >= FIRST_LINK:
            links.append(entry)
            if not isDirectLink(entry):
                fast = False
                areRoutesDirect = areRoutesDirect and entry.kind != ROUTE
            else:
                if not isAmong(forward, entry):
                    forward.append(entry)
                if not isAmong(reachable, entry):
                    reachable.append(entry)
        else:
            plain.append(entry)
            isServed = isServed or type(entry) is ServiceSubscription
            isPlainDirect = isPlainDirect and isDirect(entry)
            hasBatcher = hasBatcher or isBatched(entry)
            fast = fast and (isDirect(entry) or isBatched(entry))
    matches = Matches(
        tuple(plain),
        tuple([(name, tuple(here), tuple(there)) for name, (here, there) in groups.items()])
        if groups is not None else (),
        tuple(links),
    )
    matches.entries = count
    matches.fast = fast
    matches.areApart = isPlainDirect and not matches.isLarge and areApart(plain)
    matches.isRunnable = matches.areApart and fast and groups is None
    matches.forward = tuple(forward)
    matches.reachable = tuple(reachable)
    matches.isPlainDirect = isPlainDirect
    matches.areGroupsDirect = areGroupsDirect
    matches.areRoutesDirect = areRoutesDirect
    matches.hasBatcher = hasBatcher
    matches.kinds = kinds
    matches.areLinksDirect = areLinksDirect
    matches.isMixed = isMixed
    matches.areShared = areShared
    matches.isServed = isServed
    return matches


cdef inline bint mayBeRequest(bytes subject):
    # The common subjects of clients are answered without a Python call.
    cdef const char* text = PyBytes_AS_STRING(subject)
    return text[0] == c"$" or (text[0] == c"_" and (text[1] == c"S" or text[1] == c"G"))


cdef Py_ssize_t sizeOfGroups(tuple groups):
    cdef Py_ssize_t size = 0
    for _, here, there in groups:
        size += len(<tuple> here) + len(<tuple> there)
    return size


cdef inline bint isReserved(const char* subject, Py_ssize_t length) noexcept:
    """
    Whether a publish to this subject needs the readable path's checks.
    """
    if subject[0] == c"_":
        return length >= 5 and memcmp(subject, b"_GR_.", 5) == 0
    if subject[0] == c"$":
        return (length >= 4 and memcmp(subject, b"$GR.", 4) == 0) or (
            length >= 5 and memcmp(subject, b"$NRG.", 5) == 0
        )
    return False


cdef bint isDeliverable(const char* subject, Py_ssize_t length) noexcept nogil:
    """
    As L{natsbroker.subjects.matcher.isDeliverable}.
    """
    cdef Py_ssize_t place
    cdef unsigned char each, before = c"."
    for place in range(length):
        each = <unsigned char> subject[place]
        if each < 0x20 or each == 0x7F or (each == c"." and before == c"."):
            return False
        before = each
    return before != c"."


@cython.final
@cython.no_gc_clear  # As for Outbox.
cdef class Matcher:
    cdef public object router
    cdef Recent recent
    cdef Py_ssize_t longest
    cdef uint64_t literals[BUCKETS]
    cdef uint64_t heads[BUCKETS]
    cdef uint64_t wild
    cdef uint64_t generation
    cdef public bint needsSlowPath, tracesParents
    cdef public object mapSubject
    cdef public Matcher recentSubscriptions
    cdef public object counterFor
    cdef readonly long long hits, misses
    cdef int64_t cost
    # Whether there was ever a pattern that distinguishes the acknowledgements of a consumer.
    cdef bint hasUnevenAcks
    cdef object __weakref__

    LIMIT = 16384

    def __init__(self, router, Py_ssize_t limit=16384):
        self.router = router
        self.recent = Recent(limit)
        self.longest = LONGEST_REMEMBERED if limit else -1
        self.generation = 1

    def match(self, bytes subject not None):
        return self.lookUp(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))

    cdef Matches lookUp(self, const char* subject, Py_ssize_t length):
        cdef uint64_t hash = nb_hash(subject, length, SECRET)
        cdef PyObject* found = self.recent.get(hash, subject, length)
        cdef Matches matches
        if found != NULL:
            matches = <Matches> found
            if matches.epoch == (
                self.literals[matches.literalBucket] + self.heads[matches.headBucket] + self.wild
            ):
                self.hits += 1
                return matches
        self.misses += 1
        return self.ask(hash, PyBytes_FromStringAndSize(subject, length))

    cpdef int64_t takeCost(self):
        cdef int64_t cost = self.cost
        self.cost = 0
        return cost

    cdef Matches ask(self, uint64_t hash, bytes subject):
        cdef const char* text = PyBytes_AS_STRING(subject)
        cdef Py_ssize_t length = PyBytes_GET_SIZE(subject)
        cdef const char* dot = <const char*> memchr(text, c".", length)
        cdef uint32_t literalBucket = hash % BUCKETS
        cdef uint32_t headBucket = (
            nb_hash(text, dot - text if dot != NULL else length, SECRET) % BUCKETS
        )
        cdef uint64_t epoch = self.literals[literalBucket] + self.heads[headBucket] + self.wild
        cdef Matches matches
        if isDeliverable(text, length):
            matches = sortEntries(self.router.match(subject), subject)
            matches.fast = matches.fast and not isReserved(text, length)
            if self.counterFor is not None:
                matches.counter = <TrafficCounter?> self.counterFor(subject, matches)
        else:
            matches = Matches((), (), ())
        matches.epoch = epoch
        matches.literalBucket = literalBucket
        matches.headBucket = headBucket
        if length <= self.longest:
            self.recent.put(
                hash, subject, matches,
                1 + (len(matches.plain) + sizeOfGroups(matches.groups)) // SUBSCRIPTIONS_PER_WEIGHT,
            )
        self.cost += LOOK_UP + matches.entries + <int64_t> getattr(self.router, "shapes", 0)
        return matches

    def changed(self, bytes pattern not None):
        cdef const char* text = PyBytes_AS_STRING(pattern)
        cdef Py_ssize_t length = PyBytes_GET_SIZE(pattern)
        cdef const char* dot = <const char*> memchr(text, c".", length)
        cdef Py_ssize_t head = dot - text if dot != NULL else length
        self.generation += 1
        self.hasUnevenAcks = self.hasUnevenAcks or isUnevenAck(text, length)
        if head == 1 and (text[0] == c"*" or text[0] == c">"):
            self.wild += 1
        elif memchr(text, c"*", length) != NULL or memchr(text, c">", length) != NULL:
            self.heads[nb_hash(text, head, SECRET) % BUCKETS] += 1
        else:
            self.literals[nb_hash(text, length, SECRET) % BUCKETS] += 1

    def __len__(self):
        return self.recent.length()

    def remembered(self):
        return self.recent.contents()


@cython.final
cdef class SidTable:
    """
    The twin of L{natsbroker.subjects.subscription.SidTable}: open addressing over the places of a
    list, so that a subscription costs a dozen bytes here, and the garbage collector sees it.
    """

    cdef uint32_t* slots
    cdef Py_ssize_t size, used
    cdef list entries, free

    def __cinit__(self):
        self.slots = NULL
        self.size = 0
        self.used = 0
        self.entries = []
        self.free = []

    def __dealloc__(self):
        free(self.slots)

    cdef inline Subscription at(self, Py_ssize_t slot):
        return <Subscription> PyList_GET_ITEM(self.entries, self.slots[slot] - 1)

    cdef Py_ssize_t find(self, bytes sid) except -2:
        cdef Py_ssize_t slot
        if self.used == 0:
            return -1
        slot = <size_t> hash(sid) & (self.size - 1)
        while self.slots[slot]:
            if <bytes> self.at(slot).tag == sid:
                return slot
            slot = (slot + 1) & (self.size - 1)
        return -1

    def get(self, bytes sid not None):
        cdef Py_ssize_t slot = self.find(sid)
        return None if slot < 0 else self.at(slot)

    def __contains__(self, bytes sid not None):
        return self.find(sid) >= 0

    def add(self, Subscription subscription not None):
        cdef Py_ssize_t slot, place
        if not isinstance(subscription.tag, bytes):
            raise TypeError("a sid is bytes")
        if self.find(subscription.tag) >= 0:
            raise KeyError(subscription.tag)
        if (self.used + 1) * 4 > self.size * 3:
            self.resize(self.size * 2 if self.size else 8)
        if self.free:
            place = self.free.pop()
            self.entries[place] = subscription
        else:
            place = len(self.entries)
            self.entries.append(subscription)
        self.seat(place)
        self.used += 1

    cdef int seat(self, Py_ssize_t place) except -1:
        cdef Py_ssize_t slot = (
            <size_t> hash((<Subscription> self.entries[place]).tag) & (self.size - 1)
        )
        while self.slots[slot]:
            slot = (slot + 1) & (self.size - 1)
        self.slots[slot] = place + 1
        return 0

    cdef int resize(self, Py_ssize_t size) except -1:
        cdef Py_ssize_t place
        cdef uint32_t* slots = <uint32_t*> calloc(size, sizeof(uint32_t))
        if slots == NULL:
            raise MemoryError
        free(self.slots)
        self.slots = slots
        self.size = size
        for place in range(len(self.entries)):
            if self.entries[place] is not None:
                self.seat(place)
        return 0

    def pop(self, bytes sid not None):
        cdef Py_ssize_t slot = self.find(sid)
        cdef Py_ssize_t mask = self.size - 1
        cdef Py_ssize_t gap, home
        if slot < 0:
            return None
        place = self.slots[slot] - 1
        subscription = self.entries[place]
        self.entries[place] = None
        self.free.append(place)
        self.used -= 1
        # Move back the entries that the removed one displaced, so that no gap is in their way.
        gap = slot
        slot = (slot + 1) & mask
        while self.slots[slot]:
            home = <size_t> hash(self.at(slot).tag) & mask
            if ((slot - home) & mask) >= ((slot - gap) & mask):
                self.slots[gap] = self.slots[slot]
                gap = slot
            slot = (slot + 1) & mask
        self.slots[gap] = 0
        return subscription

    def __len__(self):
        return self.used

    def __iter__(self):
        return iter([entry for entry in self.entries if entry is not None])
