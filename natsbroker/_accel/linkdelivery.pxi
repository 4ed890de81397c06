# The steps of lanes for receivers at other brokers.


cdef int deliverToOthers(
    LinkLane lane,
    Matches matches,
    const InputMessage* message,
    Choice choice,
) except -1:
    """
    Put a message into the outboxes of other links.

    @param choice: the links for groups without a member here; None for none.
    """
    cdef Py_ssize_t place
    cdef Subscription subscription
    if not lane.isGateway:
        if lane.leaf or isAmongKinds(matches.kinds, SPOKE):
            passOn(lane, matches.forward, message)
        return 0
    for place in range(PyTuple_GET_SIZE(matches.forward)):
        subscription = <Subscription> PyTuple_GET_ITEM(matches.forward, place)
        if isAmongKinds(lane.reach, subscription.kind):
            giveLink(subscription, message, choice, lane.own.batch)
    if choice is not None:
        for place in range(PyList_GET_SIZE(choice.members)):
            if not choice.isServed(place, matches.forward):
                giveLink(
                    <Subscription> PyList_GET_ITEM(choice.members, place), message, choice,
                    lane.own.batch,
                )
        choice.clear()
    return 0


cdef bint isAllowedBy(LinkLane lane, const char* subject, Py_ssize_t length) except -1:
    """
    Whether a message may come from the leafnode.
    """
    cdef uint64_t hash = nb_hash(subject, length, SECRET)
    cdef PyObject* known = lane.verdicts.get(hash, subject, length)
    cdef bint answer
    if known != NULL:
        return <object> known is True
    text = PyBytes_FromStringAndSize(subject, length)
    answer = bool(lane.gate.allows(text))
    if length <= LONGEST_REMEMBERED:
        lane.verdicts.put(hash, text, True if answer else False, 1)
    return answer


cdef bint areElsewhere(
    LinkLane lane, tuple groups, const char* names, Py_ssize_t namesLength, bint isShared
) except -1:
    """
    Whether a group that was chosen has members behind links that may be the one.

    @param isShared: whether they may be that although there is a member here.
    """
    cdef bytes name
    for group in groups:
        if PyTuple_GET_SIZE(<tuple> (<tuple> group)[2]) == 0 or not (
            isShared or isDeserted(<tuple> (<tuple> group)[1])
        ):
            continue
        name = <bytes?> (<tuple> group)[0]
        if isNamed(names, namesLength, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)):
            return True
    return False


cdef int passOn(
    LinkLane lane,
    tuple forward,
    const InputMessage* message,
) except -1:
    """
    Put a message into the outboxes of the other links that it reaches, but not back to where it
    came from.
    """
    cdef Py_ssize_t place
    cdef Subscription subscription
    for place in range(PyTuple_GET_SIZE(forward)):
        subscription = <Subscription> PyTuple_GET_ITEM(forward, place)
        if not isAmongKinds(lane.reach, subscription.kind) or subscription.outbox is lane.own:
            continue
        if clusterOf(subscription) == lane.cluster and (
            lane.cluster or isForeignHub(lane, subscription)
        ):
            continue
        giveLink(
            subscription, message,
            None, lane.own.batch, originFor(lane, subscription),
        )
    return 0


cdef bint isForeignHub(LinkLane lane, Subscription subscription) except -1:
    """
    Whether a hub's message is for a hub in another account that imports it.
    """
    return lane.leaf == HUB and subscription.kind == HUB and hasattr(
        subscription.subscriber, "leafnode"
    )


cdef bytes originFor(LinkLane lane, Subscription subscription):
    """
    The origin cluster that a link gets with a message from the leafnode.
    """
    if lane.cluster and subscription.kind == ROUTE and getattr(
        subscription.subscriber, "takesOrigin", False
    ):
        return lane.origin
    return b""


cdef Subscription neighbourFor(Lane lane, tuple group):
    """
    As L{natsbroker.accounts.delivery.Delivery.neighbourFor}.
    """
    cdef tuple members = <tuple> group[2]
    cdef Py_ssize_t place, here = PyTuple_GET_SIZE(<tuple> group[1])
    cdef Subscription member
    cdef int64_t total = 0, number
    if not isAmongKinds(lane.reach, ROUTE):
        return None
    lane.batch.work += PyTuple_GET_SIZE(members) >> 2
    for place in range(PyTuple_GET_SIZE(members)):
        member = <Subscription> PyTuple_GET_ITEM(members, place)
        if member.distance == NEIGHBOUR and not member.isClosed:
            total += member.weight
    if total == 0:
        return None
    number = ((<uint64_t> anyNumber(lane) << 31) ^ anyNumber(lane)) % <uint64_t> (total + here)
    for place in range(PyTuple_GET_SIZE(members)):
        member = <Subscription> PyTuple_GET_ITEM(members, place)
        if member.distance == NEIGHBOUR and not member.isClosed:
            number -= member.weight
            if number < 0:
                return member
    return None


cdef list interestsOf(LinkLane lane):
    cdef Decoder decoder = lane.decoder
    cdef FlushBatch batch = lane.own.batch
    cdef const char* data = decoder.data
    cdef Py_ssize_t place, end, words, digits
    cdef Py_ssize_t starts[4]
    cdef Py_ssize_t lengths[4]
    cdef const char* found
    cdef bint isDedicated = PyBytes_GET_SIZE(lane.dedicated) > 0
    cdef bint isGroup
    cdef list interests = []
    if decoder.head is not None or decoder.fault is not None or decoder.skipping:
        return interests
    while len(interests) < MOST_INTERESTS and batch.work < batch.until:
        place = decoder.start + 4
        if decoder.stop < place or memcmp(data + decoder.start, b"RS+ ", 4) != 0:
            break
        found = <const char*> memchr(
            data + place, c"\n", min(decoder.stop - place, decoder.maxControlLine + 2)
        )
        if found == NULL:
            break
        end = found - data - 1
        if data[end] != c"\r" or end - place > decoder.maxControlLine:
            break
        words = 0
        while words < 4:
            starts[words] = place
            place = wordEnd(data, place, end)
            lengths[words] = place - starts[words]
            if lengths[words] == 0:
                break
            words += 1
            if place == end or data[place] != c" ":
                break
            place += 1
        if place != end or words + isDedicated not in (2, 4):
            break
        words -= 1
        weight = 0
        isGroup = words + isDedicated == 3
        if isGroup:
            digits = digitsBefore(data, starts[words], end)
            if digits != starts[words]:
                break
            weight = numberAt(data, digits, end)
            words -= 2
        interests.append((
            lane.dedicated if isDedicated
            else PyBytes_FromStringAndSize(data + starts[0], lengths[0]),
            b"",
            PyBytes_FromStringAndSize(data + starts[words], lengths[words]),
            PyBytes_FromStringAndSize(data + starts[words + 1], lengths[words + 1])
            if isGroup else b"",
            weight,
        ))
        decoder.start = end + 2
        batch.work += INTEREST
    return interests
