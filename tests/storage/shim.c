/* A disk that fails when it is told to, and remembers what it was told: preloaded into a process (LD_PRELOAD).
 *
 * Calls about files below one directory are counted, may be made to fail, to be slow or to be the last thing that the
 * process does, and are written to a trace, in the order in which they were done. tests/storage/shim.py has the other
 * side of all numbers here. All other calls pass. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { MADE = 1, WRITE = 2, SYNC = 4, SIZE = 8, NAME = 16, READ = 32, ROOT = 64 };
enum { NOTHING, KILL_BEFORE, KILL_AFTER, KILL_HALFWAY, FAIL, DELAY, SHORT, UNREADABLE };

/* Shared with whoever gives the orders. */
struct orders {
    uint64_t action, kinds, from, to, error, microseconds;
    int64_t space;  /* by how many bytes files may still grow, if not negative */
    uint64_t inode; /* of the file that has a hole */
    uint64_t counted, hits, total;
};

/* What stands before each entry of the trace; "length" bytes follow. */
struct entry {
    char what;
    char flag;
    uint16_t nameLength;
    int32_t file;
    int64_t offset, length;
};

#define MOST_FILES 4096
static char tracked[MOST_FILES]; /* by descriptor: 1 for a file, 2 for a directory, 4 added for O_DSYNC */
static char prefix[1024];
static size_t prefixLength;
static struct orders *orders;
static int trace = -1, saying = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name, ...)                                          \
    static __typeof__(&name) real;                               \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static ssize_t rawWrite(int fd, const void *data, size_t size)
{
    REAL(write);
    return real(fd, data, size);
}

static void note(char what, char flag, int file, int64_t offset, const struct iovec *parts, int count, int64_t length,
                 const char *name)
{
    if (trace < 0) return;
    struct entry head = {what, flag, (uint16_t)(name ? strlen(name) : 0), file, offset, length};
    char *whole = malloc(sizeof head + head.nameLength + (parts ? length : 0));
    char *at = whole;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    memcpy(at, name, head.nameLength);
    at += head.nameLength;
    int64_t left = length;
    for (int i = 0; parts && i < count && left > 0; i++) {
        size_t some = (int64_t)parts[i].iov_len < left ? parts[i].iov_len : (size_t)left;
        memcpy(at, parts[i].iov_base, some);
        at += some;
        left -= some;
    }
    if (rawWrite(trace, whole, at - whole) != at - whole) abort();
    free(whole);
}

/* The path without the prefix, or NULL if it is none of ours. */
static const char *ours(const char *path)
{
    if (!prefixLength || strncmp(path, prefix, prefixLength)) return NULL;
    if (path[prefixLength] == 0) return ".";
    return path[prefixLength] == '/' ? path + prefixLength + 1 : NULL;
}

static int kindOf(int fd)
{
    return fd >= 0 && fd < MOST_FILES ? tracked[fd] : 0;
}

/* Count a call, and say what is to become of it. Called with the lock held. */
static uint64_t judge(int kind)
{
    if (!orders) return NOTHING;
    orders->total++;
    if (!(orders->kinds & kind)) return NOTHING;
    uint64_t number = ++orders->counted;
    if (orders->action == UNREADABLE) return UNREADABLE;
    if (orders->action == NOTHING || number < orders->from || number > orders->to) return NOTHING;
    orders->hits++;
    if (orders->action == KILL_BEFORE) kill(getpid(), SIGKILL);
    if (orders->action == DELAY) {
        struct timespec pause = {orders->microseconds / 1000000, orders->microseconds % 1000000 * 1000};
        pthread_mutex_unlock(&lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&lock);
    }
    return orders->action;
}

static void finish(uint64_t verdict)
{
    if (verdict == KILL_AFTER || verdict == KILL_HALFWAY) kill(getpid(), SIGKILL);
}

/* Whether a file may have its end there. */
static int hasSpace(int fd, int64_t end)
{
    struct stat found;
    if (!orders || orders->space < 0 || fstat(fd, &found) || end <= found.st_size) return 1;
    if (end - found.st_size > orders->space) {
        orders->hits++;
        return 0;
    }
    orders->space -= end - found.st_size;
    return 1;
}

