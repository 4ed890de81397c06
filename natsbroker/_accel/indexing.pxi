# The twin of natsbroker.subjects.index: the same index over a table that needs half the memory, and
# is searched for the patterns of all shapes without making their texts.

from natsbroker.subjects import index as pureIndex

cdef object MISSING = pureIndex._MISSING
cdef object FEW = pureIndex._Few
cdef object MANY = pureIndex._Many

cdef struct Seat:
    uint32_t hash
    uint32_t place  # one more than the place in the lists; 0 for an empty seat


@cython.final
cdef class PatternMap:
    """
    A mapping from bytes to objects, as far as the index needs one.
    """

    cdef Seat* seats
    cdef Py_ssize_t size, used
    cdef list keys, kept, gaps

    def __cinit__(self):
        self.seats = NULL
        self.size = 0
        self.used = 0
        self.keys = []
        self.kept = []
        self.gaps = []

    def __dealloc__(self):
        free(self.seats)

    cdef inline Py_ssize_t find(self, const char* text, Py_ssize_t length) noexcept:
        cdef uint32_t hash
        cdef Py_ssize_t mask, seat
        cdef PyObject* key
        if self.used == 0:
            return -1
        hash = <uint32_t> nb_hash(text, length, SECRET)
        mask = self.size - 1
        seat = hash & mask
        while self.seats[seat].place:
            if self.seats[seat].hash == hash:
                key = PyList_GET_ITEM(self.keys, self.seats[seat].place - 1)
                if (
                    PyBytes_GET_SIZE(<bytes> key) == length
                    and memcmp(PyBytes_AS_STRING(<bytes> key), text, length) == 0
                ):
                    return seat
            seat = (seat + 1) & mask
        return -1

    cdef inline Py_ssize_t seatOf(self, bytes key):
        return self.find(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))

    def get(self, bytes key not None, default=None):
        cdef Py_ssize_t seat = self.seatOf(key)
        return default if seat < 0 else self.kept[self.seats[seat].place - 1]

    def __contains__(self, bytes key not None):
        return self.seatOf(key) >= 0

    def __getitem__(self, bytes key not None):
        cdef Py_ssize_t seat = self.seatOf(key)
        if seat < 0:
            raise KeyError(key)
        return self.kept[self.seats[seat].place - 1]

    def __setitem__(self, bytes key not None, value):
        cdef Py_ssize_t seat = self.seatOf(key)
        cdef Py_ssize_t place
        if seat >= 0:
            self.kept[self.seats[seat].place - 1] = value
            return
        if (self.used + 1) * 4 > self.size * 3:
            self.resize(self.size * 2 if self.size else 8)
        if self.gaps:
            place = self.gaps.pop()
            self.keys[place] = key
            self.kept[place] = value
        else:
            place = len(self.keys)
            self.keys.append(key)
            self.kept.append(value)
        self.sit(<uint32_t> nb_hash(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), SECRET), place)
        self.used += 1

    cdef void sit(self, uint32_t hash, Py_ssize_t place) noexcept:
        cdef Py_ssize_t seat = hash & (self.size - 1)
        while self.seats[seat].place:
            seat = (seat + 1) & (self.size - 1)
        self.seats[seat].hash = hash
        self.seats[seat].place = <uint32_t> (place + 1)

    cdef int resize(self, Py_ssize_t size) except -1:
        cdef Py_ssize_t seat, before = self.size
        cdef Seat* old = self.seats
        cdef Seat* seats = <Seat*> calloc(size, sizeof(Seat))
        if seats == NULL:
            raise MemoryError
        self.seats = seats
        self.size = size
        for seat in range(before):
            if old[seat].place:
                self.sit(old[seat].hash, old[seat].place - 1)
        free(old)
        return 0

    def __delitem__(self, bytes key not None):
        cdef Py_ssize_t mask = self.size - 1
        cdef Py_ssize_t gap = self.seatOf(key)
        cdef Py_ssize_t seat, place
        if gap < 0:
            raise KeyError(key)
        place = self.seats[gap].place - 1
        self.keys[place] = None
        self.kept[place] = None
        self.gaps.append(place)
        self.used -= 1
        # Move back the displaced entries, so that no gap is in their way.
        seat = (gap + 1) & mask
        while self.seats[seat].place:
            if ((seat - (<Py_ssize_t> self.seats[seat].hash & mask)) & mask) >= (
                (seat - gap) & mask
            ):
                self.seats[gap] = self.seats[seat]
                gap = seat
            seat = (seat + 1) & mask
        self.seats[gap].place = 0

    def __len__(self):
        return self.used

    def __iter__(self):
        return iter([key for key in self.keys if key is not None])

    def values(self):
        return [
            self.kept[place] for place in range(len(self.keys)) if self.keys[place] is not None
        ]

    cdef int collect(self, const char* text, Py_ssize_t length, list found) except -1:
        """
        Add the entries of one pattern.
        """
        cdef Py_ssize_t seat = self.find(text, length)
        if seat >= 0:
            self.collectAt(self.seats[seat].place - 1, found)
        return 0

    cdef inline int collectAt(self, Py_ssize_t place, list found) except -1:
        there = <object> PyList_GET_ITEM(self.kept, place)
        if type(there) is FEW:
            found.extend(there)
        elif type(there) is MANY:
            found.extend(there.values())
        else:
            found.append(there)
        return 0

    cdef list entries(self):
        """
        All entries, once for each pattern.
        """
        cdef list found = []
        cdef Py_ssize_t place
        for place in range(PyList_GET_SIZE(self.keys)):
            if <object> PyList_GET_ITEM(self.keys, place) is not None:
                self.collectAt(place, found)
        return found


