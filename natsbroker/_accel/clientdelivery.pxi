# The steps of a Lane for a message with receivers, and for an acknowledgement.


cdef bint deliverOne(
    Lane lane,
    Matches matches,
    const InputMessage* message,
) except -1:
    """
    Put a message into its receivers' outboxes.

    @return: false if nobody got it and the publisher wants to be told.
    """
    cdef Py_ssize_t place
    cdef Subscription subscription
    cdef Choice choice = None
    cdef tuple members
    cdef bint reached = False
    lane.batch.work += 2 + matches.receivers * (1 + (message.restLength >> BYTES))
    for place in range(PyTuple_GET_SIZE(matches.plain)):
        subscription = <Subscription> PyTuple_GET_ITEM(matches.plain, place)
        if giveTo(lane, subscription, message):
            reached = True
    for group in matches.groups:
        subscription = neighbourFor(lane, <tuple> group) if matches.areShared else None
        if subscription is None:
            if giveMember(lane, <tuple> (<tuple> group)[1], message):
                reached = True
                continue
            members = <tuple> (<tuple> group)[2]
            if PyTuple_GET_SIZE(members):
                subscription = chosenOf(lane, members)
        if subscription is not None:
            if choice is None:
                choice = nextChoice(lane)
            choice.add(subscription, <bytes?> (<tuple> group)[0])
    return deliverElsewhere(
        lane, matches, message, choice,
        reached,
    )


cdef bint deliverElsewhere(
    Lane lane,
    Matches matches,
    const InputMessage* message,
    Choice choice,
    bint reached,
) except -1:
    """
    Put a message into the outboxes of links.

    @param choice: the links for groups without a member here; None for none.
    @param reached: whether anybody had it already.
    @return: as L{deliverOne}.
    """
    cdef Py_ssize_t place
    cdef Subscription subscription
    for place in range(PyTuple_GET_SIZE(matches.forward)):
        subscription = <Subscription> PyTuple_GET_ITEM(matches.forward, place)
        if giveLink(
            subscription, message,
            choice, lane.batch,
        ):
            reached = True
    if choice is None:
        return reached or message.replyLength < 0 or not lane.noResponders
    for place in range(PyList_GET_SIZE(choice.members)):
        subscription = <Subscription> PyList_GET_ITEM(choice.members, place)
        if not choice.isServed(place, matches.forward) and giveLink(
            subscription, message, choice, lane.batch
        ):
            reached = True
    choice.clear()
    return reached or message.replyLength < 0 or not lane.noResponders


cdef Choice nextChoice(Lane lane):
    if lane.choice is None:
        lane.choice = Choice()
    lane.choice.clear()
    return lane.choice


cdef inline uint32_t anyNumber(Lane lane) noexcept:
    lane.random ^= lane.random << 13
    lane.random ^= lane.random >> 17
    lane.random ^= lane.random << 5
    return lane.random


cdef Subscription chosenOf(Lane lane, tuple members):
    """
    One of a group's members elsewhere, each as likely as it is heavy, or None. Nearer ones come
    before others: those of other clusters last.
    """
    cdef Py_ssize_t place
    cdef Subscription member
    cdef int nearest = FARTHEST
    cdef int64_t total = 0, number
    lane.batch.work += PyTuple_GET_SIZE(members) >> 2
    for place in range(PyTuple_GET_SIZE(members)):
        member = <Subscription> PyTuple_GET_ITEM(members, place)
        if (
            member.isClosed or member.distance > nearest
            or not isAmongKinds(lane.reach, member.kind)
        ):
            continue
        if member.distance < nearest:
            nearest = member.distance
            total = 0
        total += member.weight
    if total == 0:
        return None
    number = ((<uint64_t> anyNumber(lane) << 31) ^ anyNumber(lane)) % <uint64_t> total
    for place in range(PyTuple_GET_SIZE(members)):
        member = <Subscription> PyTuple_GET_ITEM(members, place)
        if (
            not member.isClosed and member.distance == nearest
            and isAmongKinds(lane.reach, member.kind)
        ):
            number -= member.weight
            if number < 0:
                return member
    return None


