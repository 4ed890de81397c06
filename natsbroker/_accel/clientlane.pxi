# The lane: a step in front of the readable path, which may decline a message.

cdef enum:
    # The shortest acknowledgement subject, and a size behind it.
    LEAST_ACK = 21

# A message that some of its receivers have not got yet, and the offsets of its parts in the input.
cdef struct Unfinished:
    Py_ssize_t subject, length, rest, restLength, lineLength, header, replyLength, end, size
    Py_ssize_t names, namesLength
    # The number of receivers and groups that were tried, the number of ended ones among them, and
    # whether one took the message.
    Py_ssize_t served, ended
    bint isReached


@cython.final
@cython.no_gc_clear  # As for Outbox.
cdef class Lane:
    """
    The lane of one connection. It understands publishes in their usual spelling whose
    receivers are connections with an outbox or batchers, and whose permission it can check as data;
    it stops in front of everything else, without having done any of it.

    @ivar isShort: see L{natsbroker.pure.lane.Lane}.
    """

    cdef Decoder decoder
    cdef Outbox outbox
    cdef FlushBatch batch
    cdef Matcher matcher
    cdef object permissions
    cdef bint noResponders
    cdef object origin
    cdef bytes lastReply
    cdef Recent verdicts
    # The destinations of the account's mappings, and the mappings from which they were made.
    cdef Recent routes
    cdef object mapSubject
    cdef Choice choice
    cdef uint32_t random
    # The subject of the last message, its matches while they are valid, and its destination if it
    # was mapped.
    cdef char lastSubject[SHORT]
    cdef Py_ssize_t lastLength
    cdef bytes lastName
    cdef Matches lastMatches
    cdef uint64_t lastGeneration
    # The subject that clients see instead of that of the message, if its length is not 0.
    cdef const char* shown
    cdef Py_ssize_t shownLength
    cdef readonly bint isShort
    # The message that is being delivered to many receivers, and its matches, until the last one.
    cdef Unfinished left
    cdef Matches leftMatches
    cdef bytes leftName
    # Whether members at other brokers may be chosen for groups that a link names.
    cdef bint isFar
    # The kinds of receivers that the messages reach, as bits.
    cdef uint32_t reach
    # The subjects of the latest acknowledgement's consumer, without their numbers, and its
    # subscription: None if the readable path serves it.
    cdef bytes ackPrefix
    cdef Subscription ackSubscription
    cdef uint64_t ackGeneration

    def __init__(
        self,
        Decoder decoder not None,
        Outbox outbox not None,
        Matcher matcher not None,
        permissions,
        bint noResponders,
        origin=None,
    ):
        """
        @param origin: whose messages they are; without one, batchers are left to the readable path.
        """
        self.decoder = decoder
        self.outbox = outbox
        self.batch = outbox.batch
        self.matcher = matcher
        self.permissions = permissions
        self.noResponders = noResponders
        self.origin = origin
        self.reach = MASKS[CLIENT_KIND]
        self.lastReply = b""
        self.verdicts = Recent(VERDICTS)
        self.random = <uint32_t> (SECRET ^ <uint64_t> <size_t> <PyObject*> self) | 1
        self.lastLength = -1

    def forward(self):
        """
        Forward the longest run of publishes that is fully understood.

        @return: how many they were.
        """
        return self.run()

    cdef Py_ssize_t run(self) except -1:
        try:
            return self.take()
        finally:
            self.batch.settle()

    cdef Py_ssize_t take(self) except -1:
        cdef Decoder decoder = self.decoder
        cdef const char* data = decoder.data
        cdef Py_ssize_t stop = decoder.stop
        cdef Py_ssize_t start, place, end, line, subject, rest, sizeAt, headerAt, reply
        cdef Py_ssize_t size, header, length, replyLength, count = 0
        cdef Py_ssize_t limit = max(decoder.maxControlLine, 0)
        cdef Py_ssize_t largest = decoder.maxPayload
        cdef const char* found
        cdef const char* name
        cdef Py_ssize_t nameLength
        cdef bytes mapped
        cdef Matches matches
        cdef Frames run
        cdef InputMessage message
        cdef bint isHeader
        self.isShort = False
        if self.leftMatches is not None:
            count = self.goOn()
            if count == 0:
                return 0
        if decoder.head is not None or decoder.fault is not None or decoder.skipping:
            return count
        if self.matcher.needsSlowPath:
            return count
        while True:
            start = decoder.start
            if stop - start < 12:
                self.isShort = stop == start
                break
            if self.batch.work >= self.batch.until:
                break
            # The operation, followed by exactly one space.
            if (data[start] | 32) == c"p":
                if (data[start + 1] | 32) != c"u" or (data[start + 2] | 32) != c"b" or (
                    data[start + 3] != c" "
                ):
                    break
                subject = start + 4
                isHeader = False
            elif (data[start] | 32) == c"h":
                if (
                    (data[start + 1] | 32) != c"p" or (data[start + 2] | 32) != c"u"
                    or (data[start + 3] | 32) != c"b" or data[start + 4] != c" "
                    or not decoder.headers
                ):
                    break
                subject = start + 5
                isHeader = True
            else:
                break
            # The line: CRLF within the limit.
            found = <const char*> memchr(
                data + subject, c"\n", min(stop - subject - 2, limit) + 2
            )
            if found == NULL:
                break
            line = found - data
            end = line - 1
            if data[end] != c"\r" or end - subject > limit:
                break
            if (
                data[subject] == c"$" and not isHeader and end - subject > LEAST_ACK
                and memcmp(data + subject, b"$JS.ACK.", 8) == 0
                and acknowledge(self, subject, line, stop)
            ):
                count += 1
                continue
            # The subject, which is mostly that of the previous message.
            length = self.lastLength
            if (
                length > 0 and subject + length < end and data[subject + length] == c" "
                and memcmp(self.lastSubject, data + subject, length) == 0
                and self.lastGeneration == self.matcher.generation
            ):
                matches = self.lastMatches
                mapped = self.lastName
            else:
                found = <const char*> memchr(data + subject, c" ", end - subject)
                if found == NULL or found == data + subject:
                    break
                length = found - data - subject
                mapped = None
                if self.matcher.mapSubject is not None:
                    mapped = self.destination(data + subject, length)
                    if mapped is None:
                        break
                matches = self.allowed(data + subject, length, mapped)
                if matches is None:
                    break
            if (
                not matches.fast or matches.kinds & ~self.reach
                or (matches.hasBatcher and self.origin is None)
            ):
                break
            name = data + subject
            nameLength = length
            if mapped is not None:
                name = PyBytes_AS_STRING(mapped)
                nameLength = PyBytes_GET_SIZE(mapped)
            # The sizes are read from the end. The word between subject and sizes is the reply.
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
                if header == 0 or header > size:
                    break
            if 0 <= largest < size:
                break
            replyLength = headerAt - 1 - rest
            if replyLength >= 0:
                if replyLength == 0 or isReservedReply(data + rest, replyLength):
                    break
                place = rest
                while place < rest + replyLength and data[place] > 32 and data[place] != 127:
                    place += 1
                # Bytes above 127 are negative here and end the loop, but are valid.
                while place < rest + replyLength and (
                    data[place] < 0 or (data[place] > 32 and data[place] != 127)
                ):
                    place += 1
                if place < rest + replyLength:
                    break
                if isAmongKinds(matches.kinds, GATEWAY) and self.isFresh(data + rest, replyLength):
                    break
            # The payload, whole, with its CRLF.
            end = line + 1 + size + 2
            if end > stop:
                # The decoder reports at once two bytes that cannot become a CRLF any more.
                self.isShort = end > stop + 1 or data[end - 2] == c"\r"
                break
            if data[end - 2] != c"\r" or data[end - 1] != c"\n":
                break
            if header and (
                not takesHeaders(matches.reachable)
                or isForReadablePath(data + line + 1, header, self.matcher.tracesParents)
            ):
                break
            if matches.isLarge:
                self.begin(
                    matches, mapped, subject, length, rest, end, line + 1 - rest, header,
                    replyLength, size,
                )
                if not self.goOn():
                    break
                count += 1
                continue
            message.subject = name
            message.length = nameLength
            message.rest = data + rest
            message.restLength = end - rest
            message.lineLength = line + 1 - rest
            message.header = header
            message.replyLength = replyLength
            if not deliverOne(self, matches, &message):
                break
            self.delivered(matches, end, size)
            count += 1
            if (
                matches.isRunnable and self.batch.work < self.batch.until
                and 2 * end - start <= stop and end - rest < LEAST_LENT
                and nb_same(data + start, data + end, line + 1 - start)
            ):
                beginRun(&run, data + start, line + 1 - start, end - start, &message)
                count += self.repeat(&run, matches, stop - start, size, replyLength >= 0)
        return count

    cdef Py_ssize_t repeat(
        self, Frames* run, Matches matches, Py_ssize_t available, Py_ssize_t size, bint hasReply,
        bint isLink=False,
    ) except -1:
        """
        Forward what follows a publish and has the same line.

        @param available: how many bytes there are, from where the first one begins.
        @param size: of each one's headers and payload.
        @param isLink: whether it came over a link, so that it goes to no other, and counts there.
        @return: how many that were: none if something may happen in the middle of it.
        """
        cdef Decoder decoder = self.decoder
        cdef FlushBatch batch = self.batch
        cdef int64_t cost = 2 + matches.receivers * (1 + (run.whole >> BYTES))
        cdef Py_ssize_t most = min(RUN_SIZE, batch.until - batch.work) * CHEAPER // cost + 1
        cdef bint isReached = not (hasReply and self.noResponders)
        if self.lastMatches is not matches or self.lastGeneration != self.matcher.generation:
            return 0
        most = min(most, RUN_SIZE // run.whole)
        most = longestRun(run, matches.plain, self.outbox, most, &isReached)
        if not isLink:
            most = longestRun(run, matches.forward, self.outbox, most, &isReached)
        if not isReached:
            return 0
        run.count = framesAlike(run, available, most, self.matcher.tracesParents)
        if run.count == 0:
            return 0
        batch.work += 1 + run.count * cost // CHEAPER
        giveRun(run, matches.plain, self.outbox)
        if not isLink:
            giveRun(run, matches.forward, self.outbox)
        if matches.counter is not None and not isLink:
            matches.counter.messages += run.count
            matches.counter.size += run.count * size
            matches.counter.copies += run.count * matches.copies
            matches.counter.copiedSize += run.count * size * matches.copies
        decoder.start += run.count * run.whole
        decoder.messages += run.count
        decoder.messageBytes += run.count * size
        return run.count

    cdef inline void delivered(self, Matches matches, Py_ssize_t end, Py_ssize_t size) noexcept:
        cdef Decoder decoder = self.decoder
        if matches.counter is not None:
            matches.counter.messages += 1
            matches.counter.size += size
            matches.counter.copies += matches.copies
            matches.counter.copiedSize += size * matches.copies
        decoder.start = end
        decoder.messages += 1
        decoder.messageBytes += size

    cdef void begin(
        self, Matches matches, bytes mapped, Py_ssize_t subject, Py_ssize_t length,
        Py_ssize_t rest, Py_ssize_t end, Py_ssize_t lineLength, Py_ssize_t header,
        Py_ssize_t replyLength, Py_ssize_t size, Py_ssize_t names=0, Py_ssize_t namesLength=0,
    ) noexcept:
        """
        Note a message that begins where the input does and has many receivers. All arguments that
        are places are places in the input.
        """
        cdef Py_ssize_t start = self.decoder.start
        cdef Unfinished* left = &self.left
        self.leftMatches = matches
        self.leftName = mapped
        left.subject = subject - start
        left.length = length
        left.rest = rest - start
        left.restLength = end - rest
        left.lineLength = lineLength
        left.header = header
        left.replyLength = replyLength
        left.end = end - start
        left.size = size
        left.names = names - start
        left.namesLength = namesLength
        left.served = 0
        left.ended = 0
        left.isReached = False
        if self.choice is not None:
            self.choice.clear()

    cdef Py_ssize_t goOn(self) except -1:
        """
        Deliver the message with many receivers, as far as the batch's share goes.

        @return: 1 if that was all of it; 0 if receivers are left, or nobody got it and the
            publisher wants to be told.
        """
        cdef Unfinished* left = &self.left
        cdef Matches matches = self.leftMatches
        cdef InputMessage message
        cdef bint isReached
        self.resumed(&message)
        if not giveMany(self, &message, False):
            return 0
        self.leftMatches = None
        isReached = deliverElsewhere(self, matches, &message, self.choice, left.isReached)
        if not isReached:
            return 0
        self.delivered(matches, self.decoder.start + left.end, left.size)
        return 1

    cdef void resumed(self, InputMessage* message) noexcept:
        """
        Find the message with many receivers in the input.
        """
        cdef Unfinished* left = &self.left
        cdef const char* data = self.decoder.data + self.decoder.start
        message.subject = data + left.subject
        message.length = left.length
        if self.leftName is not None:
            message.subject = PyBytes_AS_STRING(self.leftName)
            message.length = PyBytes_GET_SIZE(self.leftName)
        message.rest = data + left.rest
        message.restLength = left.restLength
        message.lineLength = left.lineLength
        message.header = left.header
        message.replyLength = left.replyLength

    def complete(self):
        cdef int64_t until = self.batch.until
        if self.leftMatches is not None:
            self.batch.until = UNLIMITED
            try:
                self.goOn()
            finally:
                self.batch.until = until
                self.batch.settle()

    cdef bint isFresh(self, const char* reply, Py_ssize_t length) except -1:
        """
        Whether a reply subject was subscribed to so shortly ago that other clusters may not know.
        """
        cdef Matcher recent = self.matcher.recentSubscriptions
        return recent is not None and PyTuple_GET_SIZE(recent.lookUp(reply, length).plain) > 0

    cdef bytes destination(self, const char* subject, Py_ssize_t length):
        """
        Where the account's mappings lead all that is published to a subject: perhaps nowhere else;
        None if they do not lead it always to the same place.
        """
        cdef uint64_t hash = nb_hash(subject, length, SECRET)
        cdef PyObject* known
        if self.mapSubject is not self.matcher.mapSubject:
            self.mapSubject = self.matcher.mapSubject
            self.routes = Recent(VERDICTS)
        known = self.routes.get(hash, subject, length)
        if known != NULL:
            return <bytes> known if <object> known is not False else None
        text = PyBytes_FromStringAndSize(subject, length)
        answer = self.mapSubject(text)
        if length <= LONGEST_REMEMBERED:
            self.routes.put(hash, text, False if answer is None else <bytes?> answer, 1)
        return answer

    cdef Matches matchesOf(self, const char* subject, Py_ssize_t length):
        """
        The matches of a subject; those of the last one are remembered.
        """
        if (
            length == self.lastLength and self.lastGeneration == self.matcher.generation
            and memcmp(self.lastSubject, subject, length) == 0
        ):
            return self.lastMatches
        return self.allowed(subject, length, None)

    cdef Matches allowed(self, const char* subject, Py_ssize_t length, bytes mapped):
        """
        The matches of a subject that may be published to, remembered as the last; else None.

        @param mapped: where it is mapped to, or None.
        """
        cdef Matches matches
        cdef const char* name = subject
        cdef Py_ssize_t nameLength = length
        cdef uint64_t hash
        cdef PyObject* verdict
        if mapped is not None:
            name = PyBytes_AS_STRING(mapped)
            nameLength = PyBytes_GET_SIZE(mapped)
        if self.permissions is not None:
            hash = nb_hash(name, nameLength, SECRET)
            verdict = self.verdicts.get(hash, name, nameLength)
            if verdict == NULL:
                text = PyBytes_FromStringAndSize(name, nameLength)
                answer = bool(self.permissions.allows(text))
                if nameLength <= LONGEST_REMEMBERED:
                    self.verdicts.put(hash, text, answer, 1)
                if not answer:
                    return None
            elif <object> verdict is not True:
                return None
        matches = self.matcher.lookUp(name, nameLength)
        self.batch.work += self.matcher.takeCost()
        if length <= SHORT:
            memcpy(self.lastSubject, subject, length)
            self.lastLength = length
            self.lastName = mapped
            self.lastMatches = matches
            self.lastGeneration = self.matcher.generation
        else:
            self.lastLength = -1
        return matches
