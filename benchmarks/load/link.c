/* Connections: TCP or TLS, WebSocket or not, the client handshake, and reads and writes that do not care which. */
#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _Exit(2);
}

void *obtain(size_t bytes) {
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) fail("no memory for %zu bytes", bytes);
    return memory;
}

int dial(int port, int receiveBuffer, bool blocking) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (blocking ? 0 : SOCK_NONBLOCK), 0);
    if (fd < 0) fail("socket: %s", strerror(errno));
    if (receiveBuffer && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, sizeof receiveBuffer))
        fail("SO_RCVBUF: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t) port)};
    if (inet_pton(AF_INET, opt.host, &address.sin_addr) != 1) fail("%s: an IPv4 address is needed", opt.host);
    if (connect(fd, (void *) &address, sizeof address) && (blocking || errno != EINPROGRESS))
        fail("connect to %s:%d: %s", opt.host, port, strerror(errno));
    return fd;
}

size_t connectText(char *out, size_t room) {
    char who[512] = "";
    if (opt.user)
        snprintf(who, sizeof who, "\"user\":\"%s\",\"pass\":\"%s\",", opt.user, opt.password ? opt.password : "");
    int length = snprintf(out, room,
                          "CONNECT {\"verbose\":false,\"pedantic\":false,%s\"tls_required\":%s,\"name\":\"load\",\"lang\":\"c\","
                          "\"version\":\"1\",\"protocol\":1,\"headers\":true,\"no_responders\":true}\r\nPING\r\n",
                          who, opt.tls ? "true" : "false");
    if (length < 0 || (size_t) length >= room) fail("user or password too long");
    return (size_t) length;
}

static void readInfo(struct link *link, int port) {
    char text[16384];
    size_t have = 0;
    /* One byte too many would belong to the TLS handshake, but a server stays silent after INFO until it is answered. */
    do {
        ssize_t k = linkRead(link, text + have, sizeof text - have);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) fail("no INFO from %s:%d: %s", opt.host, port, k ? strerror(errno) : "closed");
        have += (size_t) k;
        if (have == sizeof text) fail("INFO does not end");
    } while (!memchr(text, '\n', have));
    if (have < 5 || memcmp(text, "INFO ", 5)) fail("%s:%d does not start with INFO", opt.host, port);
}

#ifdef WITH_TLS
static SSL_CTX *context;

static void makeContext(void) {
    context = SSL_CTX_new(TLS_client_method());
    if (!context) fail("SSL_CTX_new");
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL); /* the certificate is the benchmark's own */
    /* One cipher for all servers: else each prefers its own and the comparison is of ciphers. */
    if (SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1) fail("no TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_mode(context, SSL_MODE_AUTO_RETRY);
}

/* Wait for what kept OpenSSL from going on; false if that was an error. Only tasks have sockets that do not block. */
static bool awaited(struct link *link, int result) {
    struct pollfd room = {.fd = link->fd, .events = POLLOUT};
    int error = SSL_get_error(link->ssl, result);
    if (error == SSL_ERROR_WANT_READ) awaitReadable(link->fd);
    else if (error == SSL_ERROR_WANT_WRITE) poll(&room, 1, 1000);
    else return false;
    return true;
}

static void startTls(struct link *link) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, makeContext);
    link->ssl = SSL_new(context);
    if (!link->ssl || SSL_set_fd(link->ssl, link->fd) != 1) fail("SSL_new");
    if (inTask()) fcntl(link->fd, F_SETFL, O_NONBLOCK); /* a handshake and what follows it come in parts */
    for (int result; (result = SSL_connect(link->ssl)) != 1;) {
        if (awaited(link, result)) continue;
        unsigned long code = ERR_peek_last_error();
        fail("TLS handshake: %s", code ? ERR_reason_error_string(code) : strerror(errno));
    }
}

static bool pendingTls(struct link *link) { return link->ssl && SSL_pending(link->ssl) > 0; }

const char *tlsName(struct link *link) { return link->ssl ? SSL_get_cipher_name(link->ssl) : ""; }

