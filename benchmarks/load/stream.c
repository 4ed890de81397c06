/* Streams: messages that a server stores before it acknowledges them, published and replayed.
 *
 * A server that answers NATS Streaming's discovery is spoken to in that protocol, any other in JetStream's. */
#define _GNU_SOURCE
#include "stream.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SAMPLES = 1 << 20, MOST_PUBLISHERS = 64 };

#define DISCOVER "_STAN.discover.test-cluster"
#define CREATE "$JS.API.STREAM.CREATE.LOAD"
#define INFO "$JS.API.STREAM.INFO.LOAD"
#define CONSUME "$JS.API.CONSUMER.CREATE.LOAD"
#define PULLED "$JS.API.CONSUMER.DURABLE.CREATE.LOAD.pulls"
#define NEXT "$JS.API.CONSUMER.MSG.NEXT.LOAD.pulls"
#define IDENTIFIER "NATS/1.0\r\nNats-Msg-Id: %08x%08x\r\n\r\n"

/* ---- protocol buffers: strings and small numbers are all that is needed */

static char *putNumber(char *out, int field, uint64_t value) {
    *out++ = (char) (field << 3);
    for (; value > 127; value >>= 7) *out++ = (char) (value | 128);
    *out++ = (char) value;
    return out;
}

static char *putBytes(char *out, int field, const void *bytes, size_t length) {
    char *tag = out;
    out = putNumber(out, field, length);
    *tag |= 2;
    memcpy(out, bytes, length);
    return out + length;
}

static char *putText(char *out, int field, const char *text) { return putBytes(out, field, text, strlen(text)); }

static uint64_t readNumber(const char **at, const char *end) {
    uint64_t value = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        unsigned char byte = (unsigned char) *(*at)++;
        value |= (uint64_t) (byte & 127) << shift;
        if (byte < 128) return value;
    }
    fail("not a message of NATS Streaming");
}

/* The field of a message: a number, or the length of what *text is set to; 0 if it is not there. */
static uint64_t field(const struct message *message, int wanted, const char **text) {
    const char *at = message->body, *end = at + message->bodyLength;
    while (at < end) {
        uint64_t tag = readNumber(&at, end), value = readNumber(&at, end);
        if (text) *text = at;
        if ((int) (tag >> 3) == wanted) return value;
        if ((tag & 7) == 2) at += value;
    }
    return 0;
}

/* ---- the session */

void sendHeaders(struct session *me, const char *subject, const char *reply, const char *headers, const char *body, size_t length) {
    size_t head = strlen(headers);
    int k = head ? snprintf(me->out, ROOM, "HPUB %s %s %zu %zu\r\n%s", subject, reply, head, head + length, headers)
                 : snprintf(me->out, ROOM, "PUB %s %s %zu\r\n", subject, reply, length);
    if (k < 0 || (size_t) k + length + 2 > ROOM) fail("too long a message");
    memcpy(me->out + k, body, length);
    memcpy(me->out + k + length, "\r\n", 2);
    linkSend(&me->link, me->out, (size_t) k + length + 2);
}

void sendPublication(struct session *me, const char *subject, const char *reply, const char *body, size_t length) {
    sendHeaders(me, subject, reply, "", body, length);
}

/* A heartbeat, of NATS Streaming or of a consumer, or flow control. */
static bool isControl(const struct message *message) {
    return message->sid == HEARTBEATS ||
           (message->sid == DELIVERIES && message->bodyLength >= 12 && !memcmp(message->body, "NATS/1.0 100", 12));
}

