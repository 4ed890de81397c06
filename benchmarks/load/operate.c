/* Ordinary operations: --in-flight clients that do one thing, wait for its answer, and do it again; the cost of each to the server.
 *
 * An operation is a row of the table below: the stream that it needs, what each client makes for itself, and what it does once.
 * Afterwards the server is asked whether it has stored, removed, created and deleted as much as was answered. */
#define _GNU_SOURCE
#include "stream.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARMING = 5, KEYS = 100, CHUNK = 128 << 10, CHUNKS = 2 };

struct client {
    struct session session;
    int number;
    long done, sequence; /* operations, and the sequence of what it stored last */
    double until;
};

struct operation {
    const char *name, *config; /* of the stream LOAD, behind its name and subjects; NULL if there is none */
    int keys;                  /* how many messages are stored first, each on its own subject */
    int takes;                 /* how many stored messages one operation removes */
    int consumers;             /* that are there at the end: 1, or -1 for one of each client */
    void (*enter)(struct client *me);
    void (*once)(struct client *me);
};

static const struct operation *operation;
static char payload[CHUNK];
static long stored, taken, created;

/* ---- pieces of operations */

static void noteStored(struct client *me, struct message answer) {
    checkStored(&answer);
    const char *digits = memmem(answer.body, answer.bodyLength, "\"seq\":", 6);
    long sequence = digits ? atol(digits + 6) : 0;
    if (sequence <= me->sequence) fail("sequence %ld after %ld: %.*s", sequence, me->sequence, (int) answer.bodyLength, answer.body);
    me->sequence = sequence;
    stored++;
}

static void store(struct client *me, const char *subject, const char *headers, size_t length) {
    noteStored(me, askHeaders(&me->session, subject, headers, payload, length));
}

/* A request of JetStream's API whose answer must have a text in it, and no error. */
static struct message request(struct session *me, const char *wanted, const char *subject, const char *body) {
    struct message answer = ask(me, subject, body, strlen(body));
    checkJson(answer);
    if (!hasText(answer, wanted)) fail("%s: no %s in %.*s", subject, wanted, (int) answer.bodyLength, answer.body);
    return answer;
}

static void makeConsumer(struct client *me, const char *name, const char *filter, const char *rest) {
    char subject[160], body[512];
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.CREATE.LOAD.%s.%s", name, filter);
    snprintf(body, sizeof body, "{\"stream_name\":\"LOAD\",\"config\":{\"name\":\"%s\",\"filter_subject\":\"%s\",%s}}", name, filter, rest);
    request(&me->session, "\"created\"", subject, body);
}

static void deleteConsumer(struct client *me, const char *name) {
    char subject[96];
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.DELETE.LOAD.%s", name);
    request(&me->session, "\"success\":true", subject, "");
}

static void listen(struct client *me) {
    char line[128];
    linkSend(&me->session.link, line, (size_t) snprintf(line, sizeof line, "SUB %s.deliver %d\r\n", me->session.inbox, DELIVERIES));
}

static void keySubject(char *out, const struct client *me, long keys) { sprintf(out, "load.%07ld", me->number * keys + me->done % keys); }

static void checkDelivered(struct message message) {
    if (!message.replyLength || message.bodyLength != (size_t) opt.size) fail("not delivered: %.*s", (int) message.bodyLength, message.body);
}

static void acknowledge(struct client *me, struct message message, bool confirmed) {
    char subject[256];
    snprintf(subject, sizeof subject, "%.*s", (int) message.replyLength, message.reply);
    if (!confirmed) sendPublication(&me->session, subject, "", "+ACK", 4);
    else if (ask(&me->session, subject, "+ACK", 4).bodyLength) fail("not confirmed: %s", subject);
    taken++;
}

/* Wait for an answer without error and for some deliveries, in whatever order they come. */
static void awaitAnswered(struct client *me, int deliveries) {
    for (bool answered = false; !answered || deliveries;) {
        struct message message = awaitMessage(&me->session, 0);
        if (message.sid == ANSWERS) {
            checkJson(message);
            answered = true;
        } else if (message.sid == DELIVERIES) {
            checkDelivered(message);
            deliveries--;
        }
    }
}

