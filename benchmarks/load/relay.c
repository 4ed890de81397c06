/* A relay: the least that a server of this protocol has to do for every message, in one thread.
 *
 * It reads, finds the frame of each publication, copies it behind the line of every subscriber, and sends. There are
 * no subjects to match, accounts, permissions or limits, so it only serves rows with one subject. What it reaches
 * is the ceiling for a server that runs in one thread; mirror.c shows what the generator can reach. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_CLIENTS = 4096, INPUT = 1 << 20, HIGH = 1 << 20, LINE = 512, EVENTS = 256 };

struct client {
    int fd;
    uint32_t watched;      /* what epoll was asked for */
    bool isGone;
    char sid[64];
    size_t sidLength;      /* 0: no subscriber */
    char *input, *output;
    size_t have, sent, filled, room; /* of the input; of the output, from sent to filled */
};

static struct client *clients[MOST_CLIENTS];
static int most, poller;

static char *reserve(struct client *client, size_t size) {
    if (client->filled + size > client->room) {
        client->room = (client->filled + size) * 2;
        client->output = realloc(client->output, client->room);
        if (!client->output) fail("no memory for %zu bytes", client->room);
    }
    return client->output + client->filled;
}

static void put(struct client *client, const char *bytes, size_t size) {
    memcpy(reserve(client, size), bytes, size);
    client->filled += size;
}

static void flush(struct client *client) {
    while (client->sent < client->filled) {
        ssize_t k = send(client->fd, client->output + client->sent, client->filled - client->sent, MSG_NOSIGNAL);
        if (k < 0) {
            if (errno != EAGAIN) client->isGone = true;
            return;
        }
        client->sent += (size_t) k;
    }
    client->sent = client->filled = 0;
}

/* One message to every subscriber: subject, then what stands behind it, from the size to the end of the payload. */
static void spread(const char *subject, size_t length, const char *rest, size_t size) {
    for (int i = 0; i < most; i++) {
        struct client *to = clients[i];
        if (!to || !to->sidLength) continue;
        char *out = reserve(to, 4 + length + 1 + to->sidLength + 1 + size), *start = out;
        memcpy(out, "MSG ", 4);
        out = mempcpy(out + 4, subject, length);
        *out++ = ' ';
        out = mempcpy(out, to->sid, to->sidLength);
        *out++ = ' ';
        out = mempcpy(out, rest, size);
        to->filled += (size_t) (out - start);
    }
}

static void subscribe(struct client *client, const char *line, const char *end) {
    if (end[-1] == '\r') end--;
    const char *sid = memrchr(line, ' ', (size_t) (end - line));
    if (!sid || (size_t) (end - sid - 1) > sizeof client->sid) fail("no subscription: %.*s", (int) (end - line), line);
    client->sidLength = (size_t) (end - sid - 1);
    memcpy(client->sid, sid + 1, client->sidLength);
}

/* Works off the whole frames of the input; returns how many bytes they are. */
static size_t eat(struct client *client) {
    size_t at = 0;
    for (;;) {
        char *line = client->input + at, *end = memchr(line, '\n', client->have - at);
        if (!end) break;
        size_t whole = (size_t) (end - line) + 1;
        if (!memcmp(line, "PU", 2)) {
            const char *number = end - 1, *subject = line + 4, *gap = memchr(subject, ' ', (size_t) (end - subject));
            if (!gap) fail("no publication: %.*s", (int) (end - line), line);
            while (number[-1] != ' ') number--;
            whole += strtoul(number, NULL, 10) + 2;
            if (whole > INPUT) fail("a publication of %zu bytes", whole);
            if (client->have - at < whole) break;
            spread(subject, (size_t) (gap - subject), gap + 1, (size_t) (line + whole - gap - 1));
        } else if (!memcmp(line, "SU", 2)) subscribe(client, line, end);
        else if (!memcmp(line, "PI", 2)) put(client, "PONG\r\n", 6);
        at += whole;
    }
    return at;
}

static void receive(struct client *client) {
    ssize_t k = recv(client->fd, client->input + client->have, INPUT - client->have, 0);
    if (k < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (k <= 0) {
        client->isGone = true;
        return;
    }
    client->have += (size_t) k;
    size_t eaten = eat(client);
    client->have -= eaten;
    memmove(client->input, client->input + eaten, client->have);
}

static void watch(struct client *client, int operation, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = client};
    if (client->watched == events) return;
    if (epoll_ctl(poller, operation, client->fd, &event)) fail("epoll_ctl: %s", strerror(errno));
    client->watched = events;
}

static void admit(int listener) {
    static const char info[] = "INFO {\"server_id\":\"relay\",\"version\":\"0\",\"proto\":1,\"headers\":true,\"max_payload\":1048576}\r\n";
    int one = 1, slot = 0, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while (slot < most && clients[slot]) slot++;
    if (slot == MOST_CLIENTS) fail("too many clients");
    if (slot == most) most++;
    struct client *client = clients[slot] = obtain(sizeof *client);
    client->fd = fd;
    client->input = obtain(INPUT);
    put(client, info, sizeof info - 1);
    watch(client, EPOLL_CTL_ADD, EPOLLIN);
}

/* Sends what waits; returns whether too much of it is left for anything more to be read. */
static bool settle(void) {
    bool isFull = false;
    for (int i = 0; i < most; i++) {
        struct client *client = clients[i];
        if (!client) continue;
        flush(client);
        if (client->isGone) {
            close(client->fd);
            free(client->input);
            free(client->output);
            free(client);
            clients[i] = NULL;
        } else isFull |= client->filled - client->sent > HIGH;
    }
    return isFull;
}

void runRelay(void) {
    struct epoll_event events[EVENTS], event = {.events = EPOLLIN};
    int listener = listenOn();
    bool isFull = false;
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event)) fail("epoll: %s", strerror(errno));
    for (;;) {
        int count = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (!events[i].data.ptr) admit(listener);
            else if ((events[i].events & ~(uint32_t) EPOLLOUT) && !isFull) receive(events[i].data.ptr);
        }
        isFull = settle();
        for (int i = 0; i < most; i++)
            if (clients[i]) watch(clients[i], EPOLL_CTL_MOD, (isFull ? 0 : EPOLLIN) | (clients[i]->filled ? EPOLLOUT : 0));
    }
}
