/* A storm of connections: all of them as fast as they are served, while others that are established go on. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

enum phase { NEW, AWAITS_INFO, AWAITS_PONG, CONNECTED, FAILED };

struct client {
    int fd;
    enum phase phase;
    char start[4]; /* of the line being received */
    int length;
};

static struct client *clients;
static int opened, pending, connected, failed, poll;
static char hello[1024];
static size_t helloLength;

static void startClient(struct client *me) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = me};
    me->fd = dial(opt.port, 0, false);
    me->phase = AWAITS_INFO;
    if (epoll_ctl(poll, EPOLL_CTL_ADD, me->fd, &event)) fail("epoll_ctl: %s", strerror(errno));
    opened++;
    pending++;
}

static void leave(struct client *me, enum phase phase) {
    if (me->phase != AWAITS_INFO && me->phase != AWAITS_PONG) {
        if (me->phase == CONNECTED && phase == FAILED) connected--, failed++;
    } else {
        pending--;
        if (phase == CONNECTED) connected++;
        else failed++;
    }
    me->phase = phase;
    if (phase == FAILED) {
        close(me->fd);
        me->fd = -1;
    }
}

static void lineEnded(struct client *me) {
    if (me->phase == AWAITS_INFO && !memcmp(me->start, "INFO", 4)) {
        me->phase = AWAITS_PONG;
        if (write(me->fd, hello, helloLength) != (ssize_t) helloLength) leave(me, FAILED);
    } else if (me->phase == AWAITS_PONG && !memcmp(me->start, "PONG", 4)) leave(me, CONNECTED);
    else if (!memcmp(me->start, "-ERR", 4)) leave(me, FAILED);
}

static void readClient(struct client *me) {
    char text[8192];
    ssize_t k = read(me->fd, text, sizeof text);
    if (k < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (k <= 0) {
        leave(me, FAILED);
        return;
    }
    for (ssize_t i = 0; i < k && me->phase != FAILED; i++) {
        if (text[i] == '\n') {
            lineEnded(me);
            me->length = 0;
        } else if (me->length < 4) me->start[me->length++] = text[i];
    }
}

static void turn(int milliseconds) {
    struct epoll_event events[512];
    int many = epoll_wait(poll, events, 512, milliseconds);
    for (int i = 0; i < many; i++) {
        struct client *me = events[i].data.ptr;
        if (me->phase != FAILED) readClient(me);
    }
}

/* ---- established clients, pinged one after the other while the storm lasts */

static atomic_bool stormOver;
static uint32_t *samples;
static long sampled;
enum { MOST_SAMPLES = 1 << 20 };

static void *pingEstablished(void *argument) {
    struct link *all = argument;
    for (int i = 0; !atomic_load(&stormOver) && sampled < MOST_SAMPLES; i = (i + 1) % opt.established) {
        double sent = now();
        linkSend(&all[i], "PING\r\n", 6);
        awaitPong(&all[i]);
        samples[sampled++] = (uint32_t) ((now() - sent) * 1e8);
        usleep(1000);
    }
    return NULL;
}

static pthread_t startEstablished(void) {
    pthread_t thread = 0;
    struct link *all = obtain(sizeof *all * (size_t) opt.established);
    samples = obtain(sizeof *samples * MOST_SAMPLES);
    for (int i = 0; i < opt.established; i++) linkOpen(&all[i], 0);
    if (opt.established && pthread_create(&thread, NULL, pingEstablished, all)) fail("pthread_create");
    return thread;
}

/* ---- the run */

static void askAgain(void) { /* every client that is connected must still answer */
    for (int i = 0; i < opt.connections; i++) {
        struct client *me = &clients[i];
        if (me->phase != CONNECTED) continue;
        me->phase = AWAITS_PONG;
        connected--;
        pending++;
        if (write(me->fd, "PING\r\n", 6) != 6) leave(me, FAILED);
    }
}

static void checkDescriptors(void) {
    struct rlimit limit;
    rlim_t needed = (rlim_t) opt.connections + (rlim_t) opt.established + 32;
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < needed)
        fail("%ju open files are needed and %ju allowed (ulimit -n)", (uintmax_t) needed, (uintmax_t) limit.rlim_cur);
}

void runStorm(void) {
    if (opt.tls) fail("the storm speaks plain TCP only");
    checkDescriptors();
    poll = epoll_create1(EPOLL_CLOEXEC);
    clients = obtain(sizeof *clients * (size_t) opt.connections);
    helloLength = connectText(hello, sizeof hello);
    pthread_t established = startEstablished();
    double begin = now(), limit = begin + opt.timeout, own = ownSeconds(), server = serverSeconds();
    while ((opened < opt.connections || pending) && now() < limit) {
        while (opened < opt.connections && pending < opt.window) startClient(&clients[opened]);
        turn(100);
    }
    double wall = now() - begin, serverShare = share(server, serverSeconds(), wall), ownShare = share(own, ownSeconds(), wall);
    int served = connected;
    askAgain();
    for (limit = now() + opt.timeout; pending && now() < limit;) turn(100);
    atomic_store(&stormOver, true);
    if (opt.established) pthread_join(established, NULL);
    sortSamples(samples, sampled);
    printf("{\"mode\":\"storm\",\"connections\":%d,\"connected\":%d,\"answering\":%d,\"seconds\":%.6f,\"rate\":%.1f,"
           "\"ping_p50_us\":%.2f,\"ping_p99_us\":%.2f,\"ping_max_us\":%.2f,\"generator_cores\":%.3f,\"server_cores\":%.3f}\n",
           opt.connections, served, connected, wall, served / wall, microseconds(samples, sampled, 0.5),
           microseconds(samples, sampled, 0.99), microseconds(samples, sampled, 1.0), ownShare, serverShare);
}
