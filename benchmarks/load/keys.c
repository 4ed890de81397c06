/* Streams of many subjects, and the requests that read them: key-value buckets are such streams.
 *
 * Every mode makes a stream and stores --count messages over --subjects subjects first. */
#define _GNU_SOURCE
#include "stream.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WRITERS = 64, MOST_LATENCIES = 1 << 21, DEEPEST = 1024 };

#define GET "$JS.API.DIRECT.GET.LOAD"

static uint32_t *latencies;
static long measured;

/* ---- storing */

static void makeStream(struct session *me, int perSubject) {
    char config[256];
    int k = snprintf(config, sizeof config,
                     "{\"name\":\"LOAD\",\"subjects\":[\"load.>\"],\"storage\":\"file\",\"allow_direct\":true,\"discard\":\"new\","
                     "\"allow_rollup_hdrs\":true,\"max_msgs_per_subject\":%d}", perSubject);
    checkJson(ask(me, "$JS.API.STREAM.CREATE.LOAD", config, (size_t) k));
}

static size_t keyFrame(struct session *me, char *out, long key) {
    size_t k = (size_t) sprintf(out, "PUB load.%07ld %s.ack %d\r\n", key, me->inbox, opt.size);
    memset(out + k, 'x', (size_t) opt.size);
    memcpy(out + k + (size_t) opt.size, "\r\n", 2);
    return k + (size_t) opt.size + 2;
}

void checkStored(const struct message *message) {
    if (memcmp(message->body, "{\"stream\":", 10) || hasText(*message, "\"error\""))
        fail("not stored: %.*s", (int) message->bodyLength, message->body);
}

void storeMessages(struct session *me, long count, long subjects) {
    char *out = obtain(ROOM);
    long sent = 0, acked = 0;
    struct message message;
    while (acked < count) {
        size_t filled = 0;
        for (; sent < count && sent - acked < opt.window && filled + (size_t) opt.size + 256 < ROOM; sent++)
            filled += keyFrame(me, out + filled, sent % subjects);
        if (filled) linkSend(&me->link, out, filled);
        while (takeMessage(me, &message))
            if (message.sid == ACKS) {
                checkStored(&message);
                acked++;
            }
        if (acked < count && (sent == count || sent - acked >= opt.window)) readMore(me);
    }
    free(out);
}

/* Store --count messages, one subject after the other. */
static void storeKeys(struct session *me) { storeMessages(me, opt.count, opt.subjects); }

static void report(const char *mode, long done, double wall, double ownShare, double serverShare) {
    sortSamples(latencies, measured);
    printf("{\"mode\":\"%s\",\"done\":%ld,\"seconds\":%.6f,\"rate\":%.1f,\"p50_us\":%.2f,\"p99_us\":%.2f,\"generator_cores\":%.3f,"
           "\"server_cores\":%.3f}\n",
           mode, done, wall, (double) done / wall, microseconds(latencies, measured, 0.5), microseconds(latencies, measured, 0.99),
           ownShare, serverShare);
}

/* ---- key-value puts: writers with one message in flight each */

struct writer {
    struct session session;
    pthread_t thread;
    double until;
    int number;
    long stored;
};

static void *putKeys(void *argument) {
    struct writer *one = argument;
    struct session *me = &one->session;
    char *out = obtain((size_t) opt.size + 256);
    for (long key = one->number; now() < one->until; key += opt.publishers) {
        linkSend(&me->link, out, keyFrame(me, out, key % opt.subjects));
        struct message message = awaitMessage(me, ACKS);
        checkStored(&message);
        one->stored++;
    }
    free(out);
    return NULL;
}

void runPut(void) {
    struct session me = {0};
    struct writer *writers = obtain(sizeof *writers * MOST_WRITERS);
    if (opt.publishers > MOST_WRITERS) fail("too many publishers");
    enterSession(&me);
    makeStream(&me, 1);
    storeKeys(&me);
    for (int i = 0; i < opt.publishers; i++) enterSession(&writers[i].session);
    double begin = now(), own = ownSeconds(), server = serverSeconds();
    for (int i = 0; i < opt.publishers; i++) {
        writers[i].until = begin + opt.seconds;
        writers[i].number = i;
        if (pthread_create(&writers[i].thread, NULL, putKeys, &writers[i])) fail("pthread_create");
    }
    long stored = 0;
    for (int i = 0; i < opt.publishers; i++) {
        pthread_join(writers[i].thread, NULL);
        stored += writers[i].stored;
    }
    double wall = now() - begin, serverShare = share(server, serverSeconds(), wall), ownShare = share(own, ownSeconds(), wall);
    latencies = obtain(sizeof *latencies);
    report("put", stored, wall, ownShare, serverShare);
}

/* ---- direct gets: --in-flight requests outstanding, by subject, or with --wild by sequence */

static unsigned dice = 12345;

static long random_(long below) {
    dice = dice * 1664525u + 1013904223u;
    return (long) ((uint64_t) dice * (uint64_t) below >> 32);
}

static size_t getFrame(struct session *me, char *out) {
    if (!opt.wild) return (size_t) sprintf(out, "PUB " GET ".load.%07ld %s.ack 0\r\n\r\n", random_(opt.subjects), me->inbox);
    char body[64];
    int length = snprintf(body, sizeof body, "{\"seq\":%ld}", 1 + random_(opt.count));
    return (size_t) sprintf(out, "PUB " GET " %s.ack %d\r\n%s\r\n", me->inbox, length, body);
}

static void checkFound(const struct message *message) {
    if (message->bodyLength < (size_t) opt.size || !memmem(message->body, message->bodyLength, "Nats-Sequence", 13))
        fail("not found: %.*s", (int) message->bodyLength, message->body);
}

