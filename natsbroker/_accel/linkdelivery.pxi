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
