/* Shared declarations of the load generator: what was asked for, a connection, and the clock.
 *
 * The generator speaks just enough of the NATS client protocol to load a server, and prints one line of JSON.
 * It knows nothing of either server: everything it needs comes from the command line. */
#ifndef LOAD_H
#define LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ssl_st;

/* The command line; load.c says what each one means and its default. */
struct options {
    const char *mode, *operation, *host, *queue, *user, *password;
    int port, farPort, farPid, publishers, subscribers, size, subjects, others, inFlight, connections, window, established;
    int timeout, writeSize, readSize, serverPid;
    long count;
    double seconds, warmup;
    bool fanout, headers, wild, tls, websocket;
};
extern struct options opt;

/* What has come of a WebSocket frame: the bytes of its header so far, or how much of its payload is still to come.
 * out is the frame that was made last, with room bytes of memory. */
struct framed {
    unsigned char head[10];
    size_t have, room;
    uint64_t rest;
    char *out;
};

/* One client connection; ssl is NULL on plain TCP, framed without WebSocket. Used by one thread at a time. */
struct link {
    int fd;
    struct ssl_st *ssl;
    struct framed *framed;
};

/* link.c: every one of these ends the program with a sentence on stderr when it fails, unless it says otherwise. */
double now(void);                                      /* seconds, monotonic */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void *obtain(size_t bytes);                            /* zeroed memory */
int dial(int port, int receiveBuffer, bool blocking);  /* a TCP socket; receiveBuffer 0 keeps the kernel's default */
void linkOpen(struct link *link, int receiveBuffer);   /* connect, INFO, TLS, CONNECT, PING, PONG */
void linkOpenFar(struct link *link);                   /* the same to --far-port, if there is one */
ssize_t linkRead(struct link *link, void *buffer, size_t size); /* as read(2): may return -1 or 0 */
int linkWrite(struct link *link, const void *bytes, size_t size); /* all of it: 0, or -1 with errno */
void linkSend(struct link *link, const void *bytes, size_t size); /* all of it, or fail */
void awaitPong(struct link *link);                     /* reads until PONG; fails on -ERR; only outside of traffic */
void linkClose(struct link *link);
size_t connectText(char *out, size_t room);            /* the CONNECT and PING lines */
const char *tlsName(struct link *link);                /* negotiated version and cipher, "" on plain TCP */

/* frames.c: WebSocket. */
void framesOpen(struct link *link);                    /* the HTTP request and its answer */
size_t frameMade(struct link *link, const char *bytes, size_t size); /* one masked frame, in framed->out: its length */
size_t framesTaken(struct link *link, char *bytes, size_t size); /* bytes without headers, in place; how many are left */

/* far.c: waits until the interest of one of two linked servers is known to the other; nothing without --far-port. */
void awaitInterest(bool inNear);                       /* of the near server's clients, else of the far one's */

/* tasks.c: functions that take turns in one thread, each until it has to wait for what a server sends. */
void startTask(void (*run)(void *), void *argument, bool serves); /* runs until it waits; one that serves others may wait for ever */
void awaitTasks(void);                                 /* until all have ended but those that serve */
bool inTask(void);
void awaitReadable(int fd);                            /* lets others run until there is something to read; only in a task */

/* report.c: processor time, percentiles and the error members every report carries. */
double serverSeconds(void);                            /* of --server-pid, with --far-pid, so far, or -1 */
double settledSeconds(void);                           /* the same, once the server has had nothing to do for a while */
double ownSeconds(void);                               /* processor seconds of this process so far */
double threadSeconds(void);                            /* processor seconds of the calling thread so far */
double share(double before, double after, double wall); /* cores used, or -1 when not known */
void sortSamples(uint32_t *samples, long count);
double microseconds(const uint32_t *sorted, long count, double quantile); /* of samples in units of 10 ns */

/* mirror.c: a socket that listens, and a line on stderr that says where. */
int listenOn(void);

/* the modes: each returns only through exit() or a report on stdout */
void runTraffic(void);
void runRequests(void);
void runIdle(void);
void runSubscriptions(void);
void runStorm(void);
void runStalled(void);
void runMirror(void);
void runRelay(void);
void runStore(void);
void runReplay(void);
void runAnswer(void);
void runPut(void);
void runGet(void);
void runBatch(void);
void runOrdered(void);
void runAssets(void);
void runOperations(void);
void runSparse(void);

/* traffic.c: the wire text that traffic, stalled and mirror share */
extern const char headerBlock[];
int headerLength(void);
size_t publishFrame(char *out, int subject);                        /* PUB or HPUB with payload */
size_t messageFrame(char *out, int subject, const char *sid);       /* the MSG or HMSG that results */

#endif
