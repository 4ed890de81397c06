/* Request/reply: --in-flight requesters, each on its own connection with one request outstanding, and a responder.
 *
 * All requesters live in one thread (a thread each would measure the scheduler), and a single one skips epoll. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { BUFFER = 1 << 20, MOST_SAMPLES = 1 << 23 };

struct requester {
    struct link link;
    char *request, *reply, *buffer;
    size_t requestLength, replyLength, have;
    double sent;
};

static uint32_t *samples;
static long sampled;

/* ---- the responder: answers each "MSG svc.echo SID INBOX SIZE" with a payload of the same size */

static size_t answer(char *out, const char *line, size_t lineLength) {
    const char *inbox = line, *end = line + lineLength;
    for (int word = 0; word < 3; word++) {
        inbox = memchr(inbox, ' ', (size_t) (end - inbox));
        if (!inbox++) fail("a request without reply subject: %.*s", (int) lineLength, line);
    }
    const char *after = memchr(inbox, ' ', (size_t) (end - inbox));
    if (!after) fail("a request without reply subject: %.*s", (int) lineLength, line);
    char *p = out + sprintf(out, "PUB %.*s %d\r\n", (int) (after - inbox), inbox, opt.size);
    memset(p, 'r', (size_t) opt.size);
    p = stpcpy(p + opt.size, "\r\n");
    return (size_t) (p - out);
}

static void *respond(void *argument) {
    struct link *link = argument;
    size_t room = (size_t) opt.size + 256, have = 0, capacity = BUFFER + room;
    char *in = obtain(capacity), *out = obtain(2 * capacity + room);
    for (;;) {
        ssize_t k = linkRead(link, in + have, capacity - have);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) fail("the responder was disconnected");
        have += (size_t) k;
        size_t i = 0, written = 0;
        for (char *end; (end = memchr(in + i, '\n', have - i));) {
            size_t line = (size_t) (end - (in + i)) + 1;
            if (in[i] == 'P') written += (size_t) sprintf(out + written, "PONG\r\n");
            else if (in[i] == '-') fail("%.*s", (int) line, in + i);
            else if (in[i] == 'M') {
                size_t whole = line + (size_t) opt.size + 2;
                if (have - i < whole) break;
                written += answer(out + written, in + i, line);
                line = whole;
            }
            i += line;
            if (written > capacity) { /* many small requests at once: never more than out holds */
                linkSend(link, out, written);
                written = 0;
            }
        }
        if (written) linkSend(link, out, written);
        memmove(in, in + i, have - i);
        have -= i;
    }
}

static struct link *startResponders(void) {
    int many = opt.subscribers ? opt.subscribers : 1;
    struct link *all = obtain(sizeof *all * (size_t) many);
    for (int i = 0; i < many; i++) {
        char text[256];
        pthread_t thread;
        linkOpenFar(&all[i]);
        int k = snprintf(text, sizeof text, "SUB svc.echo %s 1\r\nPING\r\n", opt.queue ? opt.queue : "");
        linkSend(&all[i], text, (size_t) k);
        awaitPong(&all[i]);
        if (pthread_create(&thread, NULL, respond, &all[i])) fail("pthread_create");
    }
    return all;
}

/* ---- requesters */

static void openRequester(struct requester *me, int index) {
    char text[256];
    size_t size = (size_t) opt.size;
    linkOpen(&me->link, 0);
    int k = sprintf(text, "SUB _INBOX.%06d.* 1\r\nPING\r\n", index);
    linkSend(&me->link, text, (size_t) k);
    awaitPong(&me->link);
    me->request = obtain(size + 256);
    me->reply = obtain(size + 256);
    me->buffer = obtain(size + 4096);
    k = sprintf(me->request, "PUB svc.echo _INBOX.%06d.1 %d\r\n", index, opt.size);
    memset(me->request + k, 'q', size);
    me->requestLength = (size_t) (stpcpy(me->request + k + size, "\r\n") - me->request);
    k = sprintf(me->reply, "MSG _INBOX.%06d.1 1 %d\r\n", index, opt.size);
    memset(me->reply + k, 'r', size);
    me->replyLength = (size_t) (stpcpy(me->reply + k + size, "\r\n") - me->reply);
}

static void ask(struct requester *me) {
    me->sent = now();
    linkSend(&me->link, me->request, me->requestLength);
}