/* Take a message out of the buffer, if a whole one is there. Answers PING, heartbeats and flow control by itself. */
bool takeMessage(struct session *me, struct message *message) {
    for (char *line, *end; (end = memchr(line = me->in + me->at, '\n', me->have - me->at));) {
        size_t length = (size_t) (end - line) + 1;
        if (*line == '-') fail("%.*s", (int) length, line);
        if (*line != 'M' && *line != 'H') {
            if (!strncmp(line, "PING", 4)) linkSend(&me->link, "PONG\r\n", 6);
            me->at += length;
            continue;
        }
        const char *words[6];
        int count = 0;
        for (const char *p = line; p < end && count < 6; p++)
            if (*p != ' ' && *p != '\r' && (p == line || p[-1] == ' ')) words[count++] = p;
        bool headers = *line == 'H';
        if (count < 4) fail("what is this: %.*s", (int) length, line);
        size_t size = strtoul(words[count - 1], NULL, 10);
        if (me->have - me->at < length + size + 2) return false;
        bool replied = count == (headers ? 6 : 5);
        *message = (struct message){.sid = atoi(words[2]), .subject = words[1], .body = line + length, .bodyLength = size};
        if (replied) {
            message->reply = words[3];
            message->replyLength = (size_t) (strchr(words[3], ' ') - words[3]);
        }
        me->at += length + size + 2;
        if (isControl(message)) {
            char reply[256];
            snprintf(reply, sizeof reply, "%.*s", (int) message->replyLength, replied ? message->reply : "");
            if (replied) sendPublication(me, reply, "", "", 0);
            continue;
        }
        return true;
    }
    return false;
}

void readMore(struct session *me) {
    memmove(me->in, me->in + me->at, me->have - me->at);
    me->have -= me->at;
    me->at = 0;
    ssize_t k;
    do k = linkRead(&me->link, me->in + me->have, BUFFER - me->have);
    while (k < 0 && errno == EINTR);
    if (k <= 0) fail("disconnected");
    me->have += (size_t) k;
}

struct message awaitMessage(struct session *me, int sid) {
    struct message message;
    for (;;) {
        while (takeMessage(me, &message))
            if (!sid || message.sid == sid) return message;
        readMore(me);
    }
}

struct message askHeaders(struct session *me, const char *subject, const char *headers, const char *body, size_t length) {
    char reply[96];
    size_t k = (size_t) snprintf(reply, sizeof reply, "%s.answer.%ld", me->inbox, ++me->asked);
    sendHeaders(me, subject, reply, headers, body, length);
    struct message answer = awaitMessage(me, ANSWERS);
    if (memcmp(answer.subject, reply, k) || answer.subject[k] != ' ') fail("not the answer of %s: %.*s", reply, 80, answer.subject);
    return answer;
}

struct message ask(struct session *me, const char *subject, const char *body, size_t length) {
    return askHeaders(me, subject, "", body, length);
}

bool hasText(struct message message, const char *text) {
    return memmem(message.body, message.bodyLength, text, strlen(text));
}

static void copyField(char *out, size_t room, const struct message *message, int number) {
    const char *text;
    uint64_t length = field(message, number, &text);
    if (length >= room) fail("too long an answer");
    snprintf(out, room, "%.*s", (int) length, text);
}

static bool connectStreaming(struct session *me) {
    char request[512], heartbeats[96], error[256], prefix[96];
    snprintf(heartbeats, sizeof heartbeats, "%s.heartbeat", me->inbox);
    char *end = putText(request, 1, me->clientID);
    end = putText(end, 2, heartbeats);
    struct message answer = ask(me, DISCOVER, request, (size_t) (end - request));
    if (answer.bodyLength > 8 && !memcmp(answer.body, "NATS/1.0", 8)) return false; /* nobody is there */
    copyField(error, sizeof error, &answer, 5);
    if (*error) fail("connecting: %s", error);
    copyField(prefix, sizeof prefix, &answer, 1);
    snprintf(me->subject, sizeof me->subject, "%s.load", prefix);
    copyField(me->subscribe, sizeof me->subscribe, &answer, 2);
    copyField(me->close, sizeof me->close, &answer, 4);
    return true;
}

void checkJson(struct message answer) {
    if (hasText(answer, "\"error\"") || *answer.body != '{')
        fail("%.*s", (int) answer.bodyLength, answer.body);
}

void enterSession(struct session *me) {
    static int opened;
    char text[512];
    linkOpen(&me->link, 0);
    me->in = obtain(BUFFER + 1);
    me->out = obtain(ROOM);
    snprintf(me->inbox, sizeof me->inbox, "_INBOX.load%d%ldx%d", (int) getpid(), (long) (now() * 1e6), ++opened);
    snprintf(me->clientID, sizeof me->clientID, "%s", me->inbox + 7);
    int k = snprintf(text, sizeof text, "SUB %s.answer.* %d\r\nSUB %s.ack %d\r\nSUB %s.heartbeat %d\r\nPING\r\n", me->inbox, ANSWERS,
                     me->inbox, ACKS, me->inbox, HEARTBEATS);
    linkSend(&me->link, text, (size_t) k);
    awaitPong(&me->link);
}

