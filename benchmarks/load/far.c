/* Two servers that are linked: when does each know what the other's clients are subscribed to?
 *
 * A link tells interest in the order in which it arose. So once a message for the newest subscription crosses it, all
 * older ones are known on the other side, and nothing that is published from then on may be lost. */
#define _GNU_SOURCE
#include "load.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

static bool arrived(struct link *link) {
    char text[1024];
    struct pollfd ready = {.fd = link->fd, .events = POLLIN};
    if (poll(&ready, 1, 10) <= 0) return false;
    ssize_t k = linkRead(link, text, sizeof text);
    if (k <= 0) fail("disconnected while waiting for the link");
    return memmem(text, (size_t) k, "MSG load.ready ", 15) != NULL;
}

void awaitInterest(bool inNear) {
    static const char subscription[] = "SUB load.ready 1\r\nPING\r\n", probe[] = "PUB load.ready 1\r\nx\r\nPING\r\n";
    struct link here, there;
    if (!opt.farPort) return;
    linkOpen(&here, 0);
    linkOpenFar(&there);
    struct link *from = inNear ? &there : &here, *to = inNear ? &here : &there;
    linkSend(to, subscription, sizeof subscription - 1);
    awaitPong(to);
    double end = now() + opt.timeout;
    do {
        if (now() > end) fail("nothing crosses the link within %d seconds", opt.timeout);
        linkSend(from, probe, sizeof probe - 1);
        awaitPong(from);
    } while (!arrived(to));
    close(here.fd);
    close(there.fd);
}