/* ---- operations */

static void publishOnce(struct client *me) {
    char subject[32];
    keySubject(subject, me, KEYS);
    store(me, subject, "", (size_t) opt.size);
}

static void publishEnding(struct client *me) {
    char subject[32];
    keySubject(subject, me, KEYS);
    store(me, subject, "NATS/1.0\r\nNats-TTL: 3600\r\n\r\n", (size_t) opt.size);
}

static void publishIdentified(struct client *me) {
    char subject[32], headers[64];
    keySubject(subject, me, KEYS);
    snprintf(headers, sizeof headers, "NATS/1.0\r\nNats-Msg-Id: %d-%ld\r\n\r\n", me->number, me->done);
    store(me, subject, headers, (size_t) opt.size);
    if (me->done) return;
    struct message again = askHeaders(&me->session, subject, headers, payload, (size_t) opt.size);
    if (!hasText(again, "\"duplicate\": true")) fail("stored again: %.*s", (int) again.bodyLength, again.body);
}

static struct message update(struct client *me, long expected) {
    char subject[32], headers[96];
    keySubject(subject, me, 1);
    snprintf(headers, sizeof headers, "NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: %ld\r\n\r\n", expected);
    return askHeaders(&me->session, subject, headers, payload, (size_t) opt.size);
}

static void updateOnce(struct client *me) {
    if (!me->done && !hasText(update(me, 1L << 30), "wrong last sequence")) fail("stored in spite of another sequence");
    noteStored(me, update(me, me->sequence));
}

static void getOnce(struct client *me) {
    char subject[32], asked[64];
    sprintf(subject, "load.%07ld", (me->number * 37 + me->done) % KEYS);
    snprintf(asked, sizeof asked, "$JS.API.DIRECT.GET.LOAD.%s", subject);
    struct message answer = ask(&me->session, asked, "", 0);
    if (answer.bodyLength < (size_t) opt.size || !hasText(answer, subject)) fail("not found: %.*s", (int) answer.bodyLength, answer.body);
}

static void enterWorkers(struct client *me) {
    listen(me);
    request(&me->session, "\"created\"", "$JS.API.CONSUMER.DURABLE.CREATE.LOAD.workers",
            "{\"stream_name\":\"LOAD\",\"config\":{\"durable_name\":\"workers\",\"ack_policy\":\"explicit\",\"max_ack_pending\":5000}}");
}

static void fetchOnce(struct client *me) {
    char body[64], inbox[96];
    struct message message;
    snprintf(inbox, sizeof inbox, "%s.deliver", me->session.inbox);
    int k = snprintf(body, sizeof body, "{\"batch\":%d,\"expires\":5000000000}", operation->takes);
    sendPublication(&me->session, "$JS.API.CONSUMER.MSG.NEXT.LOAD.workers", inbox, body, (size_t) k);
    for (int left = operation->takes; left--;) {
        checkDelivered(message = awaitMessage(&me->session, DELIVERIES));
        acknowledge(me, message, !left);
    }
}

static void enterPush(struct client *me) {
    char name[32], filter[32], rest[256];
    snprintf(name, sizeof name, "push%d", me->number);
    keySubject(filter, me, 1);
    snprintf(rest, sizeof rest, "\"deliver_subject\":\"%s.deliver\",\"ack_policy\":\"explicit\",\"max_ack_pending\":1", me->session.inbox);
    makeConsumer(me, name, filter, rest);
    listen(me);
}

static void takePushed(struct client *me) {
    struct message message = awaitMessage(&me->session, DELIVERIES);
    checkDelivered(message);
    acknowledge(me, message, false);
}

/* The consumer of a watch, as clients of buckets create it: ordered, with the last message of each subject, or only new ones. */
static void sendWatch(struct client *me, const char *name, const char *filter, const char *policy) {
    char subject[160], body[768], reply[96];
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.CREATE.LOAD.%s.%s", name, filter);
    snprintf(reply, sizeof reply, "%s.answer.watch", me->session.inbox);
    int k = snprintf(body, sizeof body,
                     "{\"stream_name\":\"LOAD\",\"config\":{\"name\":\"%s\",\"filter_subject\":\"%s\",\"deliver_subject\":\"%s.deliver\","
                     "\"deliver_policy\":\"%s\",\"ack_policy\":\"none\",\"max_deliver\":1,\"mem_storage\":true,\"num_replicas\":1,"
                     "\"flow_control\":true,\"idle_heartbeat\":5000000000,\"inactive_threshold\":300000000000}}",
                     name, filter, me->session.inbox, policy);
    sendPublication(&me->session, subject, reply, body, (size_t) k);
}