/* Lines from the server that are no reply: PING is answered, INFO passed over. */
static void dropControlLines(struct requester *me) {
    char *end;
    while (me->have && *me->buffer != 'M' && (end = memchr(me->buffer, '\n', me->have))) {
        size_t line = (size_t) (end - me->buffer) + 1;
        if (*me->buffer == '-' || *me->buffer == 'H') fail("instead of a reply: %.*s", (int) line, me->buffer);
        if (!strncmp(me->buffer, "PING", 4)) linkSend(&me->link, "PONG\r\n", 6);
        me->have -= line;
        memmove(me->buffer, me->buffer + line, me->have);
    }
}

/* One read; true when the reply is whole. What the server says behind it stays in the buffer, unless it is whole too. */
static bool heard(struct requester *me) {
    ssize_t k = linkRead(&me->link, me->buffer + me->have, me->replyLength + 2048 - me->have);
    if (k < 0 && errno == EINTR) return false;
    if (k <= 0) fail("a requester was disconnected");
    me->have += (size_t) k;
    if (*me->buffer != 'M') dropControlLines(me);
    if (me->have < me->replyLength) return false;
    if (memcmp(me->buffer, me->reply, me->replyLength) || (me->have > me->replyLength && me->buffer[me->replyLength] == 'M'))
        fail("a wrong reply: %.*s", (int) (me->have < 80 ? me->have : 80), me->buffer);
    me->have -= me->replyLength;
    memmove(me->buffer, me->buffer + me->replyLength, me->have);
    dropControlLines(me);
    return true;
}

static void note(struct requester *me, double time, double from) {
    if (me->sent >= from && sampled < MOST_SAMPLES) samples[sampled++] = (uint32_t) ((time - me->sent) * 1e8);
}

static double runOne(struct requester *me, double from, double until) {
    double time = from;
    for (ask(me); time < until;) {
        if (!heard(me)) continue;
        time = now();
        note(me, time, from);
        ask(me);
    }
    return time;
}

static double runMany(struct requester *all, double from, double until) {
    struct epoll_event events[256];
    double time = from;
    int poll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < opt.inFlight; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, all[i].link.fd, &event)) fail("epoll_ctl: %s", strerror(errno));
    }
    for (int i = 0; i < opt.inFlight; i++) ask(&all[i]);
    while (time < until) {
        int many = epoll_wait(poll, events, 256, opt.timeout * 1000);
        if (many < 0 && errno == EINTR) continue;
        if (many <= 0) fail("no reply within %d seconds", opt.timeout);
        for (int i = 0; i < many; i++) {
            struct requester *me = events[i].data.ptr;
            if (!heard(me)) continue;
            time = now();
            note(me, time, from);
            ask(me);
        }
    }
    return time;
}

void runRequests(void) {
    struct requester *all = obtain(sizeof *all * (size_t) opt.inFlight);
    samples = obtain(sizeof *samples * MOST_SAMPLES);
    struct link *responders = startResponders();
    for (int i = 0; i < opt.inFlight; i++) openRequester(&all[i], i);
    awaitInterest(false);
    awaitInterest(true);
    double begin = now(), from = begin + opt.warmup, own = ownSeconds(), thread = threadSeconds(), server = serverSeconds();
    double end = (opt.inFlight == 1 ? runOne : runMany)(all, from, from + opt.seconds), wall = end - begin;
    double serverShare = share(server, serverSeconds(), wall), ownShare = share(own, ownSeconds(), wall);
    double busiest = share(thread, threadSeconds(), wall);
    sortSamples(samples, sampled);
    if (!sampled) fail("no reply in the time given");
    printf("{\"mode\":\"request\",\"round_trips\":%ld,\"seconds\":%.6f,\"rate\":%.1f,\"p50_us\":%.2f,\"p99_us\":%.2f,"
           "\"p999_us\":%.2f,\"max_us\":%.2f,\"generator_cores\":%.3f,\"busiest_thread\":%.3f,\"server_cores\":%.3f,"
           "\"tls\":\"%s\"}\n",
           sampled, wall, (double) sampled / (end - from), microseconds(samples, sampled, 0.5),
           microseconds(samples, sampled, 0.99), microseconds(samples, sampled, 0.999), microseconds(samples, sampled, 1.0),
           ownShare, busiest, serverShare, tlsName(&responders[0]));
}