static void openSession(struct session *me, bool create) {
    enterSession(me);
    me->streaming = connectStreaming(me);
    if (me->streaming) return;
    strcpy(me->subject, "load");
    static const char stream[] = "{\"name\":\"LOAD\",\"subjects\":[\"load\"],\"storage\":\"file\"}";
    checkJson(create ? ask(me, CREATE, stream, sizeof stream - 1) : ask(me, INFO, "", 0));
}

static void closeSession(struct session *me) {
    char request[128];
    if (me->streaming) ask(me, me->close, request, (size_t) (putText(request, 1, me->clientID) - request));
}

/* ---- publishing */

static size_t publicationFrame(struct session *me, char *out, size_t *ackLength, size_t *identifier) {
    char *body = obtain((size_t) opt.size + 512), *data = obtain((size_t) opt.size), *end = body;
    static const char guid[] = "load-0123456789abcdefg";
    memset(data, 'x', (size_t) opt.size);
    if (me->streaming) {
        end = putText(end, 1, me->clientID);
        end = putText(end, 2, guid);
        end = putText(end, 3, "load");
        end = putBytes(end, 5, data, (size_t) opt.size);
        *ackLength = sizeof guid - 1 + 2; /* a PubAck with the guid, and without an error */
    } else {
        memcpy(end, data, (size_t) opt.size);
        end += opt.size;
        *ackLength = 0;
    }
    size_t length = (size_t) (end - body), k;
    if (opt.headers && !me->streaming) {
        char block[64];
        size_t head = (size_t) snprintf(block, sizeof block, IDENTIFIER, 0u, 0u);
        k = (size_t) sprintf(out, "HPUB %s %s.ack %zu %zu\r\n%s", me->subject, me->inbox, head, head + length, block);
        *identifier = k - 20; /* sixteen digits and two ends of lines */
    } else {
        k = (size_t) sprintf(out, "PUB %s %s.ack %zu\r\n", me->subject, me->inbox, length);
        *identifier = 0;
    }
    memcpy(out + k, body, length);
    memcpy(out + k + length, "\r\n", 2);
    free(body);
    free(data);
    return k + length + 2;
}

static void checkAck(const struct session *me, const struct message *message, size_t ackLength) {
    if (me->streaming ? message->bodyLength != ackLength : memcmp(message->body, "{\"stream\":", 10))
        fail("not stored: %.*s", (int) message->bodyLength, message->body);
}

/* Publish with at most a window's worth unacknowledged; until a time, or a count. Returns how many were acknowledged. */
static long publishAll(struct session *me, double until, long count) {
    char *frame = obtain((size_t) opt.size + 1024), *out = obtain(ROOM);
    size_t ackLength, identifier, length = publicationFrame(me, frame, &ackLength, &identifier);
    unsigned origin = (unsigned) (uintptr_t) me ^ (unsigned) (now() * 1e6);
    long sent = 0, acked = 0;
    bool over = false;
    struct message message;
    while (!over || acked < sent) {
        over = over || (count ? sent >= count : now() >= until);
        size_t filled = 0;
        while (!over && sent - acked < opt.window && filled + length <= ROOM) {
            memcpy(out + filled, frame, length);
            if (identifier) {
                char digits[17];
                snprintf(digits, sizeof digits, "%08x%08x", origin, (unsigned) sent);
                memcpy(out + filled + identifier, digits, 16);
            }
            filled += length;
            sent++;
            over = count && sent >= count;
        }
        if (filled) linkSend(&me->link, out, filled);
        if (acked == sent) break; /* the time was over when all were acknowledged */
        if (!takeMessage(me, &message)) {
            readMore(me);
            continue;
        }
        do {
            if (message.sid != ACKS) continue;
            checkAck(me, &message, ackLength);
            acked++;
        } while (takeMessage(me, &message));
    }
    free(frame);
    free(out);
    return acked;
}

/* ---- another client, which asks for PONG all the time */