cdef bint giveMember(
    Lane lane,
    tuple members,
    const InputMessage* message,
) except -1:
    """
    Put a message into the outbox of any member of a group here.

    @return: whether one took it.
    """
    cdef Py_ssize_t place, total = PyTuple_GET_SIZE(members), begin = 0
    if total > 1:
        begin = anyNumber(lane) % total
    for place in range(total):
        if giveTo(
            lane, <Subscription> PyTuple_GET_ITEM(members, (begin + place) % total), message,
        ):
            return True
        lane.batch.work += 1
    return False


cdef bint giveTo(
    Lane lane,
    Subscription subscription,
    const InputMessage* message,
) except -1:
    """
    Put a message into one receiver's outbox.

    @return: whether it took it.
    """
    cdef Outbox outbox
    cdef const char* subject = message.subject
    cdef Py_ssize_t length = message.length
    cdef Py_ssize_t restLength = message.restLength
    cdef const char* sid
    cdef Py_ssize_t sidLength, total
    cdef bint isLent
    cdef char* out
    if subscription.isShadow:
        return giveShadow(lane, <Shadow> subscription, message)
    if subscription.outbox is None:
        return giveBatcher(lane, subscription, message)
    outbox = <Outbox?> subscription.outbox
    if subscription.isClosed or outbox.closed or (outbox is lane.outbox and not outbox.echo):
        return False
    if subscription.permissions is not None and not subscription.permissions.mayDeliver(
        PyBytes_FromStringAndSize(subject, length), subscription.queue
    ):
        return False
    if lane.shownLength:
        subject, length = lane.shown, lane.shownLength
    if message.header and not outbox.headers:
        giveStripped(lane, subscription, subject, length, message)
    else:
        sid = PyBytes_AS_STRING(<bytes?> subscription.tag)
        sidLength = PyBytes_GET_SIZE(<bytes?> subscription.tag)
        total = (5 if message.header else 4) + length + 1 + sidLength + 1
        isLent = outbox.mayBorrow(restLength, lane.batch)
        if not isLent:
            total += restLength
        out = outbox.reserve(total)
        if out == NULL:
            return False
        if message.header:
            memcpy(out, b"HMSG ", 5)
            out += 5
        else:
            memcpy(out, b"MSG ", 4)
            out += 4
        memcpy(out, subject, length)
        out += length
        out[0] = c" "
        out += 1
        memcpy(out, sid, sidLength)
        out += sidLength
        out[0] = c" "
        out += 1
        if isLent:
            outbox.borrow(out, message.rest, restLength)
        else:
            memcpy(out, message.rest, restLength)
        outbox.grown(total)
        outbox.messages += 1
        outbox.messageBytes += restLength - message.lineLength - 2
    subscription.delivered += 1
    if subscription.maximum and subscription.delivered >= subscription.maximum:
        subscription.owner.subscriptionFinished(subscription)
    return True


cdef bint giveShadow(
    Lane lane,
    Shadow shadow,
    const InputMessage* message,
) except -1:
    """
    The same for a subscription of another account, which may call the subject something else.
    """
    cdef bytes name
    cdef InputMessage renamed
    if shadow.isClosed:
        return False
    if shadow.rename is not None:
        name = shadow.nameOf(message.subject, message.length)
        renamed = message[0]
        renamed.subject = PyBytes_AS_STRING(name)
        renamed.length = PyBytes_GET_SIZE(name)
        message = &renamed
    shadow.delivered += 1
    return giveTo(lane, shadow.original, message)


