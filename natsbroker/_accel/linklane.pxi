# The lane for messages of other servers.

@cython.final
@cython.no_gc_clear  # As for Outbox.
cdef class LinkLane:
    """
    The lane of one route, of one connection that another cluster dialled, or of one to a
    leafnode. It understands messages in their usual spelling whose receivers are connections with an
    outbox; it stops in front of everything else, without having done any of it. Of what a leafnode
    of another member sent it takes only what no leafnode here is to have. What comes over a
    route is passed on to leafnodes alone, and what comes from another cluster to other routes, but
    not if nobody wants it: then the sender is to be told. What comes from a leafnode is passed on
    to other leafnodes, and, if we are its hub, to routes; but never to the cluster that it is from.

    @ivar isShort: see L{natsbroker.pure.lane.Lane}.
    @ivar matchers: of the accounts that it may deliver in, by their names. A caller that replaces
        one calls L{forget}.
    @ivar advertisers: what sends another cluster the interest in each account
        (L{natsbroker.gateways.advertiser.GatewayAdvertiser}).
    """

    cdef readonly dict matchers, advertisers
    cdef readonly bint isShort
    cdef bytes settled
    cdef Matcher settledMatcher
    cdef uint64_t settledGeneration
    cdef Decoder decoder
    cdef Lane giver
    cdef bytes dedicated
    cdef bytes lastAccount
    cdef bint isGateway
    # The kinds of receivers that messages of this link reach, as bits.
    cdef uint32_t reach
    cdef Outbox own
    cdef int leaf
    # The subject of the current message as clients see it.
    cdef char shown[LONGEST_REPLY + 1]
    cdef bytes cluster, origin
    cdef object gate
    cdef Recent verdicts

    def __init__(
        self, Decoder decoder not None, Outbox outbox not None, bytes dedicated not None,
        bint isGateway=False, int leaf=0, bytes cluster not None=b"", gate=None,
    ):
        """
        @param dedicated: the account that the connection is dedicated to; empty for none.
        @param leaf: the kind of a leafnode, as an integer; 0 for none.
        @param gate: asked whether a message to a subject may come from the leafnode (C{allows});
            None for any.
        """
        self.own = outbox
        self.leaf = leaf
        self.cluster = cluster
        self.origin = cluster + b" " if cluster else b""
        self.gate = gate
        self.verdicts = Recent(VERDICTS)
        self.decoder = decoder
        self.isGateway = isGateway
        self.dedicated = dedicated
        self.matchers = {}
        self.advertisers = {}
        self.giver = Lane(decoder, outbox, Matcher(None, 1), None, False)
        self.giver.isFar = isGateway
        self.reach = self.giver.reach = MASKS[GATEWAY if isGateway else leaf or ROUTE]
        self.lastAccount = None

    def forget(self):
        """
        Deliver in no account until it is among the matchers again.
        """
        self.matchers.clear()
        self.advertisers.clear()
        self.lastAccount = None
        self.settled = None
        self.settledMatcher = None

    cdef Matcher matcherOf(self, const char* account, Py_ssize_t length):
        cdef bytes name
        if (
            self.lastAccount is None or PyBytes_GET_SIZE(self.lastAccount) != length
            or memcmp(PyBytes_AS_STRING(self.lastAccount), account, length) != 0
        ):
            name = PyBytes_FromStringAndSize(account, length)
            found = self.matchers.get(name)
            if found is None:
                return None
            self.giver.matcher = <Matcher?> found
            self.giver.lastLength = -1
            self.lastAccount = name
        return self.giver.matcher

    def forward(self):
        """
        Deliver the longest run of messages that is fully understood.

        @return: how many they were.
        """
        try:
            return self.take()
        finally:
            self.own.batch.settle()

    cdef Py_ssize_t take(self) except -1:
        cdef Decoder decoder = self.decoder
        cdef char* data = decoder.data
        cdef char reply[LONGEST_REPLY + 1]
        cdef Py_ssize_t mark
        cdef Py_ssize_t stop = decoder.stop
        cdef Py_ssize_t start, place, end, line, subject, rest, sizeAt, headerAt
        cdef Py_ssize_t size, header, length, replyLength, count = 0
        cdef Py_ssize_t limit = max(decoder.maxControlLine, 0)
        cdef Py_ssize_t largest = decoder.maxPayload
        cdef const char* found
        cdef Matcher matcher
        cdef Matches matches
        cdef Py_ssize_t names, namesLength
        cdef InputMessage message
        cdef Frames run
        cdef bint isHeader, isOfLeaf
        cdef bint isRoute = not self.isGateway and not self.leaf
        self.isShort = False
        if self.giver.leftMatches is not None:
            count = self.goOn()
            if count == 0:
                return 0
        if decoder.head is not None or decoder.fault is not None or decoder.skipping:
            return count
        while True:
            start = decoder.start
            if stop - start < 12 or self.own.batch.work >= self.own.batch.until:
                break
            isOfLeaf = False
            if memcmp(data + start, b"LMSG " if self.leaf else b"RMSG ", 5) == 0:
                isHeader = False
            elif memcmp(data + start, b"LMSG ", 5) == 0 and not self.isGateway:
                isHeader = isOfLeaf = True
            elif memcmp(data + start, b"HMSG ", 5) == 0:
                isHeader = True
            else:
                break
            subject = start + 5
            found = <const char*> memchr(data + subject, c"\n", min(stop - subject - 2, limit) + 2)
            if found == NULL:
                break
            line = found - data
            end = line - 1
            if data[end] != c"\r" or end - subject > limit:
                break
            if isOfLeaf:
                found = <const char*> memchr(data + subject, c" ", end - subject)
                if found == NULL or found == data + subject:
                    break
                subject = found - data + 1
            if PyBytes_GET_SIZE(self.dedicated):
                matcher = self.matcherOf(
                    PyBytes_AS_STRING(self.dedicated), PyBytes_GET_SIZE(self.dedicated)
                )
            else:
                found = <const char*> memchr(data + subject, c" ", end - subject)
                if found == NULL or found == data + subject:
                    break
                matcher = self.matcherOf(data + subject, found - data - subject)
                subject = found - data + 1
            if matcher is None or matcher.needsSlowPath:
                break
            found = <const char*> memchr(data + subject, c" ", end - subject)
            if found == NULL or found == data + subject:
                break
            length = found - data - subject
            if isReserved(data + subject, length):
                break
            if self.leaf and (
                matcher.mapSubject is not None
                or (self.gate is not None and not isAllowedBy(self, data + subject, length))
            ):
                break
            rest = subject + length + 1
            sizeAt = digitsBefore(data, rest, end)
            if sizeAt < 0:
                break
            size = numberAt(data, sizeAt, end)
            header = 0
            headerAt = sizeAt
            if isHeader:
                if sizeAt - 1 <= rest:
                    break
                headerAt = digitsBefore(data, rest, sizeAt - 1)
                if headerAt < 0:
                    break
                header = numberAt(data, headerAt, sizeAt - 1)
                if header > size or (header == 0 and not (isOfLeaf and sizeAt - headerAt == 2)):
                    break
            if 0 <= largest < size:
                break
            # Between subject and sizes there is nothing, a reply, or queue groups behind a mark.
            replyLength = headerAt - 1 - rest
            names = rest
            namesLength = 0
            mark = -1
            if replyLength >= 0:
                place = wordEnd(data, rest, rest + replyLength)
                if place < rest + replyLength:
                    names, namesLength = place + 1, rest + replyLength - place
                    if place != rest + 1 or data[place] != c" " or not areWords(data, names, headerAt - 1):
                        break
                    replyLength = -1
                    if data[rest] == c"+":
                        replyLength = wordEnd(data, names, headerAt - 1) - names
                        if replyLength > LONGEST_REPLY:
                            break
                    elif data[rest] != c"|":
                        break
                elif replyLength == 0:
                    break
                # A reply subject that leads back to another cluster is not sent to clients.
                if replyLength > 0 and isReserved(data + names, replyLength):
                    break
                mark = streamSubjectMark(data + names, replyLength)
                if mark > 0 and replyLength > LONGEST_REPLY:
                    break
            end = line + 1 + size + 2
            if end > stop:
                # The decoder reports at once two bytes that cannot become a CRLF any more.
                self.isShort = end > stop + 1 or data[end - 2] == c"\r"
                break
            if data[end - 2] != c"\r" or data[end - 1] != c"\n":
                break
            if header and isForReadablePath(data + line + 1, header, matcher.tracesParents):
                break
            matches = self.giver.matchesOf(data + subject, length)
            if not self.isServed(matches, namesLength, header) and not (
                namesLength and self.isGateway and self.isGroupsOnly(matches, header)
                and self.isSettled(matcher, data + subject, length)
            ):
                break
            if isOfLeaf and isAmongKinds(matches.kinds, SPOKE):
                break
            if namesLength and not self.isGateway and areElsewhere(
                self, matches.groups, data + names, namesLength,
                self.leaf or isAmongKinds(matches.kinds, SPOKE),
            ):
                break
            # Other brokers get the original reply, but clients do not.
            if mark > 0 and (isAmongKinds(matches.kinds, SPOKE) or (
                (self.isGateway or self.leaf) and (
                    PyTuple_GET_SIZE(matches.forward)
                    or areElsewhere(self, matches.groups, data + names, namesLength, True)
                )
            )):
                break
            if namesLength:
                rest = headerAt
                if replyLength >= 0:
                    # The reply is moved to the place in front of the sizes.
                    rest -= replyLength + 1
                    namesLength -= replyLength + 1
                    memcpy(reply, data + names, replyLength + 1)
                    memmove(data + names, data + names + replyLength + 1, namesLength)
                    memcpy(data + rest, reply, replyLength + 1)
            if isOfLeaf and header == 0:
                # Clients get no size of headers if there are no headers.
                memmove(data + rest + 2, data + rest, headerAt - rest)
                rest += 2
            self.giver.shownLength = 0
            if mark > 0:
                self.giver.shown = self.shown
                self.giver.shownLength = place = replyLength - mark - 1
                memcpy(self.shown, data + rest + mark + 1, place)
                memmove(data + rest + place + 1, data + rest, mark)
                rest += place + 1
                replyLength = mark
            if matches.isLarge:
                self.giver.begin(
                    matches, None, subject, length, rest, end, line + 1 - rest, header,
                    replyLength, size, names, namesLength,
                )
                if not self.goOn():
                    break
                count += 1
                continue
            message.subject = data + subject
            message.length = length
            message.rest = data + rest
            message.restLength = end - rest
            message.lineLength = line + 1 - rest
            message.header = header
            message.replyLength = replyLength
            self.deliver(matches, &message, data + names, namesLength)
            decoder.start = end
            decoder.messages += 1
            decoder.messageBytes += size
            count += 1
            if (
                matches.areApart and isRoute and not isOfLeaf and not namesLength and mark < 0
                and not isAmongKinds(matches.kinds, SPOKE) and self.own.batch.work < self.own.batch.until
                and 2 * end - start <= stop and end - rest < LEAST_LENT
                and nb_same(data + start, data + end, line + 1 - start)
            ):
                beginRun(&run, data + start, line + 1 - start, end - start, &message)
                count += self.giver.repeat(&run, matches, stop - start, size, False, True)
        return count

    cdef Py_ssize_t goOn(self) except -1:
        """
        Deliver the message with many receivers, as far as the batch's share goes.

        @return: 1 if that was all of it; 0 if receivers are left.
        """
        cdef Lane giver = self.giver
        cdef Unfinished* left = &giver.left
        cdef Matches matches = giver.leftMatches
        cdef Decoder decoder = self.decoder
        cdef InputMessage message
        giver.resumed(&message)
        if not giveMany(giver, &message, True):
            return 0
        giver.leftMatches = None
        deliverToOthers(self, matches, &message, giver.choice)
        decoder.start += left.end
        decoder.messages += 1
        decoder.messageBytes += left.size
        return 1

    def complete(self):
        cdef FlushBatch batch = self.own.batch
        cdef int64_t until = batch.until
        if self.giver.leftMatches is not None:
            batch.until = UNLIMITED
            try:
                self.goOn()
            finally:
                batch.until = until
                batch.settle()

    def interests(self):
        """
        Read the RS+ lines that come next, in their usual spelling, as far as the batch's share goes.

        @return: what L{natsbroker.wire.dialects.route.LinkInterest} consists of, for each.
        """
        return interestsOf(self)

    cdef bint isGroupsOnly(self, Matches matches, Py_ssize_t header) except -1:
        """
        Whether only members of queue groups may want a message, and the lane can serve them.
        """
        return (
            PyTuple_GET_SIZE(matches.plain) == 0 and matches.areGroupsDirect
            and matches.areRoutesDirect and not matches.kinds & (1 << SPOKE | 1 << HUB)
            and not (header and not takesHeaders(matches.reachable))
        )

    cdef bint isSettled(self, Matcher matcher, const char* subject, Py_ssize_t length) except -1:
        """
        Whether there is nothing to tell the sender of what no plain subscription wants: it was told
        that, or gets everything. What it was told last is remembered while interest is the same.
        """
        cdef bytes text = self.settled
        if (
            text is not None and self.settledMatcher is matcher
            and self.settledGeneration == matcher.generation
            and PyBytes_GET_SIZE(text) == length
            and memcmp(PyBytes_AS_STRING(text), subject, length) == 0
        ):
            return True
        advertiser = self.advertisers.get(self.lastAccount)
        if advertiser is None:
            return False
        text = PyBytes_FromStringAndSize(subject, length)
        if not advertiser.isAll and text not in advertiser.refused:
            return False
        self.settled = text
        self.settledMatcher = matcher
        self.settledGeneration = matcher.generation
        return True

    cdef bint isServed(self, Matches matches, Py_ssize_t namesLength, Py_ssize_t header) except -1:
        """
        Whether the lane can give a message to all who are to have it, and there is somebody.
        """
        cdef Py_ssize_t place
        cdef Subscription subscription
        if not matches.isPlainDirect or (namesLength and not matches.areGroupsDirect):
            return False
        if matches.kinds & HERE & ~self.reach:
            return False
        if self.leaf:
            return not isAmongKinds(matches.kinds, GATEWAY) and matches.areLinksDirect and not (
                (self.cluster and matches.isMixed)
                or (header and not takesHeaders(matches.forward))
            )
        if isAmongKinds(matches.kinds, SPOKE) and (
            self.isGateway or not matches.areLinksDirect
            or (header and not takesHeaders(matches.forward))
        ):
            return False
        if not self.isGateway:
            return True
        if isAmongKinds(matches.kinds, HUB) or not matches.areRoutesDirect or (
            header and not takesHeaders(matches.reachable)
        ):
            return False
        if PyTuple_GET_SIZE(matches.plain):
            return True
        for place in range(PyTuple_GET_SIZE(matches.forward)):
            subscription = <Subscription> PyTuple_GET_ITEM(matches.forward, place)
            if isAmongKinds(self.reach, subscription.kind):
                return True
        return False

    cdef int deliver(
        self,
        Matches matches,
        const InputMessage* message,
        const char* names,
        Py_ssize_t namesLength,
    ) except -1:
        """
        Put a message into its receivers' outboxes.

        @param names: the queue groups, each with a space behind it.
        """
        cdef Py_ssize_t place
        cdef bytes name
        cdef Choice choice = None
        cdef Subscription subscription
        self.own.batch.work += 2 + matches.receivers * (1 + (message.restLength >> BYTES))
        for place in range(PyTuple_GET_SIZE(matches.plain)):
            giveTo(self.giver, <Subscription> PyTuple_GET_ITEM(matches.plain, place), message)
        if namesLength:
            for group in matches.groups:
                name = <bytes?> (<tuple> group)[0]
                if not isNamed(names, namesLength, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)):
                    continue
                subscription = None
                if self.isGateway and matches.areShared:
                    subscription = neighbourFor(self.giver, <tuple> group)
                if (
                    subscription is None
                    and not giveMember(self.giver, <tuple> (<tuple> group)[1], message)
                    and self.isGateway
                ):
                    subscription = chosenOf(self.giver, <tuple> (<tuple> group)[2])
                if subscription is not None:
                    if choice is None:
                        choice = nextChoice(self.giver)
                    choice.add(subscription, name)
        return deliverToOthers(self, matches, message, choice)
