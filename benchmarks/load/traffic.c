/* Publish and subscribe: prebuilt buffers out, whole frames skipped by their length in.
 *
 * Every subject, sid and size has a fixed width, so all frames of a run are equally long. A subscriber looks at the
 * first byte of each frame and compares one whole frame of every read with what it must be; a server that drops,
 * repeats or distorts messages is found out, and still no time goes into parsing. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char headerBlock[] = "NATS/1.0\r\nX-Load: 0123456789abcdef\r\nContent-Type: application/octet-stream\r\n\r\n";
enum { FIRST_SID = 1000001, LINE_ROOM = 160 };

struct publisher {
    pthread_t thread;
    int index;
    long quota; /* 0: until the time is over */
    long published;
    double cpu, finished;
};

struct subscriber {
    pthread_t thread;
    clockid_t clock;
    struct link link;
    int index;
    double before;
    _Atomic double last; /* when its latest message arrived */
    atomic_long received;
};

static atomic_int waiting, started, broken;
static atomic_bool finished;
static double deadline;

int headerLength(void) { return opt.headers ? (int) strlen(headerBlock) : 0; }

static size_t payload(char *out) {
    char *p = out;
    if (opt.headers) p = stpcpy(p, headerBlock);
    memset(p, 'x', (size_t) opt.size);
    p += opt.size;
    *p++ = '\r';
    *p++ = '\n';
    return (size_t) (p - out);
}

size_t publishFrame(char *out, int subject) {
    int h = headerLength();
    char *p = out + (h ? sprintf(out, "HPUB load.%06d.x %d %d\r\n", subject, h, h + opt.size)
                       : sprintf(out, "PUB load.%06d.x %d\r\n", subject, opt.size));
    return (size_t) (p - out) + payload(p);
}

size_t messageFrame(char *out, int subject, const char *sid) {
    int h = headerLength();
    char *p = out + (h ? sprintf(out, "HMSG load.%06d.x %s %d %d\r\n", subject, sid, h, h + opt.size)
                       : sprintf(out, "MSG load.%06d.x %s %d\r\n", subject, sid, opt.size));
    return (size_t) (p - out) + payload(p);
}

static size_t frameRoom(void) { return (size_t) (opt.size + headerLength() + LINE_ROOM); }

/* ---- publishing */

/* A buffer of whole frames that covers this publisher's subjects evenly; ends[i] is where frame i ends. */
static long buildFrames(int index, char **frames, size_t **ends) {
    int mine = 0, *subjects = obtain(sizeof(int) * (size_t) opt.subjects);
    for (int i = 0; i < opt.subjects; i++)
        if (opt.subjects < opt.publishers ? i == index % opt.subjects : i % opt.publishers == index) subjects[mine++] = i;
    long many = (long) opt.writeSize / (long) (frameRoom() - LINE_ROOM + 32);
    if (many < 1) many = 1;
    many = many < mine ? mine : many / mine * mine;
    char *p = *frames = obtain((size_t) many * frameRoom());
    *ends = obtain(sizeof(size_t) * (size_t) many);
    for (long i = 0; i < many; i++) {
        p += publishFrame(p, subjects[i % mine]);
        (*ends)[i] = (size_t) (p - *frames);
    }
    free(subjects);
    return many;
}

static void writeFrames(struct link *link, const char *frames, size_t size) {
    for (size_t o = 0, k; o < size; o += k) {
        k = size - o < (size_t) opt.writeSize ? size - o : (size_t) opt.writeSize;
        linkSend(link, frames + o, k);
    }
}

static void awaitStart(void) {
    atomic_fetch_add(&waiting, 1);
    while (!atomic_load(&started)) usleep(200);
}

static void *publish(void *argument) {
    struct publisher *me = argument;
    struct link link;
    char *frames;
    size_t *ends;
    long many = buildFrames(me->index, &frames, &ends);
    linkOpen(&link, 0);
    awaitStart();
    while (me->quota ? me->published < me->quota : now() < deadline) {
        long left = me->quota ? me->quota - me->published : many, k = left < many ? left : many;
        writeFrames(&link, frames, ends[k - 1]);
        me->published += k;
    }
    linkSend(&link, "PING\r\n", 6);
    awaitPong(&link);
    me->finished = now();
    me->cpu = threadSeconds();
    return NULL;
}