cdef bint giveBatcher(
    Lane lane,
    Subscription subscription,
    const InputMessage* message,
) except -1:
    """
    The same for a service that gets its messages at the end of the batch.
    """
    cdef const char* rest = message.rest
    cdef Py_ssize_t replyLength = message.replyLength
    cdef Py_ssize_t bodyLength = message.restLength - message.lineLength - 2
    cdef bytes reply = b""
    cdef const char* sizes = rest
    if subscription.isClosed:
        return False
    if type(subscription.subscriber) is Collector:
        (<Collector> subscription.subscriber).put(
            message.subject, message.length, rest, max(replyLength, 0),
            rest + message.lineLength, bodyLength, message.header, lane.origin,
            subscription.tag,
        )
        countFor(lane, subscription)
        return True
    if replyLength > 0:
        reply = lane.lastReply
        if PyBytes_GET_SIZE(reply) != replyLength or memcmp(
            PyBytes_AS_STRING(reply), rest, replyLength
        ):
            reply = lane.lastReply = PyBytes_FromStringAndSize(rest, replyLength)
        sizes += replyLength + 1
    headerText, sizeText = b"", PyBytes_FromStringAndSize(
        sizes, rest + message.lineLength - 2 - sizes
    )
    if message.header:
        headerText, _, sizeText = sizeText.partition(b" ")
    made = Message(
        PyBytes_FromStringAndSize(message.subject, message.length),
        PyBytes_FromStringAndSize(rest + message.lineLength, bodyLength),
        reply,
        message.header,
        lane.origin,
        sizeText,
        headerText,
    )
    subscription.subscriber.deliver(made, subscription.tag)
    countFor(lane, subscription)
    return True


cdef inline int countFor(Lane lane, Subscription subscription) except -1:
    subscription.delivered += 1
    if subscription.maximum and subscription.delivered >= subscription.maximum:
        subscription.owner.subscriptionFinished(subscription)
    return 0


cdef int giveStripped(
    Lane lane,
    Subscription subscription,
    const char* subject,
    Py_ssize_t length,
    const InputMessage* message,
) except -1:
    """
    The same for a receiver without headers: they are left out.

    @param subject: what the receiver sees as the subject.
    """
    cdef Outbox outbox = <Outbox?> subscription.outbox
    cdef Py_ssize_t size = message.restLength - message.lineLength - 2 - message.header
    reply = (
        b" " + message.rest[:message.replyLength] if message.replyLength > 0 else b""
    )
    outbox.write(
        b"MSG %b %b%b %d\r\n%b\r\n"
        % (
            subject[:length],
            subscription.tag,
            reply,
            size,
            PyBytes_FromStringAndSize(message.rest + message.lineLength + message.header, size),
        )
    )
    outbox.messages += 1
    outbox.messageBytes += size
    return 0


cdef bint giveMany(Lane lane, const InputMessage* message, bint isLink) except -1:
    """
    Put the message with many receivers into the outboxes of those that are no links, and choose
    links for groups without a member here.

    @param isLink: whether it came over a link, so that groups have to be named, and are served
        elsewhere only if L{far} says so.
    @return: whether all of them had their chance.
    """
    cdef Unfinished* left = &lane.left
    cdef Matches matches = lane.leftMatches
    cdef FlushBatch batch = lane.batch
    cdef const char* data = lane.decoder.data + lane.decoder.start
    cdef Py_ssize_t plain = PyTuple_GET_SIZE(matches.plain)
    cdef Py_ssize_t groups = PyTuple_GET_SIZE(matches.groups)
    cdef int64_t cost = 1 + (left.restLength >> BYTES)
    cdef Subscription subscription
    cdef tuple group
    cdef bytes text
    if isLink and not left.namesLength:
        groups = 0
    while left.served < plain + groups:
        if left.served % STRIDE == 0 and batch.work >= batch.until:
            return False
        batch.work += cost
        left.served += 1
        if left.served <= plain:
            subscription = <Subscription> PyTuple_GET_ITEM(matches.plain, left.served - 1)
            if giveTo(lane, subscription, message):
                left.isReached = True
            elif hasEnded(subscription):
                left.ended += 1
            continue
        group = <tuple> PyTuple_GET_ITEM(matches.groups, left.served - plain - 1)
        text = <bytes?> group[0]
        if isLink and not isNamed(
            data + left.names, left.namesLength, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
        ):
            continue
        subscription = None
        if matches.areShared and (not isLink or lane.isFar):
            subscription = neighbourFor(lane, group)
        if subscription is None:
            if giveMember(lane, <tuple> group[1], message):
                left.isReached = True
            elif PyTuple_GET_SIZE(<tuple> group[2]) and (not isLink or lane.isFar):
                subscription = chosenOf(lane, <tuple> group[2])
        if subscription is not None:
            if lane.choice is None:
                lane.choice = Choice()
            lane.choice.add(subscription, text)
    if left.ended > STRIDE and 2 * left.ended > plain:
        # Spare the next message the receivers that have ended.
        matches.epoch -= 1
        lane.matcher.generation += 1
    return True


