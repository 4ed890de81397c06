# A hash of bytes that peers choose, and a table that maps bytes to objects without making any.

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static inline uint64_t nb_fold(uint64_t a, uint64_t b) {
        __uint128_t product = (__uint128_t) a * b;
        return (uint64_t) product ^ (uint64_t) (product >> 64);
    }

    /* Multiply and fold, eight bytes at a time, keyed by a secret of the process. */
    static inline uint64_t nb_hash(const char *bytes, size_t length, uint64_t secret) {
        uint64_t state = secret ^ (length * 0x9E3779B97F4A7C15ull);
        uint64_t word;
        while (length >= 8) {
            memcpy(&word, bytes, 8);
            state = nb_fold(state ^ word, 0xA0761D6478BD642Full ^ secret);
            bytes += 8;
            length -= 8;
        }
        word = 0;
        memcpy(&word, bytes, length);
        state = nb_fold(state ^ word, 0xE7037ED1A0B428DBull ^ secret);
        return state ^ (state >> 32);
    }
    """
    uint64_t nb_hash(const char* bytes, size_t length, uint64_t secret) noexcept nogil

cdef uint64_t SECRET = int.from_bytes(os.urandom(8), "little")

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(object, Py_ssize_t) noexcept
    Py_ssize_t PyList_GET_SIZE(object) noexcept
    PyObject* PyTuple_GET_ITEM(object, Py_ssize_t) noexcept
    Py_ssize_t PyTuple_GET_SIZE(object) noexcept

cdef struct Slot:
    uint64_t hash
    Py_ssize_t place  # one more than the place in the lists; 0 for an empty slot


@cython.final
cdef class Table:
    """
    Bytes to objects, open addressing, never more than three quarters full; grows, never shrinks.
    Keys and values stand in lists, where the garbage collector sees them.
    """

    cdef Slot* slots
    cdef Py_ssize_t size, used
    cdef list keys, values

    def __cinit__(self):
        self.size = 0
        self.used = 0
        self.slots = NULL
        self.keys = []
        self.values = []

    def __dealloc__(self):
        free(self.slots)

    cdef inline Py_ssize_t find(self, uint64_t hash, const char* text, Py_ssize_t length) noexcept:
        """
        Where this key stands in the lists, or -1.
        """
        cdef Py_ssize_t mask, place
        cdef Slot* slot
        cdef PyObject* key
        if self.size == 0:
            return -1
        mask = self.size - 1
        place = hash & mask
        while True:
            slot = &self.slots[place]
            if slot.place == 0:
                return -1
            if slot.hash == hash:
                key = PyList_GET_ITEM(self.keys, slot.place - 1)
                if (
                    PyBytes_GET_SIZE(<bytes> key) == length
                    and memcmp(PyBytes_AS_STRING(<bytes> key), text, length) == 0
                ):
                    return slot.place - 1
            place = (place + 1) & mask

    cdef int put(self, uint64_t hash, bytes key, object value) except -1:
        if self.used * 4 >= self.size * 3:
            self.grow()
        self.keys.append(key)
        self.values.append(value)
        self.used += 1
        seat(self.slots, self.size, hash, self.used)
        return 0

    cdef int grow(self) except -1:
        cdef Py_ssize_t size = self.size * 2 if self.size else 16
        cdef Py_ssize_t place
        cdef Slot* slots = <Slot*> calloc(size, sizeof(Slot))
        if slots == NULL:
            raise MemoryError
        for place in range(self.size):
            if self.slots[place].place:
                seat(slots, size, self.slots[place].hash, self.slots[place].place)
        free(self.slots)
        self.slots = slots
        self.size = size
        return 0


cdef inline void seat(Slot* slots, Py_ssize_t size, uint64_t hash, Py_ssize_t place) noexcept:
    cdef Py_ssize_t mask = size - 1
    cdef Py_ssize_t target = hash & mask
    while slots[target].place:
        target = (target + 1) & mask
    slots[target].hash = hash
    slots[target].place = place


@cython.final
cdef class Recent:
    """
    A bounded memory of two generations: what was found lately stays, the rest goes.
    """

    cdef Table young, old
    cdef Py_ssize_t limit, weight

    def __cinit__(self, Py_ssize_t limit):
        self.weight = 0
        self.young = Table()
        self.old = Table()
        self.limit = max(limit // 2, 1)

    cdef inline PyObject* get(self, uint64_t hash, const char* text, Py_ssize_t length) except? NULL:
        """The remembered object, borrowed, or NULL."""
        cdef Py_ssize_t place = self.young.find(hash, text, length)
        if place >= 0:
            return PyList_GET_ITEM(self.young.values, place)
        place = self.old.find(hash, text, length)
        if place < 0:
            return NULL
        key = self.old.keys[place]
        value = self.old.values[place]
        self.put(hash, key, value, 1)
        return <PyObject*> value

    cdef int put(self, uint64_t hash, bytes key, object value, Py_ssize_t weight) except -1:
        cdef Py_ssize_t place = self.young.find(
            hash, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)
        )
        if place >= 0:
            self.young.values[place] = value
            return 0
        if self.weight >= self.limit:
            self.old = self.young
            self.young = Table()
            self.weight = 0
        self.young.put(hash, key, value)
        self.weight += weight
        return 0

    cdef Py_ssize_t length(self):
        return self.young.used + self.old.used

    cdef list contents(self):
        return self.young.values + self.old.values