/* Begin: everything below the directory, from now on. */
void shimBegin(const char *directory, const char *control, const char *tracePath, int sayTo)
{
    int fd = open(control, O_RDWR | O_CLOEXEC);
    orders = fd < 0 ? NULL : mmap(NULL, sizeof *orders, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (orders == MAP_FAILED || !orders) abort();
    close(fd);
    if (tracePath && *tracePath) {
        trace = open(tracePath, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (trace < 0) abort();
    }
    saying = sayTo;
    strncpy(prefix, directory, sizeof prefix - 1);
    prefixLength = strlen(prefix);
}

__attribute__((constructor)) static void atStart(void)
{
    const char *directory = getenv("SHIM_DIRECTORY"), *control = getenv("SHIM_CONTROL");
    if (directory && control) shimBegin(directory, control, getenv("SHIM_TRACE"), -1);
}

/* Files. */

static int opened(int fd, int flags, const char *name, int isNew)
{
    struct stat found;
    if (fd < 0 || fd >= MOST_FILES || fstat(fd, &found)) return fd;
    tracked[fd] = (S_ISDIR(found.st_mode) ? 2 : 1) | (flags & O_DSYNC ? 4 : 0);
    note('o', isNew ? 'n' : flags & O_TRUNC ? 't' : ' ', fd, 0, NULL, 0, 0, name);
    return fd;
}

static int openOurs(int (*real)(const char *, int, ...), const char *path, const char *name, int flags, mode_t mode)
{
    pthread_mutex_lock(&lock);
    int isNew = flags & O_CREAT && access(path, F_OK);
    uint64_t verdict = isNew || flags & O_TRUNC ? judge(MADE) : NOTHING;
    int fd = -1;
    if (verdict == FAIL)
        errno = orders->error;
    else
        fd = opened(real(path, flags, mode), flags, name, isNew);
    finish(verdict);
    pthread_mutex_unlock(&lock);
    return fd;
}

#define OPEN(name_)                                                        \
    int name_(const char *path, int flags, ...)                            \
    {                                                                      \
        REAL(name_);                                                       \
        va_list more;                                                      \
        va_start(more, flags);                                             \
        mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;          \
        va_end(more);                                                      \
        const char *name = ours(path);                                     \
        return name ? openOurs(real, path, name, flags, mode) : real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

int close(int fd)
{
    REAL(close);
    if (!kindOf(fd)) return real(fd);
    pthread_mutex_lock(&lock);
    tracked[fd] = 0;
    note('c', ' ', fd, 0, NULL, 0, 0, NULL);
    int result = real(fd);
    pthread_mutex_unlock(&lock);
    return result;
}

static ssize_t writeOurs(int fd, const struct iovec *parts, int count, int64_t offset)
{
    int64_t length = 0;
    for (int i = 0; i < count; i++) length += parts[i].iov_len;
    pthread_mutex_lock(&lock);
    int64_t at = offset >= 0 ? offset : lseek(fd, 0, SEEK_CUR);
    uint64_t verdict = judge(kindOf(fd) & 4 ? WRITE | ROOT : WRITE);
    int64_t some = verdict == KILL_HALFWAY || verdict == SHORT ? length / 2 : length;
    int64_t done = -1;
    if (verdict == FAIL || !hasSpace(fd, at + some)) {
        errno = verdict == FAIL ? (int)orders->error : ENOSPC;
    } else {
        done = 0;
        for (int i = 0; i < count && done < some; i++) {
            int64_t part = (int64_t)parts[i].iov_len < some - done ? (int64_t)parts[i].iov_len : some - done;
            REAL(pwrite);
            if (real(fd, parts[i].iov_base, part, at + done) != part) abort();
            done += part;
        }
        if (offset < 0) lseek(fd, at + done, SEEK_SET);
        note('w', kindOf(fd) & 4 ? 'd' : ' ', fd, at, parts, count, done, NULL);
    }
    finish(verdict);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int fd, const void *data, size_t size)
{
    struct iovec part = {(void *)data, size};
    if (fd == saying && fd >= 0) {
        pthread_mutex_lock(&lock);
        note('a', ' ', fd, 0, &part, 1, size, NULL);
        pthread_mutex_unlock(&lock);
        return size;
    }
    return kindOf(fd) ? writeOurs(fd, &part, 1, -1) : rawWrite(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    REAL(writev);
    return kindOf(fd) ? writeOurs(fd, parts, count, -1) : real(fd, parts, count);
}

#define PWRITE(name, offsetType)                                             \
    ssize_t name(int fd, const void *data, size_t size, offsetType offset)   \
    {                                                                        \
        REAL(name);                                                          \
        struct iovec part = {(void *)data, size};                            \
        return kindOf(fd) ? writeOurs(fd, &part, 1, offset) : real(fd, data, size, offset); \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define PWRITEV(name, offsetType)                                                  \
    ssize_t name(int fd, const struct iovec *parts, int count, offsetType offset)  \
    {                                                                              \
        REAL(name);                                                                \
        return kindOf(fd) ? writeOurs(fd, parts, count, offset) : real(fd, parts, count, offset); \
    }
PWRITEV(pwritev, off_t)
PWRITEV(pwritev64, off64_t)

/* Whether reading fails: because of the call's number, or because of a hole in the file, from one byte to another. */
static int isUnreadable(int fd, int64_t offset, size_t size)
{
    struct stat found;
    pthread_mutex_lock(&lock);
    uint64_t verdict = judge(READ);
    if (verdict == UNREADABLE && (fstat(fd, &found) || found.st_ino != orders->inode)) verdict = NOTHING;
    int isHole = verdict == UNREADABLE && offset < (int64_t)orders->to && offset + (int64_t)size > (int64_t)orders->from;
    if (isHole) orders->hits++;
    if (isHole || verdict == FAIL) errno = orders->error;
    pthread_mutex_unlock(&lock);
    return isHole || verdict == FAIL;
}

#define PREAD(name, offsetType)                                                \
    ssize_t name(int fd, void *data, size_t size, offsetType offset)           \
    {                                                                          \
        REAL(name);                                                            \
        return kindOf(fd) && isUnreadable(fd, offset, size) ? -1 : real(fd, data, size, offset); \
    }
PREAD(pread, off_t)
PREAD(pread64, off64_t)

ssize_t read(int fd, void *data, size_t size)
{
    REAL(read);
    return kindOf(fd) && isUnreadable(fd, lseek(fd, 0, SEEK_CUR), size) ? -1 : real(fd, data, size);
}

static int syncOurs(int fd, int (*real)(int))
{
    pthread_mutex_lock(&lock);
    uint64_t verdict = judge(SYNC);
    if (verdict == FAIL) {
        errno = orders->error;
        pthread_mutex_unlock(&lock);
        return -1;
    }
    note('s', ' ', fd, 0, NULL, 0, 0, NULL);
    pthread_mutex_unlock(&lock);
    int result = real(fd);
    pthread_mutex_lock(&lock);
    if (!result) note('e', ' ', fd, 0, NULL, 0, 0, NULL);
    finish(verdict);
    pthread_mutex_unlock(&lock);
    return result;
}

#define SYNC_CALL(name)                                  \
    int name(int fd)                                     \
    {                                                    \
        REAL(name);                                      \
        return kindOf(fd) ? syncOurs(fd, real) : real(fd); \
    }
SYNC_CALL(fsync)
SYNC_CALL(fdatasync)

#define FTRUNCATE(name, lengthType)                                      \
    int name(int fd, lengthType length)                                  \
    {                                                                    \
        REAL(name);                                                      \
        if (!kindOf(fd)) return real(fd, length);                        \
        pthread_mutex_lock(&lock);                                       \
        uint64_t verdict = judge(SIZE);                                  \
        int result = -1;                                                 \
        if (verdict == FAIL || !hasSpace(fd, length)) {                  \
            errno = verdict == FAIL ? (int)orders->error : ENOSPC;       \
        } else {                                                         \
            result = real(fd, length);                                   \
            note('t', ' ', fd, 0, NULL, 0, length, NULL);                \
        }                                                                \
        finish(verdict);                                                 \
        pthread_mutex_unlock(&lock);                                     \
        return result;                                                   \
    }
FTRUNCATE(ftruncate, off_t)
FTRUNCATE(ftruncate64, off64_t)

#define ALLOCATE(name, offsetType)                                       \
    int name(int fd, offsetType offset, offsetType length)               \
    {                                                                    \
        REAL(name);                                                      \
        if (!kindOf(fd)) return real(fd, offset, length);                \
        pthread_mutex_lock(&lock);                                       \
        uint64_t verdict = judge(SIZE);                                  \
        int result;                                                      \
        if (verdict == FAIL || !hasSpace(fd, offset + length)) {         \
            result = verdict == FAIL ? (int)orders->error : ENOSPC;      \
        } else {                                                         \
            result = real(fd, offset, length);                           \
            if (!result) note('f', ' ', fd, offset, NULL, 0, length, NULL); \
        }                                                                \
        finish(verdict);                                                 \
        pthread_mutex_unlock(&lock);                                     \
        return result;                                                   \
    }
ALLOCATE(posix_fallocate, off_t)
ALLOCATE(posix_fallocate64, off64_t)

/* Copies in the kernel would pass by: whoever tries is sent back to reading and writing. */
ssize_t sendfile64(int out, int in, off64_t *offset, size_t count)
{
    REAL(sendfile64);
    if (kindOf(out)) return errno = EINVAL, -1;
    return real(out, in, offset, count);
}

/* Names. */

static int named(char what, int (*call)(const void *), const void *arguments, const char *one, const char *two)
{
    char both[2048];
    pthread_mutex_lock(&lock);
    uint64_t verdict = judge(NAME);
    int result = -1;
    if (verdict == FAIL) {
        errno = orders->error;
    } else if (!(result = call(arguments))) {
        strcpy(both, one);
        if (two) strcat(strcat(both, "\n"), two);
        note(what, ' ', -1, 0, NULL, 0, 0, both);
    }
    int kept = errno;
    finish(verdict);
    pthread_mutex_unlock(&lock);
    errno = kept;
    return result;
}

struct pair {
    const char *one, *two;
    mode_t mode;
};

static int realUnlink(const void *each)
{
    REAL(unlink);
    return real(((const struct pair *)each)->one);
}

static int realRename(const void *each)
{
    REAL(rename);
    return real(((const struct pair *)each)->one, ((const struct pair *)each)->two);
}

static int realLink(const void *each)
{
    REAL(link);
    return real(((const struct pair *)each)->one, ((const struct pair *)each)->two);
}

static int realMkdir(const void *each)
{
    REAL(mkdir);
    return real(((const struct pair *)each)->one, ((const struct pair *)each)->mode);
}

static int realRmdir(const void *each)
{
    REAL(rmdir);
    return real(((const struct pair *)each)->one);
}

int unlink(const char *path)
{
    struct pair each = {path, NULL, 0};
    return ours(path) ? named('u', realUnlink, &each, ours(path), NULL) : realUnlink(&each);
}

int rmdir(const char *path)
{
    struct pair each = {path, NULL, 0};
    return ours(path) ? named('x', realRmdir, &each, ours(path), NULL) : realRmdir(&each);
}

int mkdir(const char *path, mode_t mode)
{
    struct pair each = {path, NULL, mode};
    return ours(path) ? named('m', realMkdir, &each, ours(path), NULL) : realMkdir(&each);
}

int rename(const char *from, const char *to)
{
    struct pair each = {from, to, 0};
    return ours(from) && ours(to) ? named('r', realRename, &each, ours(from), ours(to)) : realRename(&each);
}

int link(const char *from, const char *to)
{
    struct pair each = {from, to, 0};
    return ours(from) && ours(to) ? named('l', realLink, &each, ours(from), ours(to)) : realLink(&each);
}

/* Python uses these only when it is given a descriptor of a directory or told not to follow links. */
int linkat(int fromDirectory, const char *from, int toDirectory, const char *to, int flags)
{
    REAL(linkat);
    if (fromDirectory == AT_FDCWD && toDirectory == AT_FDCWD && ours(from) && ours(to)) return link(from, to);
    return real(fromDirectory, from, toDirectory, to, flags);
}