static void watchOnce(struct client *me) {
    char name[32], line[32];
    listen(me);
    snprintf(name, sizeof name, "watch%dx%ld", me->number, me->done);
    sendWatch(me, name, "load.>", "last_per_subject");
    awaitAnswered(me, KEYS);
    linkSend(&me->session.link, line, (size_t) snprintf(line, sizeof line, "UNSUB %d\r\n", DELIVERIES));
    deleteConsumer(me, name);
}

static void enterWatched(struct client *me) {
    char name[32], filter[32];
    listen(me);
    snprintf(name, sizeof name, "watch%d", me->number);
    keySubject(filter, me, 1);
    sendWatch(me, name, filter, "new");
    awaitAnswered(me, 0);
}

static void putWatched(struct client *me) {
    char subject[32], reply[96];
    keySubject(subject, me, 1);
    snprintf(reply, sizeof reply, "%s.answer.put", me->session.inbox);
    sendPublication(&me->session, subject, reply, payload, (size_t) opt.size);
    awaitAnswered(me, 1);
    stored++;
}

static void infoOnce(struct client *me) {
    char wanted[32];
    snprintf(wanted, sizeof wanted, "\"messages\":%d,", KEYS);
    request(&me->session, wanted, "$JS.API.STREAM.INFO.LOAD", "");
}

static void consumerOnce(struct client *me) {
    char name[32];
    snprintf(name, sizeof name, "c%dx%ld", me->number, me->done);
    makeConsumer(me, name, "load.0000001", "\"ack_policy\":\"none\",\"inactive_threshold\":60000000000");
    deleteConsumer(me, name);
}

static void streamOnce(struct client *me) {
    char subject[96], body[160];
    int i = me->number;
    snprintf(subject, sizeof subject, "$JS.API.STREAM.CREATE.new%dx%ld", i, me->done);
    snprintf(body, sizeof body, "{\"name\":\"new%dx%ld\",\"subjects\":[\"new.%d.%ld.>\"],\"storage\":\"file\"}", i, me->done, i, me->done);
    request(&me->session, "\"created\"", subject, body);
    created++;
}

static void objectOnce(struct client *me) {
    char chunks[64], meta[64], asked[96];
    snprintf(chunks, sizeof chunks, "load.C.%dx%ld", me->number, me->done);
    snprintf(meta, sizeof meta, "load.M.%dx%ld", me->number, me->done);
    snprintf(asked, sizeof asked, "$JS.API.DIRECT.GET.LOAD.%s", meta);
    if (!hasText(ask(&me->session, asked, "", 0), "NATS/1.0 404")) fail("%s is there already", meta);
    for (int i = 0; i < CHUNKS; i++) store(me, chunks, "", CHUNK);
    store(me, meta, "NATS/1.0\r\nNats-Rollup: sub\r\n\r\n", 256);
}

static void requestOnce(struct client *me) {
    struct message answer = ask(&me->session, "service", payload, (size_t) opt.size);
    if (answer.bodyLength != (size_t) opt.size || memcmp(answer.body, payload, answer.bodyLength))
        fail("a wrong reply: %.*s", (int) answer.bodyLength, answer.body);
}

static void connectOnce(struct client *me) {
    (void) me;
    struct link link;
    linkOpen(&link, 0);
    linkClose(&link);
}

#define BUCKET ",\"max_msgs_per_subject\":1,\"discard\":\"new\",\"allow_direct\":true,\"allow_rollup_hdrs\":true,\"deny_delete\":true"
#define OBJECTS ",\"discard\":\"new\",\"allow_direct\":true,\"allow_rollup_hdrs\":true"
#define WORK ",\"retention\":\"workqueue\""