static atomic_bool isOver;
static uint32_t *samples;
static long sampled;

static pthread_t pinging;

static void *pingOther(void *argument) {
    struct link *link = argument;
    while (!atomic_load(&isOver) && sampled < MOST_SAMPLES) {
        double sent = now();
        linkSend(link, "PING\r\n", 6);
        awaitPong(link);
        samples[sampled++] = (uint32_t) ((now() - sent) * 1e8);
        usleep(1000);
    }
    return NULL;
}

void startPinging(void) {
    static struct link other;
    linkOpen(&other, 0);
    samples = obtain(sizeof *samples * MOST_SAMPLES);
    if (pthread_create(&pinging, NULL, pingOther, &other)) fail("pthread_create");
}

long stopPinging(uint32_t **sorted) {
    atomic_store(&isOver, true);
    pthread_join(pinging, NULL);
    sortSamples(samples, sampled);
    *sorted = samples;
    return sampled;
}

/* ---- the modes */

struct publisher {
    struct session session;
    pthread_t thread;
    double until;
    long acked;
};

static void *publishOther(void *argument) {
    struct publisher *one = argument;
    one->acked = publishAll(&one->session, one->until, opt.count);
    return NULL;
}

void runStore(void) {
    struct session me = {0};
    uint32_t *sorted;
    struct publisher *others = obtain(sizeof *others * MOST_PUBLISHERS);
    int more = opt.publishers - 1;
    if (more >= MOST_PUBLISHERS) fail("too many publishers");
    openSession(&me, true);
    for (int i = 0; i < more; i++) openSession(&others[i].session, false);
    startPinging();
    double begin = now(), own = ownSeconds(), server = serverSeconds();
    for (int i = 0; i < more; i++) {
        others[i].until = begin + opt.seconds;
        if (pthread_create(&others[i].thread, NULL, publishOther, &others[i])) fail("pthread_create");
    }
    long acked = publishAll(&me, begin + opt.seconds, opt.count);
    for (int i = 0; i < more; i++) {
        pthread_join(others[i].thread, NULL);
        acked += others[i].acked;
        closeSession(&others[i].session);
    }
    free(others);
    double wall = now() - begin, serverShare = share(server, serverSeconds(), wall), ownShare = share(own, ownSeconds(), wall);
    long count = stopPinging(&sorted);
    closeSession(&me);
    printf("{\"mode\":\"store\",\"protocol\":\"%s\",\"acknowledged\":%ld,\"seconds\":%.6f,\"rate\":%.1f,\"ping_p50_us\":%.2f,"
           "\"ping_p99_us\":%.2f,\"ping_max_us\":%.2f,\"generator_cores\":%.3f,\"server_cores\":%.3f}\n",
           me.streaming ? "streaming" : "jetstream", acked, wall, (double) acked / wall, microseconds(sorted, count, 0.5),
           microseconds(sorted, count, 0.99), microseconds(sorted, count, 1.0), ownShare, serverShare);
}

static void startDelivery(struct session *me, char *ackTo, size_t room) {
    char request[1024], inbox[96], error[256], listen[128];
    snprintf(inbox, sizeof inbox, "%s.deliver", me->inbox);
    size_t listening = (size_t) snprintf(listen, sizeof listen, "SUB %s %d\r\n", inbox, DELIVERIES);
    if (me->streaming) linkSend(&me->link, listen, listening);
    else { /* JetStream waits with the delivery until somebody listens */
        int k = snprintf(request, sizeof request,
                         "{\"stream_name\":\"LOAD\",\"config\":{\"deliver_subject\":\"%s\",\"deliver_policy\":\"all\","
                         "\"ack_policy\":\"explicit\",\"max_ack_pending\":%d}}", inbox, opt.window);
        checkJson(ask(me, CONSUME, request, (size_t) k));
        linkSend(&me->link, listen, listening);
        return;
    }
    char *end = putText(request, 1, me->clientID);
    end = putText(end, 2, "load");
    end = putText(end, 4, inbox);
    end = putNumber(end, 5, (uint64_t) opt.window);
    end = putNumber(end, 6, 30);
    end = putNumber(end, 10, 4);
    struct message answer = ask(me, me->subscribe, request, (size_t) (end - request));
    copyField(error, sizeof error, &answer, 3);
    if (*error) fail("subscribing: %s", error);
    copyField(ackTo, room, &answer, 2);
}

