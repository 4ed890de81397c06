# The steps of an Outbox for payloads that it has borrowed.


cdef size_t piecesInto(Outbox outbox, iovec* pieces) noexcept:
    cdef Py_ssize_t place = 0
    cdef size_t count = 0
    cdef int number
    cdef Loan* loan
    for number in range(outbox.loanCount):
        loan = &outbox.loans[number]
        if loan.before > place:
            pieces[count].iov_base = outbox.data + outbox.start + place
            pieces[count].iov_len = loan.before - place
            place = loan.before
            count += 1
        pieces[count].iov_base = <char*> loan.data
        pieces[count].iov_len = loan.size
        count += 1
    if outbox.stop - outbox.start > place:
        pieces[count].iov_base = outbox.data + outbox.start + place
        pieces[count].iov_len = outbox.stop - outbox.start - place
        count += 1
    return count


cdef int keepLoans(Outbox outbox) except -1:
    """
    Have all that waits in a buffer of our own.
    """
    cdef iovec pieces[2 * MOST_LENT + 1]
    if outbox.loanCount:
        keepPieces(outbox, pieces, piecesInto(outbox, pieces), outbox.waiting())
    return 0


cdef int keepPieces(Outbox outbox, iovec* pieces, size_t count, Py_ssize_t size) except -1:
    """
    Have pieces, which are of such a size together, in a buffer of our own, and nothing else.
    """
    cdef char* data = outbox.data
    cdef size_t place
    outbox.data = NULL
    outbox.start = outbox.stop = 0
    outbox.capacity = 0
    try:
        outbox.makeRoom(size)
        for place in range(count):
            memcpy(outbox.data + outbox.stop, pieces[place].iov_base, pieces[place].iov_len)
            outbox.stop += pieces[place].iov_len
    except MemoryError:
        # Part of a message may have been sent.
        outbox.close()
        raise
    finally:
        free(data)
        outbox.forgetLoans()
    return 0