static ssize_t readSome(struct link *link, void *buffer, size_t size) {
    if (!link->ssl) return read(link->fd, buffer, size);
    int k;
    do k = SSL_read(link->ssl, buffer, size > 1 << 30 ? 1 << 30 : (int) size);
    while (k <= 0 && inTask() && awaited(link, k));
    return k;
}

static ssize_t writeSome(struct link *link, const char *bytes, size_t size) {
    if (!link->ssl) return write(link->fd, bytes, size);
    int k;
    do k = SSL_write(link->ssl, bytes, size > 1 << 30 ? 1 << 30 : (int) size);
    while (k <= 0 && inTask() && awaited(link, k));
    return k;
}

static void endTls(struct link *link) {
    if (!link->ssl) return;
    SSL_shutdown(link->ssl);
    SSL_free(link->ssl);
}
#else
static void startTls(struct link *link) {
    (void) link;
    fail("built without TLS: install OpenSSL's headers (libssl-dev) and build again");
}

static bool pendingTls(struct link *link) { (void) link; return false; }

const char *tlsName(struct link *link) { (void) link; return ""; }

static void endTls(struct link *link) { (void) link; }

static ssize_t readSome(struct link *link, void *buffer, size_t size) { return read(link->fd, buffer, size); }

static ssize_t writeSome(struct link *link, const char *bytes, size_t size) { return write(link->fd, bytes, size); }
#endif

ssize_t linkRead(struct link *link, void *buffer, size_t size) {
    for (;;) {
        if (inTask() && !pendingTls(link)) awaitReadable(link->fd);
        ssize_t k = readSome(link, buffer, size);
        if (k <= 0 || !link->framed) return k;
        size_t left = framesTaken(link, buffer, (size_t) k);
        if (left) return (ssize_t) left; /* else there was but a part of a header */
    }
}

static int writeAll(struct link *link, const char *p, size_t size) {
    while (size) {
        ssize_t k = writeSome(link, p, size);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return -1;
        p += k;
        size -= (size_t) k;
    }
    return 0;
}

int linkWrite(struct link *link, const void *bytes, size_t size) {
    if (!link->framed) return writeAll(link, bytes, size);
    size_t length = frameMade(link, bytes, size);
    return writeAll(link, link->framed->out, length);
}

void linkSend(struct link *link, const void *bytes, size_t size) {
    if (linkWrite(link, bytes, size)) fail("write: %s", strerror(errno));
}

void awaitPong(struct link *link) {
    char text[4097];
    size_t have = 0;
    for (double end = now() + opt.timeout;;) {
        struct pollfd ready = {.fd = link->fd, .events = POLLIN};
        if (now() > end) fail("no PONG within %d seconds", opt.timeout);
        if (!inTask() && !pendingTls(link) && poll(&ready, 1, 1000) <= 0) continue;
        ssize_t k = linkRead(link, text + have, sizeof text - 1 - have);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) fail("closed while waiting for PONG");
        have += (size_t) k;
        text[have] = 0;
        char *trouble = strstr(text, "-ERR");
        if (trouble) fail("%.*s", (int) strcspn(trouble, "\r\n"), trouble);
        if (strstr(text, "PONG\r\n")) return;
        if (have > 2048) { /* keep what may be the start of a PONG or of an error */
            memmove(text, text + have - 16, 16);
            have = 16;
        }
    }
}

static void openAt(struct link *link, int port, int receiveBuffer) {
    char text[1024];
    *link = (struct link){.fd = dial(port, receiveBuffer, true)};
    if (opt.websocket) {
        if (opt.tls) startTls(link);
        framesOpen(link);
        readInfo(link, port);
    } else {
        readInfo(link, port);
        if (opt.tls) startTls(link);
    }
    linkSend(link, text, connectText(text, sizeof text));
    awaitPong(link);
}

void linkOpen(struct link *link, int receiveBuffer) { openAt(link, opt.port, receiveBuffer); }

void linkOpenFar(struct link *link) { openAt(link, opt.farPort ? opt.farPort : opt.port, 0); }

void linkClose(struct link *link) {
    endTls(link);
    close(link->fd);
}