cdef enum:
    LONGEST = 512
    MOST_TOKENS = 257


cdef bint isPlainPattern(const char* text, Py_ssize_t length) noexcept:
    """
    Whether this is a valid subject in which no byte may be a wildcard.
    """
    cdef Py_ssize_t place
    cdef char last = c"."
    for place in range(length):
        if text[place] == c"." and last == c".":
            return False
        last = text[place]
        if last == c"*" or last == c">" or (0 <= last <= 32) or last == 127:
            return False
    return last != c"."


class SubjectIndex(pureIndex.SubjectIndex):
    __slots__ = ("_generation", "_plans")

    def __init__(self, maxShapes=pureIndex.DEFAULT_MAX_SHAPES):
        super().__init__(maxShapes)
        self._found = PatternMap()
        self._plans = {}
        self._generation = self._shapes.generation

    def insert(self, pattern, entry):
        cdef PatternMap found = <PatternMap> self._found
        if type(pattern) is bytes and isPlainPattern(
            PyBytes_AS_STRING(pattern), PyBytes_GET_SIZE(pattern)
        ) and found.seatOf(pattern) < 0:
            found[pattern] = entry
            self._count += 1
        else:
            super().insert(pattern, entry)

    def __iter__(self):
        return iter((<PatternMap> self._found).entries())

    def match(self, subject):
        if len(subject) > LONGEST:
            return super().match(subject)
        shapes = self._shapes
        if shapes.generation != self._generation:
            self._generation = shapes.generation
            self._plans = {}
        found = matchSubject(<PatternMap> self._found, subject, self._plans, shapes.counts)
        return super().match(subject) if found is None else found


cdef matchSubject(PatternMap patterns, bytes subject, dict plans, dict counts):
    """
    The entries for a subject, or None for one that the pure index must look at.
    """
    cdef const char* text = PyBytes_AS_STRING(subject)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(subject)
    cdef Py_ssize_t starts[MOST_TOKENS]
    cdef Py_ssize_t count = 0, place, start = 0, size
    cdef char pattern[LONGEST + 2]
    cdef char* end
    cdef const char* plan
    cdef list found = []
    patterns.collect(text, length, found)
    if not counts:
        return found
    for place in range(length + 1):
        if place == length or text[place] == c".":
            if place == start or (
                place == start + 1 and (text[start] == c"*" or text[start] == c">")
            ):
                return None
            starts[count] = start
            count += 1
            start = place + 1
    starts[count] = start
    applicable = plans.get(count)
    if applicable is None:
        applicable = plans[count] = plansFor(counts, count)
    for each in <list> applicable:
        plan = PyBytes_AS_STRING(<bytes> each)
        end = pattern
        for place in range(PyBytes_GET_SIZE(<bytes> each)):
            if place:
                end[0] = c"."
                end += 1
            if plan[place] == c".":
                size = starts[place + 1] - starts[place] - 1
                memcpy(end, text + starts[place], size)
                end += size
            else:
                end[0] = plan[place]
                end += 1
        patterns.collect(pattern, end - pattern, found)
    return found


cdef list plansFor(dict counts, Py_ssize_t tokens):
    """
    The shapes that subjects of a number of tokens can match, each as one byte for a token: a dot for
    the subject's own.
    """
    plans = []
    for length, stars, full in counts:
        if length == tokens or (full and length < tokens):
            plan = bytearray(b"." * length)
            for place in stars:
                plan[place] = b"*"[0]
            if full:
                plan[length - 1] = b">"[0]
            plans.append(bytes(plan))
    return plans