static void pull(struct session *me) {
    char request[64], inbox[96];
    snprintf(inbox, sizeof inbox, "%s.deliver", me->inbox);
    int k = snprintf(request, sizeof request, "{\"batch\":%d,\"expires\":30000000000}", opt.inFlight);
    sendPublication(me, NEXT, inbox, request, (size_t) k);
}

/* Make a consumer that delivers --in-flight messages for each request, and request the first ones. */
static void startPulling(struct session *me) {
    char request[256], listen[128];
    int k = snprintf(request, sizeof request,
                     "{\"stream_name\":\"LOAD\",\"config\":{\"durable_name\":\"pulls\",\"ack_policy\":\"explicit\","
                     "\"max_ack_pending\":%d}}", 4 * opt.inFlight);
    checkJson(ask(me, PULLED, request, (size_t) k));
    linkSend(&me->link, listen, (size_t) snprintf(listen, sizeof listen, "SUB %s.deliver %d\r\n", me->inbox, DELIVERIES));
    pull(me);
}

static size_t acknowledgement(struct session *me, char *out, const struct message *message, const char *ackTo, long number) {
    if (!me->streaming)
        return (size_t) sprintf(out, "PUB %.*s 4\r\n+ACK\r\n", (int) message->replyLength, message->reply);
    char body[64];
    uint64_t sequence = field(message, 1, NULL);
    if (sequence != (uint64_t) number) fail("message %ld has sequence %llu", number, (unsigned long long) sequence);
    char *end = putNumber(putText(body, 1, "load"), 2, sequence);
    size_t length = (size_t) (end - body), k = (size_t) sprintf(out, "PUB %s %zu\r\n", ackTo, length);
    memcpy(out + k, body, length);
    memcpy(out + k + length, "\r\n", 2);
    return k + length + 2;
}

/* Store --count messages; then one subscriber takes them all, and acknowledges each. */
void runReplay(void) {
    struct session me = {0}, reader = {0};
    char ackTo[128], *out = obtain(2 * ROOM);
    openSession(&me, true);
    long count = publishAll(&me, 0, opt.count ? opt.count : 100000), got = 0;
    openSession(&reader, false);
    startPinging();
    double begin = now(), own = ownSeconds(), server = serverSeconds();
    bool pulls = opt.inFlight > 1;
    if (pulls) startPulling(&reader);
    else startDelivery(&reader, ackTo, sizeof ackTo);
    struct message message;
    while (got < count) {
        size_t filled = 0;
        bool exhausted = false;
        while (filled < ROOM && takeMessage(&reader, &message)) {
            if (message.sid != DELIVERIES) continue;
            if (pulls && !message.replyLength) fail("%.*s", (int) message.bodyLength, message.body);
            filled += acknowledgement(&reader, out + filled, &message, ackTo, ++got);
            exhausted = exhausted || (pulls && !(got % opt.inFlight));
        }
        if (filled) linkSend(&reader.link, out, filled);
        else readMore(&reader);
        if (exhausted) pull(&reader);
    }
    double wall = now() - begin, serverShare = share(server, serverSeconds(), wall), ownShare = share(own, ownSeconds(), wall);
    uint32_t *sorted;
    long pings = stopPinging(&sorted);
    closeSession(&reader);
    closeSession(&me);
    printf("{\"mode\":\"replay\",\"protocol\":\"%s\",\"messages\":%ld,\"seconds\":%.6f,\"rate\":%.1f,\"ping_p99_us\":%.2f,"
           "\"generator_cores\":%.3f,\"server_cores\":%.3f}\n",
           me.streaming ? "streaming" : "jetstream", got, wall, (double) got / wall, microseconds(sorted, pings, 0.99), ownShare,
           serverShare);
}

/* Whether the server serves: it does when this ends. */
void runAnswer(void) {
    struct session me = {0};
    openSession(&me, false);
    closeSession(&me);
    printf("{\"mode\":\"answer\",\"protocol\":\"%s\"}\n", me.streaming ? "streaming" : "jetstream");
}