void runGet(void) {
    struct session me = {0};
    char out[512];
    double sent[DEEPEST];
    if (opt.inFlight > DEEPEST) fail("too many in flight");
    enterSession(&me);
    makeStream(&me, opt.wild ? -1 : 1);
    storeKeys(&me);
    latencies = obtain(sizeof *latencies * MOST_LATENCIES);
    double begin = now(), own = ownSeconds(), server = serverSeconds();
    long asked = 0, got = 0;
    for (bool over = false; !over || got < asked;) {
        over = over || now() >= begin + opt.seconds;
        for (; !over && asked - got < opt.inFlight; asked++) {
            sent[asked % opt.inFlight] = now();
            linkSend(&me.link, out, getFrame(&me, out));
        }
        if (got == asked) break;
        struct message message = awaitMessage(&me, ACKS);
        checkFound(&message);
        if (measured < MOST_LATENCIES) latencies[measured++] = (uint32_t) ((now() - sent[got % opt.inFlight]) * 1e8);
        got++;
    }
    double wall = now() - begin;
    report("get", got, wall, share(own, ownSeconds(), wall), share(server, serverSeconds(), wall));
}

/* ---- batched direct gets: all messages, --window a request */

void runBatch(void) {
    struct session me = {0};
    enterSession(&me);
    makeStream(&me, -1);
    storeKeys(&me);
    latencies = obtain(sizeof *latencies * MOST_LATENCIES);
    double begin = now(), own = ownSeconds(), server = serverSeconds();
    long got = 0, next = 1;
    while (now() < begin + opt.seconds) {
        char body[96], reply[96];
        snprintf(reply, sizeof reply, "%s.ack", me.inbox);
        int length = snprintf(body, sizeof body, "{\"seq\":%ld,\"batch\":%d}", next, opt.window);
        sendPublication(&me, GET, reply, body, (size_t) length);
        for (;;) {
            struct message message = awaitMessage(&me, ACKS);
            if (message.bodyLength >= 12 && !memcmp(message.body, "NATS/1.0 204", 12)) break;
            checkFound(&message);
            got++;
            next++;
        }
        if (next + opt.window > opt.count) next = 1;
    }
    double wall = now() - begin;
    report("batch", got, wall, share(own, ownSeconds(), wall), share(server, serverSeconds(), wall));
}

/* ---- replay of all messages to an ordered consumer, or with --wild to one with a filter that matches every subject */

static void startOrdered(struct session *me) {
    char request[512], listen[128];
    int k = snprintf(request, sizeof request,
                     "{\"stream_name\":\"LOAD\",\"config\":{\"deliver_subject\":\"%s.deliver\",\"deliver_policy\":\"all\",\"ack_policy\":\"none\","
                     "\"max_deliver\":1,\"mem_storage\":true,\"num_replicas\":1,\"flow_control\":true,\"idle_heartbeat\":5000000000%s}}",
                     me->inbox, opt.wild ? ",\"filter_subject\":\"load.>\"" : "");
    checkJson(ask(me, "$JS.API.CONSUMER.CREATE.LOAD", request, (size_t) k));
    linkSend(&me->link, listen, (size_t) snprintf(listen, sizeof listen, "SUB %s.deliver %d\r\n", me->inbox, DELIVERIES));
}

void runOrdered(void) {
    struct session me = {0}, reader = {0};
    enterSession(&me);
    makeStream(&me, -1);
    storeKeys(&me);
    enterSession(&reader);
    startPinging();
    double begin = now(), own = ownSeconds(), server = serverSeconds();
    long got = 0;
    startOrdered(&reader);
    for (; got < opt.count; got++) awaitMessage(&reader, DELIVERIES);
    double wall = now() - begin;
    double serverShare = share(server, serverSeconds(), wall), ownShare = share(own, ownSeconds(), wall);
    uint32_t *sorted;
    long pings = stopPinging(&sorted);
    printf("{\"mode\":\"ordered\",\"messages\":%ld,\"seconds\":%.6f,\"rate\":%.1f,\"ping_p99_us\":%.2f,\"generator_cores\":%.3f,"
           "\"server_cores\":%.3f}\n",
           got, wall, (double) got / wall, microseconds(sorted, pings, 0.99), ownShare, serverShare);
}

/* ---- --connections streams and --count consumers that nobody uses, kept until stdin ends */

void runAssets(void) {
    struct session me = {0};
    char subject[128], body[256], byte;
    enterSession(&me);
    for (int i = 0; i < opt.connections; i++) {
        snprintf(subject, sizeof subject, "$JS.API.STREAM.CREATE.S%d", i);
        int k = snprintf(body, sizeof body, "{\"name\":\"S%d\",\"subjects\":[\"assets.%d\"],\"storage\":\"file\"}", i, i);
        checkJson(ask(&me, subject, body, (size_t) k));
    }
    for (long i = 0; i < opt.count; i++) {
        long stream = i % opt.connections;
        snprintf(subject, sizeof subject, "$JS.API.CONSUMER.DURABLE.CREATE.S%ld.c%ld", stream, i);
        int k = snprintf(body, sizeof body,
                         "{\"stream_name\":\"S%ld\",\"config\":{\"durable_name\":\"c%ld\",\"ack_policy\":\"explicit\"}}", stream, i);
        checkJson(ask(&me, subject, body, (size_t) k));
    }
    printf("{\"mode\":\"assets\",\"streams\":%d,\"consumers\":%ld}\n", opt.connections, opt.count);
    fflush(stdout);
    while (read(0, &byte, 1) > 0) continue;
}