/* ---- subscribing */

static void subscribe(struct link *link, int index) {
    char *text = obtain(64 + (size_t) opt.subjects * 96), *p = text;
    const char *queue = opt.queue ? opt.queue : "", *gap = opt.queue ? " " : "";
    bool all = opt.fanout || opt.queue; /* else each subscriber has its share of the subjects */
    int sid = FIRST_SID;
    if (opt.wild && (all || opt.subscribers == 1)) p += sprintf(p, "SUB load.*.x %s%s%d\r\n", queue, gap, sid++);
    else
        for (int i = 0; i < opt.subjects; i++)
            if (all || i % opt.subscribers == index)
                p += sprintf(p, "SUB load.%06d.%s %s%s%d\r\n", i, opt.wild ? ">" : "x", queue, gap, sid++);
    p = stpcpy(p, "PING\r\n");
    linkSend(link, text, (size_t) (p - text));
    free(text);
    awaitPong(link);
}

static bool isDigit(char byte) { return byte >= '0' && byte <= '9'; }

/* Does frame hold what was published? The digits of subject and sid, in the first bytes, may be any. */
static void verify(const char *frame, const char *model, size_t length) {
    enum { NAMES = 40 };
    size_t i = 0, most = length < NAMES ? length : NAMES;
    while (i < most && (frame[i] == model[i] || (isDigit(frame[i]) && isDigit(model[i])))) i++;
    if (i == most) {
        if (!memcmp(frame + i, model + i, length - i)) return;
        while (frame[i] == model[i]) i++;
    }
    fail("a wrong message at byte %zu: %.60s", i, frame);
}

static void closed(struct subscriber *me) {
    if (atomic_load(&finished)) return;
    fprintf(stderr, "load: subscriber %d was disconnected\n", me->index);
    atomic_store(&broken, 1);
}

/* One line that is not a message: PING is answered, an error is shown. Returns its length, or 0 when it is not whole. */
static size_t controlLine(struct subscriber *me, const char *line, size_t have) {
    const char *end = memchr(line, '\n', have);
    if (!end) return 0;
    if (*line == 'P') linkWrite(&me->link, "PONG\r\n", 6);
    else if (*line == '-') fprintf(stderr, "load: subscriber %d: %.*s\n", me->index, (int) (end - line), line);
    else if (memcmp(line, "INFO ", 5)) fail("unexpected: %.*s", (int) (end - line), line);
    return (size_t) (end - line) + 1;
}

static void *receive(void *argument) {
    struct subscriber *me = argument;
    char sid[16], *model = obtain(frameRoom()), *buffer = obtain((size_t) opt.readSize + 16);
    snprintf(sid, sizeof sid, "%d", FIRST_SID);
    const size_t length = messageFrame(model, 0, sid);
    const char letter = *model;
    size_t kept = 0, skip = 0; /* kept: start of a control line; skip: rest of a message */
    atomic_fetch_add(&waiting, 1);
    for (;;) {
        ssize_t k = linkRead(&me->link, buffer + kept, (size_t) opt.readSize - kept);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return closed(me), NULL;
        size_t have = kept + (size_t) k, i = skip < have ? skip : have;
        long whole = skip && skip <= have;
        bool verified = false;
        skip -= i;
        kept = 0;
        while (i < have) {
            if (buffer[i] != letter) {
                size_t line = controlLine(me, buffer + i, have - i);
                if (!line) {
                    kept = have - i;
                    memmove(buffer, buffer + i, kept);
                    break;
                }
                i += line;
            } else if (have - i >= length) {
                if (!verified) verify(buffer + i, model, length);
                verified = true;
                whole++;
                i += length;
            } else {
                skip = length - (have - i);
                i = have;
            }
        }
        if (whole) {
            atomic_store_explicit(&me->last, now(), memory_order_relaxed);
            atomic_fetch_add_explicit(&me->received, whole, memory_order_release);
        }
    }
}

/* ---- the run */

