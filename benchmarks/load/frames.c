/* WebSocket on a connection: the request that begins it, frames around what is written, and their headers taken out of
 * what is read. The server is not asked for compression. */
#define _GNU_SOURCE
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIN_BINARY = 0x82, MASKED = 0x80, TWO = 126, EIGHT = 127, MASK = 0x5b3ac917, LONGEST_HEADER = 14 };

void framesOpen(struct link *link) {
    static const char request[] = "GET / HTTP/1.1\r\nHost: load\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                                  "Sec-WebSocket-Key: bG9hZGxvYWRsb2FkbG9hZA==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    char answer[4096];
    size_t have = 0;
    linkSend(link, request, sizeof request - 1);
    /* A byte at a time: what follows the answer is a frame. */
    while (have < 4 || memcmp(answer + have - 4, "\r\n\r\n", 4)) {
        if (have == sizeof answer) fail("the answer to the upgrade does not end");
        if (linkRead(link, answer + have, 1) != 1) fail("closed during the upgrade");
        have++;
    }
    if (strncmp(answer, "HTTP/1.1 101", 12)) fail("no upgrade: %.*s", (int) strcspn(answer, "\r"), answer);
    link->framed = obtain(sizeof *link->framed);
}

size_t frameMade(struct link *link, const char *bytes, size_t size) {
    struct framed *framed = link->framed;
    if (framed->room < size + LONGEST_HEADER) {
        free(framed->out);
        framed->out = obtain(framed->room = size + LONGEST_HEADER);
    }
    unsigned char *p = (unsigned char *) framed->out;
    uint32_t mask = MASK;
    uint64_t wide = (uint64_t) mask << 32 | mask;
    int width = size < TWO ? 0 : size < 1 << 16 ? 2 : 8;
    *p++ = FIN_BINARY;
    *p++ = (unsigned char) (MASKED | (width == 0 ? size : width == 2 ? TWO : EIGHT));
    while (width) *p++ = (unsigned char) (size >> (8 * --width));
    memcpy(p, &mask, sizeof mask);
    p += sizeof mask;
    size_t i = 0;
    for (uint64_t word; i + sizeof word <= size; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        word ^= wide;
        memcpy(p + i, &word, sizeof word);
    }
    for (; i < size; i++) p[i] = (unsigned char) bytes[i] ^ ((unsigned char *) &mask)[i % 4];
    return (size_t) ((char *) p - framed->out) + size;
}

/* Take how much a frame has from its header, once that is whole. */
static void readHeader(struct framed *framed) {
    unsigned char *head = framed->head;
    if (framed->have < 2) return;
    if (head[0] == 0x88) fail("the server closed the WebSocket");
    if (head[0] != FIN_BINARY || head[1] & MASKED) fail("a frame that begins with %02x %02x", head[0], head[1]);
    size_t width = head[1] == TWO ? 2 : head[1] == EIGHT ? 8 : 0;
    if (framed->have < 2 + width) return;
    framed->rest = width ? 0 : head[1];
    for (size_t i = 0; i < width; i++) framed->rest = framed->rest << 8 | head[2 + i];
    framed->have = 0;
}

size_t framesTaken(struct link *link, char *bytes, size_t size) {
    struct framed *framed = link->framed;
    char *out = bytes, *p = bytes, *end = bytes + size;
    while (p < end) {
        if (!framed->rest) {
            framed->head[framed->have++] = (unsigned char) *p++;
            readHeader(framed);
            continue;
        }
        size_t k = (size_t) (end - p) < framed->rest ? (size_t) (end - p) : (size_t) framed->rest;
        if (out != p) memmove(out, p, k);
        out += k;
        p += k;
        framed->rest -= k;
    }
    return (size_t) (out - bytes);
}