static const struct operation operations[] = {
    {"request", NULL, 0, 0, 0, NULL, requestOnce},
    {"connect", NULL, 0, 0, 0, NULL, connectOnce},
    {"publish", "", 0, 0, 0, NULL, publishOnce},
    {"publish-id", "", 0, 0, 0, NULL, publishIdentified},
    {"put", BUCKET, 0, 0, 0, NULL, publishOnce},
    {"put-ttl", BUCKET ",\"allow_msg_ttl\":true", 0, 0, 0, NULL, publishEnding},
    {"get", BUCKET, KEYS, 0, 0, NULL, getOnce},
    {"update", BUCKET, 0, 0, 0, NULL, updateOnce},
    {"fetch-1", WORK, 0, 1, 1, enterWorkers, fetchOnce},
    {"fetch-10", WORK, 0, 10, 1, enterWorkers, fetchOnce},
    {"push", WORK, 0, 1, -1, enterPush, takePushed},
    {"watch", BUCKET, KEYS, 0, 0, NULL, watchOnce},
    {"put-watched", BUCKET, 0, 0, -1, enterWatched, putWatched},
    {"info", "", KEYS, 0, 0, NULL, infoOnce},
    {"consumer", "", KEYS, 0, 0, NULL, consumerOnce},
    {"stream", "", 0, 0, 0, NULL, streamOnce},
    {"object", OBJECTS, 0, 0, 0, NULL, objectOnce},
};

/* ---- the run */

static void serve(void *argument) {
    struct session *me = argument;
    struct message message;
    for (;; readMore(me)) {
        size_t filled = 0;
        while (takeMessage(me, &message)) {
            filled += (size_t) sprintf(me->out + filled, "PUB %.*s %zu\r\n", (int) message.replyLength, message.reply, message.bodyLength);
            memcpy(me->out + filled, message.body, message.bodyLength + 2);
            filled += message.bodyLength + 2;
        }
        if (filled) linkSend(&me->link, me->out, filled);
    }
}

static void enterClient(void *argument) {
    struct client *me = argument;
    enterSession(&me->session);
    if (operation->enter) operation->enter(me);
    for (; me->done < WARMING; me->done++) operation->once(me);
}

static void operate(void *argument) {
    struct client *me = argument;
    long most = WARMING + opt.count / opt.inFlight;
    for (; now() < me->until && (!opt.count || me->done < most); me->done++) operation->once(me);
}

/* Make the stream, and store what is there first. Returns how many messages that is. */
static long prepare(struct session *me) {
    char body[512];
    long count = operation->takes * (WARMING * opt.inFlight + opt.count);
    if (!operation->config) return 0;
    if (operation->takes && !opt.count) fail("%s needs --count", operation->name);
    snprintf(body, sizeof body, "{\"name\":\"LOAD\",\"subjects\":[\"load.>\"],\"storage\":\"file\"%s}", operation->config);
    request(me, "\"created\"", "$JS.API.STREAM.CREATE.LOAD", body);
    if (count) storeMessages(me, count, opt.inFlight);
    if (operation->keys) storeMessages(me, operation->keys, operation->keys);
    return count + operation->keys;
}

/* Ask the server how many messages, consumers and streams there are; make it as if nothing had been done. */
static void checkAfterwards(struct session *me, struct client *clients, long before) {
    char wanted[64];
    int consumers = operation->consumers < 0 ? opt.inFlight : operation->consumers;
    if (!operation->config) return;
    snprintf(wanted, sizeof wanted, "\"last_seq\":%ld,", before + stored);
    request(me, wanted, "$JS.API.STREAM.INFO.LOAD", "");
    snprintf(wanted, sizeof wanted, "\"consumer_count\":%d", consumers);
    request(me, wanted, "$JS.API.STREAM.INFO.LOAD", "");
    snprintf(wanted, sizeof wanted, "\"messages\":%ld,", before - taken);
    if (operation->takes) request(me, wanted, "$JS.API.STREAM.INFO.LOAD", "");
    snprintf(wanted, sizeof wanted, "\"streams\":%ld,", 1 + opt.others + created);
    request(me, wanted, "$JS.API.INFO", "");
    request(me, "\"success\":true", "$JS.API.STREAM.DELETE.LOAD", "");
    for (int i = 0; created && i < opt.inFlight; i++)
        for (long k = 0; k < clients[i].done; k++) {
            snprintf(wanted, sizeof wanted, "$JS.API.STREAM.DELETE.new%dx%ld", i, k);
            request(me, "\"success\":true", wanted, "");
        }
}

