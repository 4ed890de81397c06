/* A stand-in for a server that does nothing but copy: the ceiling of what the generator itself can reach.
 *
 * It reads publications without looking at them, and sends as many prebuilt messages as came in; requests it forwards
 * line by line. What a row measures against it is the generator and the kernel, nothing else. */
#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_PEERS = 1024, ROOM = 256 << 10, MOST_INBOXES = 10000 };

struct peer { /* one subscriber: where its messages go and a block of them */
    int fd;
    char *block;
    size_t frameLength;
    long frames;
};

static struct peer peers[MOST_PEERS];
static atomic_int subscribers, publishers, responder = -1;
static int inboxes[MOST_INBOXES];

static bool sendAll(int fd, const char *bytes, size_t size) {
    struct link link = {.fd = fd};
    return !linkWrite(&link, bytes, size);
}

static void addSubscriber(int fd, const char *sid) {
    int slot = atomic_load(&subscribers);
    if (slot == MOST_PEERS) fail("too many subscribers");
    struct peer *peer = &peers[slot];
    peer->fd = fd;
    char *model = obtain((size_t) opt.size + 512);
    peer->frameLength = messageFrame(model, 0, sid);
    peer->frames = (long) (ROOM / peer->frameLength) + 1;
    peer->block = obtain(peer->frameLength * (size_t) peer->frames);
    for (long i = 0; i < peer->frames; i++)
        memcpy(peer->block + peer->frameLength * (size_t) i, model, peer->frameLength);
    free(model);
    atomic_store(&subscribers, slot + 1);
}

static bool sendFrames(struct peer *peer, long many) {
    for (long k; many > 0; many -= k) {
        k = many < peer->frames ? many : peer->frames;
        if (!sendAll(peer->fd, peer->block, peer->frameLength * (size_t) k)) return false;
    }
    return true;
}

/* Publications: counted by their length, never looked at; PING can only come when a frame is whole. */
static void copyPublications(int fd, char *buffer, size_t have) {
    char *model = obtain((size_t) opt.size + 512);
    const size_t length = publishFrame(model, 0);
    int me = atomic_fetch_add(&publishers, 1), all = atomic_load(&subscribers);
    size_t into = 0; /* bytes of a frame that have come in */
    free(model);
    for (;;) {
        size_t total = into + have;
        long whole = (long) (total / length);
        into = total % length;
        for (int i = 0; i < all && whole; i++)
            if (opt.fanout || i == me % all)
                if (!sendFrames(&peers[i], whole)) return;
        if (into == 6 && have >= 6 && !memcmp(buffer + have - 6, "PING\r\n", 6)) {
            into = 0;
            if (!sendAll(fd, "PONG\r\n", 6)) return;
        }
        ssize_t k = read(fd, buffer, ROOM);
        if (k <= 0) return;
        have = (size_t) k;
    }
}

/* "PUB svc.echo _INBOX.N.1 SIZE" goes to the responder, "PUB _INBOX.N.1 SIZE" to the requester that it names. */
static size_t forward(char *out, const char *frame, size_t line, size_t whole, int *target) {
    int index = 0;
    const char *inbox = memmem(frame, line, "_INBOX.", 7);
    if (!inbox || sscanf(inbox, "_INBOX.%6d", &index) != 1 || index < 0 || index >= MOST_INBOXES) fail("no inbox in %.*s", (int) line, frame);
    bool request = !memcmp(frame, "PUB svc.echo ", 13);
    *target = request ? atomic_load(&responder) : inboxes[index];
    int k = request ? sprintf(out, "MSG svc.echo 1 _INBOX.%06d.1 %d\r\n", index, opt.size)
                    : sprintf(out, "MSG _INBOX.%06d.1 1 %d\r\n", index, opt.size);
    memcpy(out + k, frame + line, whole - line);
    return (size_t) k + (whole - line);
}

static void subscribed(int fd, const char *line, size_t length) {
    int index;
    char copy[256], *space;
    snprintf(copy, sizeof copy, "%.*s", (int) length, line);
    copy[strcspn(copy, "\r\n")] = 0;
    if (strstr(copy, ".o")) return; /* one of --others: nothing ever comes for it */
    if (!strncmp(copy, "SUB svc.echo", 12)) atomic_store(&responder, fd);
    else if (sscanf(copy, "SUB _INBOX.%6d", &index) == 1 && index < MOST_INBOXES) inboxes[index] = fd;
    else if ((space = strrchr(copy, ' '))) addSubscriber(fd, space + 1);
}

/* Lines one by one, until publications begin: then all the rest belongs to copyPublications. */
static void serve(int fd, char *buffer, char *out) {
    size_t have = 0;
    bool known = false; /* one block of messages is enough for a subscriber of many subjects */
    for (ssize_t k; (k = read(fd, buffer + have, ROOM - have)) > 0;) {
        have += (size_t) k;
        size_t i = 0;
        for (char *end; (end = memchr(buffer + i, '\n', have - i));) {
            size_t line = (size_t) (end - (buffer + i)) + 1, whole = line;
            if (!memcmp(buffer + i, "PI", 2)) {
                if (!sendAll(fd, "PONG\r\n", 6)) return;
            } else if (!memcmp(buffer + i, "SU", 2)) {
                if (!known) subscribed(fd, buffer + i, line);
                known = true;
            } else if (!memcmp(buffer + i, "HP", 2) || !memcmp(buffer + i, "PUB load.", 9)) {
                memmove(buffer, buffer + i, have - i);
                copyPublications(fd, buffer, have - i);
                return;
            } else if (!memcmp(buffer + i, "PU", 2)) {
                int target;
                whole = line + (size_t) opt.size + 2;
                if (have - i < whole) break;
                size_t size = forward(out, buffer + i, line, whole, &target);
                if (!sendAll(target, out, size)) return;
            }
            i += whole;
        }
        memmove(buffer, buffer + i, have - i);
        have -= i;
    }
}

static void *serveOne(void *argument) {
    int fd = (int) (intptr_t) argument;
    char *buffer = obtain(ROOM + 512), *out = obtain((size_t) opt.size + ROOM);
    static const char info[] = "INFO {\"server_id\":\"mirror\",\"version\":\"0\",\"proto\":1,\"headers\":true,\"max_payload\":1048576}\r\n";
    if (sendAll(fd, info, sizeof info - 1)) serve(fd, buffer, out);
    free(buffer);
    free(out);
    return NULL; /* fd stays open: a peer may still be written to */
}

int listenOn(void) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t) opt.port)};
    socklen_t length = sizeof address;
    inet_pton(AF_INET, opt.host, &address.sin_addr);
    if (listener < 0 || bind(listener, (void *) &address, length) || listen(listener, 4096) ||
        getsockname(listener, (void *) &address, &length))
        fail("listen on %s:%d: %s", opt.host, opt.port, strerror(errno));
    fprintf(stderr, "Listening for client connections on %s:%d\n", opt.host, ntohs(address.sin_port));
    return listener;
}

void runMirror(void) {
    int one = 1, listener = listenOn();
    for (;;) {
        pthread_t thread;
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) fail("accept: %s", strerror(errno));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (pthread_create(&thread, NULL, serveOne, (void *) (intptr_t) fd)) fail("pthread_create");
        pthread_detach(thread);
    }
}
