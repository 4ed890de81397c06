/* Many connections that do little: what they cost the server in memory and how fast it takes them.
 *
 * idle, subscriptions and stalled print a line when their state is reached and keep it until stdin ends, so that the
 * caller can read the server's memory in between. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct link *openAll(int many, int receiveBuffer) {
    struct link *all = obtain(sizeof *all * (size_t) many);
    for (int i = 0; i < many; i++) linkOpen(&all[i], receiveBuffer);
    return all;
}

static void keepUntilTold(void) {
    char byte;
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0) continue;
}

void runIdle(void) {
    double begin = now();
    openAll(opt.connections, 0);
    printf("{\"mode\":\"idle\",\"connections\":%d,\"seconds\":%.6f}\n", opt.connections, now() - begin);
    keepUntilTold();
}

void runSubscriptions(void) {
    enum { LINE = 64, BATCH = 10000 };
    double begin = now();
    struct link *all = openAll(opt.connections, 0);
    char *text = obtain((size_t) BATCH * LINE + 16);
    for (long done = 0; done < opt.count;) {
        char *p = text;
        struct link *link = &all[done / BATCH % opt.connections];
        for (int i = 0; i < BATCH && done < opt.count; i++, done++)
            p += sprintf(p, "SUB memory.%07ld.%s %ld\r\n", done, opt.wild ? "*" : "x", done + 1);
        p = stpcpy(p, "PING\r\n");
        linkSend(link, text, (size_t) (p - text));
        awaitPong(link);
    }
    printf("{\"mode\":\"subscriptions\",\"subscriptions\":%ld,\"connections\":%d,\"seconds\":%.6f}\n", opt.count,
           opt.connections, now() - begin);
    keepUntilTold();
}

/* ---- stalled: subscribers that never read, beside one that does */

static atomic_long healthyMessages;
static _Atomic double longestGap;
static double publishUntil;
static atomic_bool measuring;

static void *readAll(void *argument) {
    struct link *link = argument;
    char sid[] = "1", *buffer = obtain((size_t) opt.readSize), *model = obtain((size_t) opt.size + 512);
    size_t length = messageFrame(model, 0, sid), bytes = 0;
    double previous = now();
    for (;;) {
        ssize_t k = linkRead(link, buffer, (size_t) opt.readSize);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return NULL;
        double time = now();
        if (atomic_load(&measuring) && time - previous > longestGap) longestGap = time - previous;
        previous = time;
        bytes += (size_t) k; /* a few control lines among megabytes of messages do not matter here */
        atomic_store(&healthyMessages, (long) (bytes / length));
    }
}

static void startReader(struct link *link) {
    pthread_t thread;
    linkOpen(link, 0);
    linkSend(link, "SUB load.> 1\r\nPING\r\n", 20);
    awaitPong(link);
    if (pthread_create(&thread, NULL, readAll, link)) fail("pthread_create");
}

static long publishFor(double seconds) {
    struct link link;
    long published = 0;
    char *frame = obtain((size_t) opt.size + 512);
    size_t length = publishFrame(frame, 0);
    linkOpen(&link, 0);
    publishUntil = now() + seconds;
    atomic_store(&measuring, true);
    for (; now() < publishUntil; published++) linkSend(&link, frame, length);
    linkSend(&link, "PING\r\n", 6);
    awaitPong(&link);
    atomic_store(&measuring, false);
    return published;
}

static int disconnectedOf(struct link *all) {
    int gone = 0;
    for (int i = 0; i < opt.connections; i++) {
        struct pollfd state = {.fd = all[i].fd, .events = POLLRDHUP};
        if (poll(&state, 1, 0) == 1 && state.revents & (POLLRDHUP | POLLHUP | POLLERR)) gone++;
    }
    return gone;
}

void runStalled(void) {
    static struct link reader;
    struct link *all = openAll(opt.connections, 4096);
    for (int i = 0; i < opt.connections; i++) {
        linkSend(&all[i], "SUB load.> 1\r\nPING\r\n", 20);
        awaitPong(&all[i]);
    }
    startReader(&reader);
    double begin = now();
    long published = publishFor(opt.seconds);
    printf("{\"mode\":\"stalled\",\"connections\":%d,\"disconnected\":%d,\"published\":%ld,\"healthy\":%ld,"
           "\"longest_gap\":%.6f,\"seconds\":%.6f}\n",
           opt.connections, disconnectedOf(all), published, (long) healthyMessages, (double) longestGap, now() - begin);
    keepUntilTold();
}