cdef bint acknowledge(Lane lane, Py_ssize_t subject, Py_ssize_t line, Py_ssize_t stop) except -1:
    """
    Give a consumer an acknowledgement that settles one delivery, if this is one.

    @param line: where the line has its LF.
    @return: false if it is left to the way of other messages.
    """
    cdef Decoder decoder = lane.decoder
    cdef const char* data = decoder.data
    cdef const char* at
    cdef const char* end = data + line - 1
    cdef uint64_t numbers[ACK_NUMBERS]
    cdef int index
    cdef Py_ssize_t size, after
    cdef bytes prefix, reply = b""
    cdef Subscription subscription
    # The size is 0, or that of +ACK.
    size = (end - 1)[0] - c"0"
    if (end - 2)[0] != c" " or not (size == 0 or size == 4) or 0 <= decoder.maxPayload < size:
        return False
    after = line + 1 + size + 2
    if (
        after > stop or data[after - 2] != c"\r" or data[after - 1] != c"\n"
        or (size and memcmp(data + line + 1, b"+ACK", 4) != 0)
    ):
        return False
    prefix = lane.ackPrefix
    if (
        prefix is None or lane.ackGeneration != lane.matcher.generation
        or PyBytes_GET_SIZE(prefix) >= end - data - subject
        or memcmp(PyBytes_AS_STRING(prefix), data + subject, PyBytes_GET_SIZE(prefix)) != 0
    ):
        if not findConsumer(lane, data + subject, end):
            return False
        prefix = lane.ackPrefix
    subscription = lane.ackSubscription
    if subscription is None or subscription.isClosed:
        return False
    at = data + subject + PyBytes_GET_SIZE(prefix)
    for index in range(ACK_NUMBERS):
        at = readDigits(at, end, &numbers[index])
        if at == NULL or at[0] != (c"." if index < ACK_NUMBERS - 1 else c" "):
            return False
        at += 1
    if numbers[1] == 0:
        return False
    if at < end - 1:
        end -= 2
        if wordEnd(data, at - data, end - data) != end - data or isReservedReply(at, end - at):
            return False
        reply = PyBytes_FromStringAndSize(at, end - at)
    lane.batch.work += 2
    (<AckCollector> subscription.subscriber).put(
        numbers[0], numbers[1], numbers[2], reply, subscription.tag
    )
    subscription.delivered += 1
    decoder.start = after
    decoder.messages += 1
    decoder.messageBytes += size
    return True


cdef bint findConsumer(Lane lane, const char* subject, const char* end) except -1:
    """
    Find the consumer whose acknowledgement subject this is. That of all such subjects of it the
    same is true is known of a subject index as long as no subscription names numbers.
    """
    cdef const char* at = subject + 8
    cdef int token
    cdef bytes prefix, pattern
    cdef Matches matches
    cdef Subscription subscription
    for token in range(2):
        at = <const char*> memchr(at, c".", end - at)
        if at == NULL:
            return False
        at += 1
    prefix = PyBytes_FromStringAndSize(subject, at - subject)
    lane.ackPrefix = prefix
    lane.ackGeneration = lane.matcher.generation
    lane.ackSubscription = None
    if (
        lane.origin is None or lane.matcher.hasUnevenAcks
        or lane.matcher.mapSubject is not None or lane.matcher.counterFor is not None
        or not getattr(lane.matcher.router, "hasPlainRules", False)
    ):
        return True
    pattern = prefix + b"*.*.*.*.*"
    if lane.permissions is not None and not lane.permissions.allowsAll(pattern):
        return True
    canonical = prefix + b"1.1.1.1.1"
    matches = lane.matcher.match(canonical)
    if (
        not matches.fast or matches.kinds & ~lane.reach or matches.counter is not None
        or matches.groups or matches.links or PyTuple_GET_SIZE(matches.plain) != 1
    ):
        return True
    subscription = <Subscription> PyTuple_GET_ITEM(matches.plain, 0)
    if (
        not subscription.isShadow and not subscription.maximum
        and subscription.permissions is None and subscription.pattern == pattern
        and type(subscription.subscriber) is AckCollector
    ):
        lane.ackSubscription = subscription
    return True