/* Subscriptions next to the live subjects that match none of them, on a connection of their own. */
static void openOthers(void) {
    static const char *const shapes[] = {"SUB load.*.o%06d.> %d\r\n", "SUB load.o%06d.* %d\r\n", "SUB *.o%06d.x %d\r\n"};
    static struct link link;
    if (!opt.others) return;
    linkOpen(&link, 0);
    char *text = obtain((size_t) opt.others * 64 + 64), *p = text;
    for (int i = 0; i < opt.others; i++) p += sprintf(p, shapes[i % 3], i, i + 1);
    p = stpcpy(p, "PING\r\n");
    linkSend(&link, text, (size_t) (p - text));
    free(text);
    awaitPong(&link);
}

static struct subscriber *startSubscribers(void) {
    struct subscriber *all = obtain(sizeof *all * (size_t) opt.subscribers);
    for (int i = 0; i < opt.subscribers; i++) {
        all[i].index = i;
        linkOpenFar(&all[i].link);
        subscribe(&all[i].link, i);
        if (pthread_create(&all[i].thread, NULL, receive, &all[i])) fail("pthread_create");
        pthread_getcpuclockid(all[i].thread, &all[i].clock);
    }
    return all;
}

static struct publisher *startPublishers(void) {
    struct publisher *all = obtain(sizeof *all * (size_t) opt.publishers);
    for (int i = 0; i < opt.publishers; i++) {
        all[i].index = i;
        if (opt.count) all[i].quota = opt.count / opt.publishers + (i < opt.count % opt.publishers);
        if (opt.count && !all[i].quota) fail("--count must be at least the number of publishers");
        if (pthread_create(&all[i].thread, NULL, publish, &all[i])) fail("pthread_create");
    }
    return all;
}

static double clockSeconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static long totalReceived(struct subscriber *all) {
    long sum = 0;
    for (int i = 0; i < opt.subscribers; i++) sum += atomic_load_explicit(&all[i].received, memory_order_acquire);
    return sum;
}

void runTraffic(void) {
    openOthers();
    struct subscriber *subscribers = startSubscribers();
    awaitInterest(false);
    struct publisher *publishers = startPublishers();
    while (atomic_load(&waiting) < opt.publishers + opt.subscribers) usleep(500);
    usleep(20000);
    double server = serverSeconds(), own = ownSeconds(), begin = now(), end = begin, busiest = 0;
    for (int i = 0; i < opt.subscribers; i++) subscribers[i].before = clockSeconds(subscribers[i].clock);
    deadline = begin + opt.seconds;
    atomic_store(&started, 1);
    long published = 0, received, least = -1;
    for (int i = 0; i < opt.publishers; i++) {
        pthread_join(publishers[i].thread, NULL);
        published += publishers[i].published;
        if (publishers[i].finished > end) end = publishers[i].finished;
        if (publishers[i].cpu > busiest) busiest = publishers[i].cpu;
    }
    double publishing = end - begin, limit = now() + opt.timeout;
    long expected = opt.fanout ? published * opt.subscribers : opt.subscribers ? published : 0;
    while ((received = totalReceived(subscribers)) < expected && !atomic_load(&broken) && now() < limit) usleep(200);
    for (int i = 0; i < opt.subscribers; i++) {
        double last = atomic_load(&subscribers[i].last), cpu = clockSeconds(subscribers[i].clock) - subscribers[i].before;
        long count = atomic_load(&subscribers[i].received);
        if (last > end) end = last;
        if (cpu > busiest) busiest = cpu;
        if (least < 0 || count < least) least = count;
    }
    double wall = end - begin, serverShare = share(server, serverSeconds(), wall), ownShare = share(own, ownSeconds(), wall);
    usleep(20000); /* time for a message too many to show */
    received = totalReceived(subscribers);
    atomic_store(&finished, true);
    printf("{\"mode\":\"traffic\",\"published\":%ld,\"received\":%ld,\"lost\":%ld,\"seconds\":%.6f,\"publish_rate\":%.1f,"
           "\"receive_rate\":%.1f,\"least_share\":%.4f,\"generator_cores\":%.3f,\"busiest_thread\":%.3f,"
           "\"server_cores\":%.3f,\"disconnected\":%s,\"tls\":\"%s\"}\n",
           published, received, expected - received, wall, (double) published / publishing, (double) received / wall,
           received ? (double) least * opt.subscribers / (double) received : 0.0, ownShare, busiest / wall, serverShare,
           atomic_load(&broken) ? "true" : "false", opt.subscribers ? tlsName(&subscribers[0].link) : "");
}