static void report(const char *mode, long done, double wall, double spent, double own) {
    printf("{\"mode\":\"%s\",\"done\":%ld,\"seconds\":%.6f,\"rate\":%.1f,\"cost_us\":%.3f,\"generator_cores\":%.3f,"
           "\"busiest_thread\":%.3f}\n",
           mode, done, wall, (double) done / wall, spent / (double) done * 1e6, own / wall, own / wall);
}

static void fillPayload(void) {
    unsigned dice = 1;
    for (size_t i = 0; i < sizeof payload; i++) payload[i] = (char) ((dice = dice * 1664525u + 1013904223u) >> 24);
}

void runOperations(void) {
    struct session me = {0}, server = {0};
    struct client *clients = obtain(sizeof *clients * (size_t) opt.inFlight);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (opt.operation && !strcmp(operations[i].name, opt.operation)) operation = &operations[i];
    if (!operation) fail("no --operation is called %s", opt.operation ? opt.operation : "so");
    fillPayload();
    enterSession(&me);
    long before = prepare(&me);
    if (operation->once == requestOnce) {
        enterSession(&server);
        linkSend(&server.link, "SUB service 9\r\nPING\r\n", 21);
        awaitPong(&server.link);
        startTask(serve, &server, true);
    }
    for (int i = 0; i < opt.inFlight; i++) {
        clients[i].number = i;
        startTask(enterClient, &clients[i], false);
    }
    awaitTasks();
    double spent = settledSeconds(), own = ownSeconds(), begin = now();
    for (int i = 0; i < opt.inFlight; i++) {
        clients[i].until = begin + opt.seconds;
        startTask(operate, &clients[i], false);
    }
    awaitTasks();
    double wall = now() - begin, ownSpent = ownSeconds() - own;
    spent = settledSeconds() - spent;
    long done = 0;
    for (int i = 0; i < opt.inFlight; i++) done += clients[i].done - WARMING;
    if (!done) fail("nothing was done in the time given");
    checkAfterwards(&me, clients, before);
    report("operate", done, wall, spent, ownSpent);
}

/* ---- sparse: many clients that publish once a second each */

static long takeAll(struct session *me) {
    struct message message;
    long count = 0;
    while (takeMessage(me, &message)) count++;
    return count;
}

void runSparse(void) {
    struct session subscriber = {0};
    struct link *all = obtain(sizeof *all * (size_t) opt.connections);
    char *frame = obtain((size_t) opt.size + 64);
    size_t length = (size_t) sprintf(frame, "PUB load %d\r\n", opt.size);
    memset(frame + length, 'x', (size_t) opt.size);
    length = (size_t) (stpcpy(frame + length + opt.size, "\r\n") - frame);
    enterSession(&subscriber);
    linkSend(&subscriber.link, "SUB load 9\r\nPING\r\n", 18);
    awaitPong(&subscriber.link);
    for (int i = 0; i < opt.connections; i++) linkOpen(&all[i], 0);
    struct pollfd ready = {.fd = subscriber.link.fd, .events = POLLIN};
    long sent = 0, got = 0;
    double spent = settledSeconds(), own = ownSeconds(), begin = now();
    for (double due = begin; due < begin + opt.seconds; due = begin + (double) ++sent / opt.connections) {
        for (double left; (left = due - now()) > 0;) {
            struct timespec wait = {.tv_nsec = (long) (left * 1e9)};
            if (ppoll(&ready, 1, &wait, NULL) <= 0) continue;
            readMore(&subscriber);
            got += takeAll(&subscriber);
        }
        linkSend(&all[sent % opt.connections], frame, length);
    }
    for (; got < sent; got += takeAll(&subscriber)) readMore(&subscriber);
    double wall = now() - begin, ownSpent = ownSeconds() - own;
    report("sparse", sent, wall, settledSeconds() - spent, ownSpent);
}
